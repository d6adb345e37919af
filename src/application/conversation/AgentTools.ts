import { Context, Effect, Layer } from "effect"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
import type { AgentTool } from "./AgentTool.ts"
import { KeptMedia } from "./KeptMedia.ts"
import { InternalTools } from "./tools/InternalTools.ts"
import { mcpTools } from "./tools/McpTools.ts"

/** The tools of agents (decisions 7): those of their MCP servers as `server--tool`, and the internal ones. */
export class AgentTools extends Context.Service<
  AgentTools,
  {
    /** What the model may call. A server that is down has none, and says so in the log. Names are unique. */
    readonly of: (workspace: OrganizationId, agent: RunningAgent) => Effect.Effect<ReadonlyArray<AgentTool>>
  }
>()("gateway/conversation/AgentTools") {
  static readonly layer = Layer.effect(
    AgentTools,
    Effect.gen(function* () {
      const internal = yield* InternalTools
      const kept = yield* KeptMedia

      return AgentTools.of({
        of: Effect.fn("AgentTools.of")(function* (_workspace, { config, file, mcp }) {
          return [...(yield* internal.of(file.id, config.internalTools)), ...(yield* mcpTools(mcp, kept))]
        })
      })
    })
  ).pipe(Layer.provide(InternalTools.layer), Layer.provide(KeptMedia.layer))
}
