import { Predicate, Result, Schema } from "effect"
import type { CompletionEvent, Delta, ToolCallDelta } from "../../../../domain/completion/CompletionEvent.ts"
import type { Malformed, StreamReader, UpstreamSaid } from "../../Protocol.ts"
import {
  betweenThoughts,
  Maybe,
  OtherBlock,
  readStop,
  refusalOf,
  StopDetails,
  TextBlock,
  ToolUseBlock
} from "./Answer.ts"
import { inBandError } from "./Errors.ts"
import { Keeper, RedactedBlock } from "./KeptThinking.ts"
import { laterUsage, readTier, readUsage } from "./TokenUsage.ts"

const Start = Schema.Struct({
  type: Schema.Literal("message_start"),
  message: Schema.Struct({ usage: Schema.optionalKey(Schema.Unknown) })
})

const BlockStart = Schema.Struct({
  type: Schema.Literal("content_block_start"),
  index: Schema.Int,
  content_block: Schema.Union([
    TextBlock,
    // Signed at its end.
    Schema.Struct({
      type: Schema.Literal("thinking"),
      thinking: Schema.String,
      signature: Maybe(Schema.String)
    }),
    RedactedBlock,
    ToolUseBlock,
    OtherBlock
  ])
})

const knownDeltas = new Set(["input_json_delta", "signature_delta", "text_delta", "thinking_delta"])

const BlockDelta = Schema.Struct({
  type: Schema.Literal("content_block_delta"),
  index: Schema.Int,
  delta: Schema.Union([
    Schema.Struct({ type: Schema.Literal("text_delta"), text: Schema.String }),
    Schema.Struct({ type: Schema.Literal("thinking_delta"), thinking: Schema.String }),
    Schema.Struct({ type: Schema.Literal("signature_delta"), signature: Schema.String }),
    Schema.Struct({ type: Schema.Literal("input_json_delta"), partial_json: Schema.String }),
    // Citations, and what is to come.
    Schema.Struct({
      type: Schema.String.check(
        Schema.makeFilter((type) => (knownDeltas.has(type) ? `Expected the fields of a ${type}` : undefined))
      )
    })
  ])
})

const BlockStop = Schema.Struct({ type: Schema.Literal("content_block_stop"), index: Schema.Int })

const MessageDelta = Schema.Struct({
  type: Schema.Literal("message_delta"),
  delta: Schema.Struct({ stop_reason: Maybe(Schema.String), stop_details: StopDetails }),
  usage: Schema.optionalKey(Schema.Unknown)
})

const knownEvents = new Set([
  "content_block_delta",
  "content_block_start",
  "content_block_stop",
  "message_delta",
  "message_start"
])

const decodeEvent = Schema.decodeUnknownResult(Schema.Union([Start, BlockStart, BlockDelta, BlockStop, MessageDelta]))

type Known = (typeof Start | typeof BlockStart | typeof BlockDelta | typeof BlockStop | typeof MessageDelta)["Type"]

/** What is known of a block between its start and its stop. */
type Open =
  | { readonly kind: "text"; length: number }
  | { readonly kind: "thinking"; thinking: string; signature: string }
  | { readonly kind: "call"; readonly call: number; readonly input: Schema.JsonObject; hasArguments: boolean }

const malformed = (detail: string): Malformed => ({ _tag: "Malformed", detail })

/** The state of one stream: its open blocks, what it thought, and the usage so far. */
export class Reader implements StreamReader {
  #done = false
  #finished = false
  #reasoned = false
  #calls = 0
  #usage: unknown = undefined
  readonly #keeper = new Keeper()
  readonly #open = new Map<number, Open>()

  read(data: string): Result.Result<ReadonlyArray<CompletionEvent>, Malformed | UpstreamSaid> {
    let json: unknown
    try {
      json = JSON.parse(data)
    } catch {
      return Result.fail(malformed(`a frame of ${data.length} characters is not JSON`))
    }
    const text = this.#textOnly(json)
    if (text !== undefined) return Result.succeed([{ _tag: "Delta", index: 0, content: text }])
    const failure = inBandError(json)
    if (failure !== undefined) return Result.fail(failure)
    if (!Predicate.hasProperty(json, "type") || typeof json.type !== "string") {
      return Result.fail(malformed("a frame is not an event: it has no type"))
    }
    if (json.type === "message_stop") this.#done = true
    // `ping`, and what is to come.
    if (!knownEvents.has(json.type)) return Result.succeed([])
    const event = decodeEvent(json)
    return Result.isFailure(event)
      ? Result.fail(malformed(`a frame is not a ${json.type}: ${event.failure.message}`))
      : this.#take(event.success)
  }

  isComplete(): boolean {
    return this.#done || this.#finished
  }

  isDone(): boolean {
    return this.#done
  }

  finish(): ReadonlyArray<CompletionEvent> {
    return this.#finished ? [] : [{ _tag: "Delta", index: 0, finishReason: readStop(undefined, this.#calls > 0) }]
  }

