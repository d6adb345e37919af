import { Context, type Effect } from "effect"
import type { AgentId } from "../../../domain/agent/Agent.ts"
import type { SessionId } from "../../../domain/conversation/Session.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** Tools that a person has allowed for good (`rememberChoice`, decisions 6): of an agent, or of one of its sessions. */
export class AllowedTools extends Context.Service<
  AllowedTools,
  {
    /** Durable when it returns, and in force on every replica. */
    readonly allow: (workspace: OrganizationId, place: AllowedPlace, tool: string) => Effect.Effect<void>
    /** What was allowed at exactly this place. */
    readonly of: (workspace: OrganizationId, place: AllowedPlace) => Effect.Effect<ReadonlySet<string>>
    /** Forgets what was allowed in a session, by whatever agent. */
    readonly forgetSession: (workspace: OrganizationId, session: SessionId) => Effect.Effect<void>
    /** Forgets what was allowed to an agent, in its sessions too. */
    readonly forgetAgent: (workspace: OrganizationId, agent: AgentId) => Effect.Effect<void>
  }
>()("gateway/ports/storage/AllowedTools") {}

export interface AllowedPlace {
  readonly agent: AgentId
  /** Undefined: in all sessions of the agent. */
  readonly session: SessionId | undefined
}
