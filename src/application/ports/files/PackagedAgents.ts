import { Context, type Effect } from "effect"
import type { Agent } from "../../../domain/agent/Agent.ts"

/** The agents that come with the service (decisions 3), in their registry's order; the first is a new workspace's. */
export class PackagedAgents extends Context.Service<
  PackagedAgents,
  {
    readonly list: Effect.Effect<ReadonlyArray<PackagedAgent>>
  }
>()("gateway/ports/files/PackagedAgents") {}

export interface PackagedAgent {
  /** Its `type` is `builtin`. */
  readonly agent: Agent
  /** The name of its configuration file. */
  readonly main: string
  /** Its files by their path in the agent's directory. */
  readonly files: ReadonlyMap<string, Uint8Array>
}
