import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type AllowedPlace, AllowedTools } from "../../application/ports/storage/AllowedTools.ts"
import { AgentId } from "../../domain/agent/Agent.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { storable } from "./ConversationColumns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const InWorkspace = { organizationId: OrganizationId }

/** Sessions have names, so "" is none of theirs: it stands for all of an agent's. */
const Place = { ...InWorkspace, agentId: AgentId, sessionId: Schema.String }

export const layer = Layer.effect(
  AllowedTools,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make

    const allowTool = SqlSchema.void({
      Request: Schema.Struct({ ...Place, tool: Schema.String }),
      execute: (row) => sql`INSERT INTO allowed_tools ${sql.insert(row)} ON CONFLICT DO NOTHING`
    })

    const toolsOf = SqlSchema.findAll({
      Request: Schema.Struct(Place),
      Result: Schema.Struct({ tool: Schema.String }),
      execute: ({ agentId, organizationId, sessionId }) => sql`
        SELECT tool FROM allowed_tools
        WHERE organization_id = ${organizationId} AND agent_id = ${agentId} AND session_id = ${sessionId}`
    })

    const forgetSession = SqlSchema.void({
      Request: Schema.Struct({ ...InWorkspace, sessionId: SessionId }),
      execute: ({ organizationId, sessionId }) => sql`
        DELETE FROM allowed_tools WHERE organization_id = ${organizationId} AND session_id = ${sessionId}`
    })

    const forgetAgent = SqlSchema.void({
      Request: Schema.Struct({ ...InWorkspace, agentId: AgentId }),
      execute: ({ agentId, organizationId }) => sql`
        DELETE FROM allowed_tools WHERE organization_id = ${organizationId} AND agent_id = ${agentId}`
    })

    const placeOf = (organizationId: OrganizationId, { agent, session }: AllowedPlace) => ({
      organizationId,
      agentId: agent,
      sessionId: session ?? ""
    })

    return AllowedTools.of({
      allow: Effect.fn("AllowedTools.allow")(function* (organizationId, place, tool) {
        const row = { ...placeOf(organizationId, place), tool: storable(tool) }
        yield* Effect.catch(briefly(allowTool(row)), toDefect)
      }),
      of: Effect.fn("AllowedTools.of")(function* (organizationId, place) {
        const rows = yield* Effect.catch(briefly(toolsOf(placeOf(organizationId, place))), toDefect)
        return new Set(rows.map(({ tool }) => tool))
      }),
      forgetSession: Effect.fn("AllowedTools.forgetSession")(function* (organizationId, sessionId) {
        yield* Effect.catch(briefly(forgetSession({ organizationId, sessionId })), toDefect)
      }),
      forgetAgent: Effect.fn("AllowedTools.forgetAgent")(function* (organizationId, agentId) {
        yield* Effect.catch(briefly(forgetAgent({ organizationId, agentId })), toDefect)
      })
    })
  })
)
