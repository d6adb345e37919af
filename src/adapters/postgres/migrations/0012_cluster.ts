import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What the processes of a cluster know each other by: who reads the store is one of them. Its bits are from the
 * generator that the server has for keys.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE cluster_key (
      is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
      key     bytea NOT NULL
    )`
  yield* sql`
    INSERT INTO cluster_key (key)
    SELECT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))`
})
