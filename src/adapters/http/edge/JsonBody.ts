import { ByteSize, Effect, Predicate, Schema } from "effect"
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

/** The JSON is nested deeper than any store or vendor has to bear. */
export class TooDeep extends Schema.TaggedError<TooDeep>()("TooDeep", { limit: Schema.Int }) {
  override get message() {
    return `The request body is nested deeper than ${this.limit} levels.`
  }
}

const deepest = 128

const utf8 = new TextDecoder("utf-8", { fatal: true })

export interface JsonBody {
  readonly value: unknown
  /** Its length as it came. */
  readonly bytes: number
}

/** The request's body as JSON: at most `limit` bytes whatever the headers say, strict UTF-8, at most 128 levels. */
export const read = (
  limit: number
): Effect.Effect<JsonBody, BodyTooLarge | InvalidJson | TooDeep, HttpServerRequest.HttpServerRequest> =>
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
    const value = yield* Effect.try({
      try: (): unknown => JSON.parse(utf8.decode(bytes)),
      catch: (error) =>
        new InvalidJson({
          detail: error instanceof SyntaxError ? `${error.message}.` : "it is not UTF-8."
        })
    })
    return isDeeperThan(value, deepest) ? yield* new TooDeep({ limit: deepest }) : { value, bytes: bytes.byteLength }
  })

const isDeeperThan = (value: unknown, levels: number): boolean =>
  Predicate.isObjectOrArray(value) &&
  (levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1)))
