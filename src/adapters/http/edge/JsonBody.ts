import { ByteSize, Effect, Schema } from "effect"
import { HttpIncomingMessage, type HttpServerRequest } from "effect/http"
import type { Hash } from "node:crypto"
import { deepestJson, extentOf, mostJsonValues } from "../../../domain/shared/JsonExtent.ts"
import type { Source } from "./RequestState.ts"

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

/** The same failure without the piece of the body that the parser quotes: it may be of a secret. */
export const unquoted = <E>(failure: E | InvalidJson): E | InvalidJson =>
  failure instanceof InvalidJson
    ? new InvalidJson({ detail: failure.detail.replace(/, (?:\.\.\.)?".*$/s, ".") })
    : failure

/** The JSON is more intricate than any store or vendor has to bear. */
export class TooIntricate extends Schema.TaggedError<TooIntricate>()("TooIntricate", { problem: Schema.String }) {
  override get message() {
    return `The request body ${this.problem}.`
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

export interface JsonBody {
  readonly value: unknown
  readonly text: string
  /** Its length as it came. */
  readonly bytes: number
}

/**
 * The request's body as JSON: at most `limit` bytes whatever the headers say, strict UTF-8, of bounded depth and number.
 * A hash is updated with its bytes.
 */
export const read = (
  limit: number,
  given: RawBody,
  hash?: Hash
): Effect.Effect<JsonBody, BodyTooLarge | InvalidJson | TooIntricate> =>
  Effect.gen(function* () {
    const bytes = yield* given.source.headers.expect === undefined
      ? bytesOf(given.source, limit)
      : awaited(given, limit)
    hash?.update(bytes)
    if (bytes.byteLength === 0) return yield* new InvalidJson({ detail: "it is empty." })
    const text = yield* Effect.try({
      try: () => utf8.decode(bytes),
      catch: () => new InvalidJson({ detail: "it is not UTF-8." })
    })
    const { depth, values } = extentOf(text)
    if (depth > deepestJson) {
      return yield* new TooIntricate({ problem: `is nested deeper than ${deepestJson} levels` })
    }
    if (values > mostJsonValues) return yield* new TooIntricate({ problem: `has more than ${mostJsonValues} values` })
    const value = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: (error) => new InvalidJson({ detail: `${error instanceof Error ? error.message : String(error)}.` })
    })
    return { value, text, bytes: bytes.byteLength }
  })

export interface RawBody {
  readonly source: Source
  readonly request: HttpServerRequest.HttpServerRequest
}

/** Straight from Node: most bodies are there already, and need no stream. */
const bytesOf = (source: Source, limit: number): Effect.Effect<Buffer, BodyTooLarge | InvalidJson> =>
  Effect.callback((resume) => {
    if (Number(source.headers["content-length"] ?? 0) > limit) return resume(Effect.fail(new BodyTooLarge({ limit })))
    if (source.destroyed) return resume(Effect.fail(incomplete))
    const parts: Array<Buffer> = []
    let length = 0
    const stop = () => {
      source.off("data", take).off("end", end).off("close", brokenOff)
    }
    const take = (part: Buffer) => {
      parts.push(part)
      length += part.length
      if (length <= limit) return
      stop()
      source.pause()
      resume(Effect.fail(new BodyTooLarge({ limit })))
    }
    const end = () => {
      stop()
      resume(Effect.succeed(parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)))
    }
    const brokenOff = () => {
      stop()
      resume(Effect.fail(incomplete))
    }
    source.on("data", take).on("end", end).on("close", brokenOff)
    return Effect.sync(stop)
  })

/** From a client that waits to be told to go on (`Expect: 100-continue`), as the framework tells it. */
const awaited = ({ request, source }: RawBody, limit: number) =>
  Number(source.headers["content-length"] ?? 0) > limit
    ? Effect.fail(new BodyTooLarge({ limit }))
    : request.arrayBuffer.pipe(
        Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(limit)),
        Effect.mapError(({ reason }) =>
          reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
            ? new BodyTooLarge({ limit })
            : incomplete
        ),
        Effect.map((bytes) => Buffer.from(bytes))
      )

const incomplete = new InvalidJson({ detail: "it broke off before its end." })