  #take(event: Known): Result.Result<ReadonlyArray<CompletionEvent>, Malformed> {
    switch (event.type) {
      case "message_start":
        return Result.succeed(this.#begin(event.message.usage))
      case "content_block_start":
        return Result.succeed(this.#start(event))
      case "content_block_delta":
        return this.#delta(event)
      case "content_block_stop":
        return Result.succeed(this.#stop(event.index))
      case "message_delta":
        return Result.succeed(this.#message(event))
    }
  }

  #begin(reported: unknown): ReadonlyArray<CompletionEvent> {
    this.#usage = reported
    const usage = readUsage(reported)
    return [
      { _tag: "Delta", index: 0, role: "assistant", ...readTier(reported) },
      ...(usage === undefined ? [] : [{ _tag: "Usage", usage, isOfInput: true } as const])
    ]
  }

  #start({ content_block: block, index }: typeof BlockStart.Type): ReadonlyArray<CompletionEvent> {
    if ("text" in block) {
      this.#open.set(index, { kind: "text", length: block.text.length })
      return block.text === "" ? [] : [{ _tag: "Delta", index: 0, content: block.text }]
    }
    if ("thinking" in block) {
      const open: Open = { kind: "thinking", thinking: "", signature: block.signature ?? "" }
      this.#open.set(index, open)
      return this.#think(open, block.thinking)
    }
    if ("data" in block) {
      this.#keeper.thinking(block)
      return []
    }
    if (!("name" in block)) return []
    const call = this.#calls++
    this.#open.set(index, { kind: "call", call, input: block.input ?? {}, hasArguments: false })
    return [called({ index: call, id: this.#keeper.call(block.id), name: block.name, arguments: "" })]
  }

  #delta({ delta, index }: typeof BlockDelta.Type): Result.Result<ReadonlyArray<CompletionEvent>, Malformed> {
    const open = this.#open.get(index)
    if ("text" in delta && open?.kind === "text") {
      open.length += delta.text.length
      return Result.succeed([{ _tag: "Delta", index: 0, content: delta.text }])
    }
    if ("thinking" in delta && open?.kind === "thinking") return Result.succeed(this.#think(open, delta.thinking))
    if ("signature" in delta && open?.kind === "thinking") {
      open.signature += delta.signature
      return Result.succeed([])
    }
    if ("partial_json" in delta && open?.kind === "call") {
      if (delta.partial_json === "") return Result.succeed([])
      open.hasArguments = true
      return Result.succeed([called({ index: open.call, arguments: delta.partial_json })])
    }
    // Deltas of the blocks that are passed over. A known one has to be of a block of its kind.
    return knownDeltas.has(delta.type) && open !== undefined
      ? Result.fail(malformed(`a ${delta.type} is of a ${open.kind} block`))
      : Result.succeed([])
  }

  #think(open: Extract<Open, { readonly kind: "thinking" }>, thinking: string): ReadonlyArray<CompletionEvent> {
    if (thinking === "") return []
    const apart = open.thinking === "" && this.#reasoned
    this.#reasoned = true
    open.thinking += thinking
    return [{ _tag: "Delta", index: 0, reasoning: apart ? betweenThoughts + thinking : thinking }]
  }

  #stop(index: number): ReadonlyArray<CompletionEvent> {
    const open = this.#open.get(index)
    this.#open.delete(index)
    switch (open?.kind) {
      case "text":
        this.#keeper.text(open.length)
        return []
      case "thinking": {
        const { signature, thinking } = open
        if (signature !== "") this.#keeper.thinking({ type: "thinking", thinking, signature })
        return []
      }
      case "call":
        // Arguments that never came in pieces still have to be JSON.
        return open.hasArguments ? [] : [called({ index: open.call, arguments: JSON.stringify(open.input) })]
      default:
        return []
    }
  }

  /** The usage of the start is of the input only; here it is about complete. */
  #message({ delta, usage }: typeof MessageDelta.Type): ReadonlyArray<CompletionEvent> {
    this.#usage = laterUsage(this.#usage, usage)
    const counted = readUsage(this.#usage)
    const refusal = refusalOf(delta.stop_reason, delta.stop_details)
    const ended = delta.stop_reason != null && !this.#finished
    if (ended) this.#finished = true
    const last: Delta = {
      _tag: "Delta",
      index: 0,
      ...(refusal === undefined ? {} : { refusal }),
      finishReason: readStop(delta.stop_reason, this.#calls > 0)
    }
    return [...(ended ? [last] : []), ...(counted === undefined ? [] : [{ _tag: "Usage", usage: counted } as const])]
  }

  /**
   * The text of an event that says nothing else. Nearly all are such, and looking at them directly costs a fraction of
   * what the schema does.
   */
  #textOnly(event: unknown): string | undefined {
    if (!Predicate.isObject(event)) return undefined
    const { delta, index, type } = event as Readonly<Record<string, unknown>>
    if (type !== "content_block_delta" || typeof index !== "number" || !Predicate.isObject(delta)) return undefined
    const { text, type: kind } = delta as Readonly<Record<string, unknown>>
    if (kind !== "text_delta" || typeof text !== "string") return undefined
    const open = this.#open.get(index)
    if (open?.kind !== "text") return undefined
    open.length += text.length
    return text
  }
}

const called = (call: ToolCallDelta): Delta => ({ _tag: "Delta", index: 0, toolCalls: [call] })
