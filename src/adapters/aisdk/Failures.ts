import { Option, Schema } from "effect"
import { ForbiddenAddress } from "../../application/ports/runtime/Egress.ts"
import type { CallError } from "../../application/ports/vendor/Upstreams.ts"
import { InvalidRequest, UpstreamFailed, UpstreamRefused } from "../../domain/completion/CompletionErrors.ts"
import { redact } from "../../domain/shared/Redaction.ts"

/** Who is called, and what must not be told of it. */
export interface Callee {
  readonly provider: string
  readonly apiKey: string | undefined
}

/** A failed attempt, and how long the vendor asked to be left alone, in milliseconds. */
export interface Attempt {
  readonly _tag: "Attempt"
  readonly error: CallError
  readonly retryAfter: number
}

/** Errors of the SDK by their names: its own test of them would load the library that this module must not. */
const SdkError = Schema.Struct({ name: Schema.String, message: Schema.String })

const ApiCallError = Schema.Struct({
  name: Schema.Literal("AI_APICallError"),
  message: Schema.String,
  statusCode: Schema.optional(Schema.Finite),
  responseHeaders: Schema.optional(Schema.Record(Schema.String, Schema.String)),
  responseBody: Schema.optional(Schema.String)
})

/** The vendor's own words in the body of an error, in any of the forms that are about. */
const Said = Schema.fromJsonString(
  Schema.Union([
    Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }),
    Schema.Struct({ error: Schema.String }),
    Schema.Struct({ message: Schema.String }),
    Schema.Struct({ detail: Schema.String })
  ])
)

const decodeSdkError = Schema.decodeUnknownOption(SdkError)
const decodeApiCallError = Schema.decodeUnknownOption(ApiCallError)
const decodeSaid = Schema.decodeUnknownOption(Said)

/** The SDK says so before it sends anything. */
const ofRequest: ReadonlySet<string> = new Set([
  "AI_UnsupportedFunctionalityError",
  "AI_InvalidPromptError",
  "AI_InvalidArgumentError"
])

const unreadable: ReadonlySet<string> = new Set([
  "AI_JSONParseError",
  "AI_TypeValidationError",
  "AI_InvalidResponseDataError",
  "AI_EmptyResponseBodyError"
])

/** Why a call gave nothing. */
export const attemptOf = (error: unknown, callee: Callee): Attempt => {
  const called = Option.getOrUndefined(decodeApiCallError(error))
  if (called !== undefined) {
    const { message, responseBody, responseHeaders, statusCode } = called
    if (statusCode === undefined) return attempt(failed(callee, "unreachable", message))
    // Of a body that is not in its vendor's form the SDK says no more than the status.
    const said = Option.match(decodeSaid(responseBody), { onNone: () => message, onSome: saidIn })
    return attempt(statusFailure(statusCode, said, callee), retryAfterMillis(responseHeaders?.["retry-after"]))
  }
  if (error instanceof ForbiddenAddress) return attempt(failed(callee, "unreachable", error.message))
  const said = Option.getOrUndefined(decodeSdkError(error))
  if (said !== undefined && ofRequest.has(said.name)) {
    return attempt(new InvalidRequest({ issues: [{ path: "messages", message: redact(said.message, callee.apiKey) }] }))
  }
  return attempt(
    failed(callee, said !== undefined && unreadable.has(said.name) ? "malformed_answer" : "unreachable", wordsOf(error))
  )
}

const saidIn = (body: typeof Said.Type): string =>
  "error" in body
    ? typeof body.error === "string"
      ? body.error
      : body.error.message
    : "message" in body
      ? body.message
      : body.detail

/** Why an answer that had begun broke off: the connection did, or the vendor says so in place of an answer. */
export const brokenOff = (error: unknown, callee: Callee, otherwise: "cut_off" | "server_error"): UpstreamFailed => {
  const said = Option.getOrUndefined(decodeSdkError(error))
  return failed(
    callee,
    said !== undefined && unreadable.has(said.name) ? "malformed_answer" : otherwise,
    wordsOf(error)
  )
}

export const failed = (
  { apiKey, provider }: Callee,
  reason: UpstreamFailed["reason"],
  detail: string
): UpstreamFailed => new UpstreamFailed({ upstream: provider, reason, detail: redact(detail, apiKey), ownKey: true })

/** What an answer that is not 200 means, as for every upstream. */
const statusFailure = (status: number, message: string, callee: Callee): CallError => {
  if (status === 400 || status === 413 || status === 422) {
    const said = redact(message, callee.apiKey)
    return new UpstreamRefused({
      upstream: callee.provider,
      status,
      said: said === "" ? `status ${status}, no reason given.` : said
    })
  }
  const reason =
    status === 429
      ? "rate_limited"
      : status === 401 || status === 402 || status === 403
        ? "credentials_refused"
        : status >= 500
          ? "server_error"
          : status === 200
            ? "malformed_answer"
            : "unexpected_status"
  return failed(callee, reason, `status ${status}: ${message}`)
}

const attempt = (error: CallError, retryAfter = 0): Attempt => ({ _tag: "Attempt", error, retryAfter })

/**
 * An error of the SDK, or what the vendor sent in place of a part of its answer. Of what could not be read only that: the
 * SDK cites it, and it may be what the model said.
 */
const wordsOf = (error: unknown): string => {
  const said = Option.getOrUndefined(decodeSdkError(error))
  if (said !== undefined && unreadable.has(said.name)) return said.name
  if (error instanceof Error)
    return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
  return typeof error === "string" ? error : (JSON.stringify(error) ?? "no reason given")
}

/** `Retry-After` in seconds or as a date. */
const retryAfterMillis = (header: string | undefined): number => {
  if (header === undefined) return 0
  const seconds = Number(header)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000)
  const date = Date.parse(header)
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now())
}
