import { Effect, Layer, Option } from "effect"
import { SessionLlms } from "../../application/ports/storage/SessionLlms.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { LlmOverride } from "../../domain/llm/Llm.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

export const layer = Layer.effect(
  SessionLlms,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, Map<SessionId, LlmOverride>>()

    return SessionLlms.of({
      put: (workspace, session, override) =>
        Effect.suspend(() => {
          if (!organizations.has(workspace)) return Effect.die(new Error(`no organization ${workspace}`))
          const own = stored.get(workspace) ?? new Map<SessionId, LlmOverride>()
          stored.set(workspace, own.set(session, override))
          return Effect.void
        }),
      find: (workspace, session) => Effect.sync(() => Option.fromUndefinedOr(stored.get(workspace)?.get(session))),
      remove: (workspace, session) => Effect.sync(() => void stored.get(workspace)?.delete(session))
    })
  })
)
