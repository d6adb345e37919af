import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { SessionLlms } from "../../application/ports/storage/SessionLlms.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { LlmOverride } from "../../domain/llm/Llm.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const Key = Schema.Struct({ organizationId: OrganizationId, sessionId: SessionId })

const { baseURL, maxInputTokens: _maxInputTokens, ...sameName } = LlmOverride.fields

/** The columns of an override in `session_llms`, in both directions. */
const columns = { ...sameName, baseUrl: baseURL, maxInputTokens: Schema.NullOr(SafeInt8) }

export const layer = Layer.effect(
  SessionLlms,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make

    const putRow = SqlSchema.void({
      Request: Schema.Struct({ ...Key.fields, ...columns }),
      execute: (row) => sql`
        INSERT INTO session_llms ${sql.insert(row)}
        ON CONFLICT (organization_id, session_id)
        DO UPDATE SET provider = excluded.provider, model = excluded.model, router = excluded.router,
          base_url = excluded.base_url, max_input_tokens = excluded.max_input_tokens,
          key_variable = excluded.key_variable`
    })

    const findRow = SqlSchema.findOneOption({
      Request: Key,
      Result: Schema.Struct(columns),
      execute: ({ organizationId, sessionId }) => sql`
        SELECT provider, model, router, base_url, max_input_tokens, key_variable FROM session_llms
        WHERE organization_id = ${organizationId} AND session_id = ${sessionId}`
    })

    const removeRow = SqlSchema.void({
      Request: Key,
      execute: ({ organizationId, sessionId }) =>
        sql`DELETE FROM session_llms WHERE organization_id = ${organizationId} AND session_id = ${sessionId}`
    })

    return SessionLlms.of({
      put: Effect.fn("SessionLlms.put")(function* (organizationId, sessionId, { baseURL, ...override }) {
        yield* Effect.catch(putRow({ organizationId, sessionId, baseUrl: baseURL, ...override }), toDefect)
      }),
      find: Effect.fn("SessionLlms.find")(function* (organizationId, sessionId) {
        const row = yield* Effect.catch(briefly(findRow({ organizationId, sessionId })), toDefect)
        return Option.map(row, ({ baseUrl, ...override }): LlmOverride => ({ ...override, baseURL: baseUrl }))
      }),
      remove: Effect.fn("SessionLlms.remove")(function* (organizationId, sessionId) {
        yield* Effect.catch(removeRow({ organizationId, sessionId }), toDefect)
      })
    })
  })
)
