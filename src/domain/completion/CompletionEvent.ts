import type { Usage } from "../billing/Usage.ts"
import type { FinishReason, ServedTier } from "./Completion.ts"

/**
 * What arrives of a streamed answer, in order. Plain records: thousands pass every second, and each was checked when
 * its vendor's chunk was read. `Usage` may come more than once; the last one counts.
 */
export type CompletionEvent = Delta | UsageReported

export interface Delta {
  readonly _tag: "Delta"
  readonly index: number
  readonly role?: "assistant"
  readonly content?: string
  readonly reasoning?: string
  readonly refusal?: string
  readonly toolCalls?: ReadonlyArray<ToolCallDelta>
  readonly finishReason?: FinishReason
  readonly serviceTier?: ServedTier
}

/** A piece of a tool call. `id` and `name` come with its first piece only. */
export interface ToolCallDelta {
  readonly index: number
  readonly id?: string
  readonly name?: string
  readonly arguments?: string
}

export interface UsageReported {
  readonly _tag: "Usage"
  readonly usage: Usage
  /** True before the answer: the input is counted, the output is still to come. */
  readonly isOfInput?: true
}
