import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What was allowed in all sessions of an agent has no name of a session. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE allowed_tools (
      organization_id text NOT NULL REFERENCES organizations,
      agent_id        text COLLATE "C" NOT NULL,
      session_id      text COLLATE "C" NOT NULL DEFAULT '',
      tool            text COLLATE "C" NOT NULL,
      PRIMARY KEY (organization_id, agent_id, session_id, tool)
    )`
})
