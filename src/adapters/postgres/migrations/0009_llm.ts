import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** A row may be there before its session is: a model can be chosen for a conversation that is yet to begin. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE session_llms (
      organization_id  text NOT NULL REFERENCES organizations,
      session_id       text NOT NULL,
      provider         text NOT NULL,
      model            text NOT NULL,
      router           text NOT NULL,
      base_url         text,
      max_input_tokens bigint,
      key_variable     text,
      PRIMARY KEY (organization_id, session_id)
    )`
})
