import type { Usage } from "../billing/Usage.ts"
import type { ToolCall } from "./ChatMessage.ts"

export type FinishReason = "content_filter" | "length" | "stop" | "tool_calls"

/** The tier that was served, where the vendor tells. */
export type ServedTier = "default" | "priority"

/** A model's whole answer, whatever wire it came over. */
export interface Completion {
  readonly choices: ReadonlyArray<Choice>
  readonly serviceTier?: ServedTier
  /** Undefined: the vendor reported none. */
  readonly usage?: Usage
}

export interface Choice {
  readonly index: number
  readonly finishReason: FinishReason | null
  readonly content: string | null
  readonly reasoning?: string
  readonly refusal?: string
  readonly toolCalls?: ReadonlyArray<ToolCall>
}
