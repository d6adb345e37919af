import { ByteSize, Effect, Schema } from "effect"
import { HttpIncomingMessage, HttpServerRequest } from "effect/http"

/** The body is longer than the route takes. */
export class BodyTooLarge extends Schema.TaggedError<BodyTooLarge>()("BodyTooLarge", { limit: Schema.Int }) {
  override get message() {
    return `The request body is larger than ${this.limit} bytes.`
  }
}

/** The body is not JSON in UTF-8. */
export class InvalidJson extends Schema.TaggedError<InvalidJson>()("InvalidJson", { detail: Schema.String }) {
  override get message() {
    return `The request body is not valid JSON: ${this.detail}`
  }
}

/** The JSON is more intricate than any store or vendor has to bear. */
export class TooIntricate extends Schema.TaggedError<TooIntricate>()("TooIntricate", { problem: Schema.String }) {
  override get message() {
    return `The request body ${this.problem}.`
  }
}

const deepest = 128

/** A value of two bytes takes a hundred in memory: 32 MiB of them would take gigabytes and seconds. */
const mostValues = 500_000

const utf8 = new TextDecoder("utf-8", { fatal: true })

export interface JsonBody {
  readonly value: unknown
  /** Its length as it came. */
  readonly bytes: number
}

/** The request's body as JSON: at most `limit` bytes whatever the headers say, strict UTF-8, of bounded depth and number. */
export const read = (
  limit: number
): Effect.Effect<JsonBody, BodyTooLarge | InvalidJson | TooIntricate, HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (Number(request.headers["content-length"] ?? 0) > limit) return yield* new BodyTooLarge({ limit })
    const bytes = yield* request.arrayBuffer.pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(limit)),
      Effect.mapError(({ reason }) =>
        reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
          ? new BodyTooLarge({ limit })
          : new InvalidJson({ detail: "it broke off before its end." })
      )
    )
    if (bytes.byteLength === 0) return yield* new InvalidJson({ detail: "it is empty." })
    const text = yield* Effect.try({
      try: () => utf8.decode(bytes),
      catch: () => new InvalidJson({ detail: "it is not UTF-8." })
    })
    const { depth, values } = extentOf(text)
    if (depth > deepest) {
      return yield* new TooIntricate({ problem: `is nested deeper than ${deepest} levels` })
    }
    if (values > mostValues) return yield* new TooIntricate({ problem: `has more than ${mostValues} values` })
    const value = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: (error) => new InvalidJson({ detail: `${error instanceof Error ? error.message : String(error)}.` })
    })
    return { value, bytes: bytes.byteLength }
  })

/** How deep a JSON text is nested and about how many values it has, found without parsing it. Strings are skipped. */
const extentOf = (text: string): { readonly depth: number; readonly values: number } => {
  let open = 0
  let depth = 0
  let values = 1
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22:
        at = endOfString(text, at)
        break
      case 0x2c:
        values++
        break
      case 0x5b:
      case 0x7b:
        values++
        depth = Math.max(depth, ++open)
        break
      case 0x5d:
      case 0x7d:
        open--
    }
  }
  return { depth, values }
}

/** Where the string that begins here ends: at the first quote after an even number of backslashes. */
const endOfString = (text: string, start: number): number => {
  let end = start
  for (;;) {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return end
  }
}
