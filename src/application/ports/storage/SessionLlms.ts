import { Context, type Effect, type Option } from "effect"
import type { SessionId } from "../../../domain/conversation/Session.ts"
import type { LlmOverride } from "../../../domain/llm/Llm.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** The choices of a model that sessions have made for themselves (decisions 5): at most one of each session. */
export class SessionLlms extends Context.Service<
  SessionLlms,
  {
    /** Takes the place of the session's earlier one. The session need not exist yet. */
    readonly put: (workspace: OrganizationId, session: SessionId, override: LlmOverride) => Effect.Effect<void>
    readonly find: (workspace: OrganizationId, session: SessionId) => Effect.Effect<Option.Option<LlmOverride>>
    readonly remove: (workspace: OrganizationId, session: SessionId) => Effect.Effect<void>
  }
>()("gateway/ports/storage/SessionLlms") {}
