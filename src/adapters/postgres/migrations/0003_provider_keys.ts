import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The texts of the keys are encrypted (see `SecretsLive`): a dump of the table opens no provider's account. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE provider_keys (
      organization_id text NOT NULL REFERENCES organizations,
      provider        text NOT NULL,
      hint            text NOT NULL,
      sealed          text NOT NULL,
      created_at      bigint NOT NULL,
      PRIMARY KEY (organization_id, provider)
    )`
})
