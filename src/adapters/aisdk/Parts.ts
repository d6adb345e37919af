import { none, type Usage } from "../../domain/billing/Usage.ts"
import type { FinishReason } from "../../domain/completion/Completion.ts"
import type { CompletionEvent, Delta } from "../../domain/completion/CompletionEvent.ts"
import { Keeper } from "./KeptMetadata.ts"
import type { StreamPart } from "./Sdk.ts"

type Finish = Extract<StreamPart, { readonly type: "finish" }>

/** A part that says that the answer failed. */
export type Broken =
  | { readonly _tag: "Broken"; readonly error: unknown }
  /** The connection ended well, the answer did not. */
  | { readonly _tag: "CutOff" }

/** Reads the parts of one streamed answer. Mutable on purpose, one per answer. */
export class PartReader {
  readonly #keeper: Keeper
  #calls = 0
  #isComplete = false

  constructor(provider: string) {
    this.#keeper = new Keeper(provider)
  }

  /** Whether the vendor said that the answer is complete. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  read(part: StreamPart): ReadonlyArray<CompletionEvent> | Broken {
    switch (part.type) {
      case "text-delta":
        return part.delta === "" ? [] : [delta({ content: part.delta })]
      case "reasoning-start":
      case "reasoning-end":
        this.#keeper.thought(part.id, "", part.providerMetadata)
        return []
      case "reasoning-delta":
        this.#keeper.thought(part.id, part.delta, part.providerMetadata)
        return part.delta === "" ? [] : [delta({ reasoning: part.delta })]
      // Its pieces come before: nothing can be done with them, and what has to come back is known only now.
      case "tool-call": {
        // The vendor ran it itself.
        if (part.providerExecuted === true) return []
        const id = this.#keeper.call(part.toolCallId, part.providerMetadata)
        return [delta({ toolCalls: [{ index: this.#calls++, id, name: part.toolName, arguments: part.input }] })]
      }
      case "finish":
        return this.#finish(part)
      case "error":
        return { _tag: "Broken", error: part.error }
      default:
        return []
    }
  }

  #finish({ finishReason, usage }: Finish): ReadonlyArray<CompletionEvent> | Broken {
    const reason = reasonOf(finishReason, this.#calls)
    if (reason === undefined) return { _tag: "CutOff" }
    this.#isComplete = true
    const counted = usageOf(usage)
    return [delta({ finishReason: reason }), ...(counted === undefined ? [] : [counted])]
  }
}

const delta = (fields: Omit<Delta, "_tag" | "index">): Delta => ({ _tag: "Delta", index: 0, ...fields })

/** Undefined: the vendor did not say that the answer is complete. */
const reasonOf = ({ raw, unified }: Finish["finishReason"], calls: number): FinishReason | undefined => {
  switch (unified) {
    case "length":
      return "length"
    case "content-filter":
      return "content_filter"
    case "tool-calls":
      return "tool_calls"
    case "interrupted":
    case "error":
      return undefined
    case "stop":
      return calls > 0 ? "tool_calls" : "stop"
    case "other":
      return raw === undefined ? undefined : calls > 0 ? "tool_calls" : "stop"
  }
}

/** In disjoint buckets. Undefined where the vendor counted nothing. */
const usageOf = ({ inputTokens, outputTokens }: Finish["usage"]): CompletionEvent | undefined => {
  if (inputTokens.total === undefined && outputTokens.total === undefined) return undefined
  const cacheRead = tokens(inputTokens.cacheRead)
  const cacheWrite = tokens(inputTokens.cacheWrite)
  const reasoning = tokens(outputTokens.reasoning)
  const usage: Usage = {
    ...none,
    input: tokens(inputTokens.noCache ?? tokens(inputTokens.total) - cacheRead - cacheWrite),
    cacheRead,
    cacheWrite,
    output: tokens(outputTokens.text ?? tokens(outputTokens.total) - reasoning),
    reasoning
  }
  return { _tag: "Usage", usage }
}

/** What cannot be a count is as good as none. */
const tokens = (count: number | undefined): number =>
  count !== undefined && Number.isSafeInteger(count) && count > 0 ? count : 0
