import { Option, Schema } from "effect"
import type { ToolCall } from "../../../../domain/completion/ChatMessage.ts"
import { attach, payloadOf } from "../../../../domain/completion/Continuation.ts"

/** The vendor signs its thinking and wants it back unchanged; `thinking` is empty where it does not show the text. */
export const ThinkingBlock = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.String,
  signature: Schema.NonEmptyString
})

/** Thinking that the vendor encrypted. */
export const RedactedBlock = Schema.Struct({
  type: Schema.Literal("redacted_thinking"),
  data: Schema.NonEmptyString
})

const Thought = Schema.Union([ThinkingBlock, RedactedBlock])
export type Thought = typeof Thought.Type

const Length = Schema.Int.check(Schema.isGreaterThan(0))

/**
 * What an answer has before its tool call number `call`, since the one before: thinking, and text by its length, for the
 * client returns the text itself. Blocks have to go back in the order in which they came.
 */
const Kept = Schema.Struct({
  anthropic: Schema.Struct({ call: Schema.Int, before: Schema.Array(Schema.Union([Thought, Length])) })
})

const decode = Schema.decodeUnknownOption(Kept)

/** Follows the blocks of an answer and puts what has to come back into the ids of its tool calls. */
export class Keeper {
  #before: Array<Thought | number> = []
  #thought = false
  #calls = 0

  /** A text block of this many characters. */
  text(length: number): void {
    if (length > 0) this.#before.push(length)
  }

  thinking(block: Thought): void {
    this.#before.push(block)
    this.#thought = true
  }

  /** The id for the client. Without thinking there is nothing to keep: the text of an answer may stand first. */
  call(id: string): string {
    const before = this.#before
    const call = this.#calls++
    this.#before = []
    return this.#thought && before.length > 0 ? attach(id, { anthropic: { call, before } }) : id
  }
}

/** An assistant's message in the order of the answer that it was. */
export interface Restored {
  /** Before each of the tool calls. */
  readonly before: ReadonlyArray<ReadonlyArray<Thought | string>>
  readonly rest: string
}

/**
 * Undefined when nothing was kept, or when it is not of this message: a call is missing or moved, or there is less text
 * than there was. The vendor refuses thinking in a place where it did not come from.
 */
export const restore = (calls: ReadonlyArray<ToolCall>, text: string): Restored | undefined => {
  let at = 0
  let found = false
  const before: Array<ReadonlyArray<Thought | string>> = []
  for (const [index, { id }] of calls.entries()) {
    const kept = Option.getOrUndefined(Option.flatMap(payloadOf(id), decode))?.anthropic
    if (kept !== undefined && kept.call !== index) return undefined
    found ||= kept !== undefined
    before.push((kept?.before ?? []).map((part) => (typeof part === "number" ? text.slice(at, (at += part)) : part)))
  }
  return found && at <= text.length ? { before, rest: text.slice(at) } : undefined
}
