import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * One row for each key that is claimed (`body` is null) or answered. From `expires_at` on the key is free, whether its
 * claim has lapsed or its answer is old, and the row may be deleted.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE idempotent_answers (
      organization_id text NOT NULL,
      key             text NOT NULL,
      claim           text NOT NULL,
      digest          text NOT NULL,
      body            text,
      expires_at      timestamptz NOT NULL,
      PRIMARY KEY (organization_id, key)
    )`
  yield* sql`CREATE INDEX idempotent_answers_by_expiry ON idempotent_answers (expires_at)`
})
