import type { Effect, Schema } from "effect"
import type { ApprovalAnswer } from "../../domain/conversation/Approval.ts"
import type { ContentPart } from "../../domain/conversation/Message.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"

/** Something that a model may have done for it. */
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
