import { Predicate, Result, Schema } from "effect"
import type { CompletionEvent } from "../../../../domain/completion/CompletionEvent.ts"
import type { Malformed, StreamReader, UpstreamSaid } from "../../Protocol.ts"
import { Answer } from "./Answer.ts"
import { Ending } from "./Ending.ts"
import { failureOf } from "./Failure.ts"
import type { Form } from "./Form.ts"
import { readOutputItem } from "./OutputItem.ts"

type Read = Result.Result<ReadonlyArray<CompletionEvent>, Malformed | UpstreamSaid>

/**
 * A streamed answer. Every event says what it is in its `type`; those of a kind not known here are passed over, since
 * the vendor adds kinds without notice.
 */
export class ResponseReader implements StreamReader {
  readonly #answer: Answer
  #ended = false
  #done = false

  constructor(form: Form) {
    this.#answer = new Answer(form)
  }

  read(data: string): Read {
    if (data === "[DONE]") {
      this.#done = true
      return nothing
    }
    let event: unknown
    try {
      event = JSON.parse(data)
    } catch {
      return Result.fail(malformed(`a frame of ${data.length} characters is not JSON`))
    }
    if (Predicate.hasProperty(event, "type") && typeof event.type === "string") return this.#read(event.type, event)
    return Predicate.hasProperty(event, "error") && event.error != null
      ? Result.fail(failureOf(event))
      : Result.fail(malformed("a frame is not an event"))
  }

  isComplete(): boolean {
    return this.#ended
  }

  isDone(): boolean {
    return this.#ended || this.#done
  }

  /** The last event always says how the answer ended. */
  finish(): ReadonlyArray<CompletionEvent> {
    return []
  }

  #read(type: string, event: unknown): Read {
    switch (type) {
      case "response.output_text.delta":
        // Nearly all events are such, and looking at them directly costs a fraction of what the schema does.
        if (isTextDelta(event)) return Result.succeed([this.#answer.text(event.output_index, event.delta)])
        return Result.fail(malformed("an event of text has no text"))
      case "response.refusal.delta":
        return read(decodePiece(event), ({ delta, output_index }) => [this.#answer.refusal(output_index, delta)])
      case "response.reasoning_summary_text.delta":
        return read(decodePiece(event), ({ delta, output_index, summary_index }) => [
          this.#answer.reasoning(output_index, `summary ${summary_index ?? 0}`, delta)
        ])
      case "response.reasoning_text.delta":
        return read(decodePiece(event), ({ content_index, delta, output_index }) => [
          this.#answer.reasoning(output_index, `text ${content_index ?? 0}`, delta)
        ])
      case "response.function_call_arguments.delta":
        return read(decodePiece(event), ({ delta, output_index }) => this.#answer.arguments(output_index, delta))
      case "response.output_item.added":
        return read(decodeBegun(event), ({ item, output_index }) =>
          isCall(item) ? Result.map(readOutputItem(item), (call) => this.#answer.begin(output_index, call)) : []
        )
      case "response.output_item.done":
        return read(decodeBegun(event), ({ item, output_index }) =>
          Result.map(readOutputItem(item), (done) => this.#answer.done(output_index, done))
        )
      case "response.completed":
      case "response.incomplete":
        return read(decodeEnding(event), ({ response }) => {
          this.#ended = true
          return this.#answer.end({ ...response, status: type.slice("response.".length) })
        })
      case "response.failed":
      case "response.cancelled":
      case "error":
        return Result.fail(failureOf(event))
      default:
        return nothing
    }
  }
}

const nothing: Read = Result.succeed([])

const malformed = (detail: string): Malformed => ({ _tag: "Malformed", detail })

type Events = ReadonlyArray<CompletionEvent>

const read = <A>(
  decoded: Result.Result<A, Schema.SchemaError>,
  events: (event: A) => Events | Result.Result<Events, Schema.SchemaError>
): Read =>
  decoded.pipe(
    Result.flatMap((event) => {
      const read = events(event)
      return Result.isResult(read) ? read : Result.succeed(read)
    }),
    Result.mapError((error) => malformed(`a frame is not an event: ${error.message}`))
  )

const Index = Schema.optionalKey(Schema.NullOr(Schema.Int))

const decodePiece = Schema.decodeUnknownResult(
  Schema.Struct({ output_index: Schema.Int, delta: Schema.String, summary_index: Index, content_index: Index })
)

const isTextDelta = (event: unknown): event is { readonly output_index: number; readonly delta: string } =>
  Predicate.hasProperty(event, "delta") &&
  typeof event.delta === "string" &&
  Predicate.hasProperty(event, "output_index") &&
  Number.isSafeInteger(event.output_index)

/** An item that has just been begun may lack what it has when it is done; but a call is named from the first. */
const decodeBegun = Schema.decodeUnknownResult(Schema.Struct({ output_index: Schema.Int, item: Schema.Unknown }))

const isCall = (item: unknown): boolean => Predicate.hasProperty(item, "type") && item.type === "function_call"

const decodeEnding = Schema.decodeUnknownResult(Schema.Struct({ response: Ending }))
