import { Context, Effect, Layer } from "effect"
import type { AgentId } from "../../../domain/agent/Agent.ts"
import type { AgentTool } from "../AgentTool.ts"
import { KeptMedia } from "../KeptMedia.ts"
import { askUser } from "./AskUser.ts"
import { saveMemory, searchMemory } from "./MemoryTools.ts"
import { readResource } from "./ReadResource.ts"
import { searchHistory } from "./SearchHistory.ts"

/** The tools that the service itself has (decisions 7). */
export class InternalTools extends Context.Service<
  InternalTools,
  {
    /** Those that an agent's `internalTools` lists. One that there is not is missing, and the log says so. */
    readonly of: (agent: AgentId, names: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<AgentTool>>
  }
>()("gateway/conversation/InternalTools") {
  static readonly layer = Layer.effect(
    InternalTools,
    Effect.gen(function* () {
      const all: ReadonlyArray<AgentTool> = [
        yield* searchHistory,
        yield* saveMemory,
        yield* searchMemory,
        yield* readResource,
        askUser
      ]
      const byName = new Map(all.map((tool) => [tool.name, tool]))

      const of = Effect.fnUntraced(function* (agent: AgentId, names: ReadonlyArray<string>) {
        const found: Array<AgentTool> = []
        for (const name of new Set(names)) {
          const tool = byName.get(name)
          if (tool !== undefined) found.push(tool)
          else {
            const known = [...byName.keys()].join(", ")
            yield* Effect.logWarning("An agent lists an internal tool that there is not.", { agent, tool: name, known })
          }
        }
        return found
      })

      return InternalTools.of({ of })
    })
  ).pipe(Layer.provide(KeptMedia.layer))
}
