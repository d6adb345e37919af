import { Context, Effect, Layer, type Schema } from "effect"
import type { ApprovalAnswer } from "../../domain/conversation/Approval.ts"
import type { ContentPart } from "../../domain/conversation/Message.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
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

export interface AgentTool {
  /** As the model sees it: 1 to 64 characters of `A-Za-z0-9_-`. */
  readonly name: string
  /** Names by which the agent's `toolPolicies` may speak of it. */
  readonly policyNames: ReadonlyArray<string>
  readonly description: string
  readonly parameters: Schema.JsonObject
  /** Running it again does no harm: it only reads, or says that it may be repeated. */
  readonly isIdempotent: boolean
  /** Never needs an approval: it asks a person itself. */
  readonly asksItself: boolean
  /** What goes wrong is an outcome too: the model is told. */
  readonly run: (args: Schema.JsonObject, call: ToolCallContext) => Effect.Effect<ToolOutcome>
}

export interface ToolCallContext {
  readonly turn: TurnRef
  readonly callId: string
  /** Asks a person to fill in a form; waits for the answer, which may be a refusal. */
  readonly elicit: (form: {
    readonly message: string
    /** JSON schema of `formData`. */
    readonly schema: Schema.JsonObject
    /** The MCP server that asks; undefined: the agent. */
    readonly serverName?: string
  }) => Effect.Effect<ApprovalAnswer>
}

export interface ToolOutcome {
  readonly success: boolean
  /** What the model is told. */
  readonly text: string
  /** Images and files that the model may be shown beside the text: blobs of the session. */
  readonly media?: ReadonlyArray<ContentPart>
  /** What listeners are shown: parts as MCP has them, bounded, large data as blobs of the workspace. */
  readonly content: ReadonlyArray<Schema.Json>
  readonly meta: Readonly<Record<string, Schema.Json>>
}
