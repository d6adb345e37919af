import { Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { StoreUnavailable } from "../../../application/ports/storage/StoreUnavailable.ts"
import type { InsufficientCredits } from "../../../domain/billing/BillingErrors.ts"
import type {
  AccessMethodNotOffered,
  ModelNotFound,
  NoKeyForAccessMethod
} from "../../../domain/catalog/CatalogErrors.ts"
import type {
  InvalidRequest,
  ServiceStopping,
  UpstreamFailed,
  UpstreamRefused
} from "../../../domain/completion/CompletionErrors.ts"
import type { IdempotencyKeyBusy, IdempotencyKeyReused } from "../../../domain/completion/IdempotencyErrors.ts"
import type { InvalidApiKey } from "../../../domain/identity/IdentityErrors.ts"
import type { RateLimited } from "../../../domain/ratelimit/RatePolicy.ts"
import type { BodyTooLarge, InvalidJson, TooIntricate } from "../edge/JsonBody.ts"
import type { MalformedHttp, MethodNotAllowed, UnexpectedFailure, UnknownRoute } from "../edge/RouteErrors.ts"
import { messageEnvelope } from "../runtime/envelopes/MessageEnvelope.ts"

/** The error envelope of section 2.4. */
export const Envelope = Schema.Struct({
  error: Schema.Struct({
    code: Schema.NonEmptyString,
    message: Schema.String,
    requestId: Schema.NonEmptyString,
    retryable: Schema.Boolean,
    details: Schema.optionalKey(Schema.Json)
  })
}).annotate({ identifier: "Error" })
export type Envelope = typeof Envelope.Type

/** Everything that a `/v1` answer can fail with. */
export type GatewayFailure =
  | AccessMethodNotOffered
  | BodyTooLarge
  | IdempotencyKeyBusy
  | IdempotencyKeyReused
  | InsufficientCredits
  | InvalidApiKey
  | InvalidJson
  | InvalidRequest
  | MalformedHttp
  | MethodNotAllowed
  | ModelNotFound
  | NoKeyForAccessMethod
  | RateLimited
  | ServiceStopping
  | StoreUnavailable
  | TooIntricate
  | UnexpectedFailure
  | UnknownRoute
  | UpstreamFailed
  | UpstreamRefused

interface Wire {
  readonly status: number
  readonly code: string
  readonly retryable: boolean
  readonly details?: Schema.Json
  readonly headers?: Record<string, string>
}

/** Status, `error.code` and retryability of every failure (section 7.1, decisions 2). */
const wires: {
  readonly [Tag in GatewayFailure["_tag"]]: (error: Extract<GatewayFailure, { readonly _tag: Tag }>) => Wire
} = {
  InvalidJson: () => ({ status: 400, code: "invalid_json", retryable: false }),
  TooIntricate: ({ message }) => invalidRequest([{ path: "", message }]),
  InvalidRequest: ({ issues }) => invalidRequest(issues),
  MalformedHttp: ({ message, status }) =>
    status === 400
      ? invalidRequest([{ path: "", message }])
      : { status, code: status === 408 ? "invalid_request" : "payload_too_large", retryable: status === 408 },
  AccessMethodNotOffered: ({ message }) => invalidRequest([{ path: "access_method", message }]),
  InvalidApiKey: () => ({
    status: 401,
    code: "unauthorized",
    retryable: false,
    headers: { "www-authenticate": "Bearer" }
  }),
  InsufficientCredits: () => ({ status: 402, code: "insufficient_credits", retryable: false }),
  NoKeyForAccessMethod: () => ({ status: 403, code: "forbidden", retryable: false }),
  UnknownRoute: () => ({ status: 404, code: "not_found", retryable: false }),
  ModelNotFound: () => ({ status: 404, code: "model_not_found", retryable: false }),
  MethodNotAllowed: ({ allowed }) => ({
    status: 405,
    code: "method_not_allowed",
    retryable: false,
    headers: { allow: allowed.join(", ") }
  }),
  IdempotencyKeyBusy: () => ({ status: 409, code: "conflict", retryable: true, headers: { "retry-after": "1" } }),
  IdempotencyKeyReused: () => ({ status: 409, code: "conflict", retryable: false }),
  BodyTooLarge: () => ({ status: 413, code: "payload_too_large", retryable: false }),
  RateLimited: ({ retryAfterSeconds }) => ({
    status: 429,
    code: "rate_limited",
    retryable: true,
    headers: { "retry-after": String(retryAfterSeconds) }
  }),
  UnexpectedFailure: () => ({ status: 500, code: "internal_error", retryable: true }),
  UpstreamFailed: ({ retryable }) => ({ status: 502, code: "upstream_error", retryable }),
  UpstreamRefused: ({ status }) => ({
    status: 502,
    code: "upstream_error",
    retryable: false,
    details: { upstreamStatus: status }
  }),
  StoreUnavailable: () => ({ status: 503, code: "service_unavailable", retryable: true }),
  ServiceStopping: () => ({ status: 503, code: "service_unavailable", retryable: true })
}

const invalidRequest = (issues: InvalidRequest["issues"]): Wire => ({
  status: 400,
  code: "invalid_request",
  retryable: false,
  details: {
    issues: issues.slice(0, mostIssues).map(({ message, path }) => ({ path: brief(path), message: brief(message) }))
  }
})

/** An answer quotes its request, and must not grow with it. */
const mostIssues = 20
const mostText = 2_000

const brief = (text: string): string => (text.length > mostText ? `${text.slice(0, mostText)}…` : text)

const wireOf = <Tag extends GatewayFailure["_tag"]>(error: Extract<GatewayFailure, { readonly _tag: Tag }>): Wire =>
  wires[error._tag as Tag](error)

/** The envelope's content, for an answer or inside a stream. */
export const envelopeOf = (error: GatewayFailure, requestId: string): Envelope => {
  const { code, details, retryable } = wireOf(error)
  return {
    error: { code, message: brief(error.message), requestId, retryable, ...(details === undefined ? {} : { details }) }
  }
}

/** The answer to a failed request. `X-Should-Retry` keeps SDKs from repeating what would fail or bill again. */
export const respond = (error: GatewayFailure, requestId: string): HttpServerResponse.HttpServerResponse => {
  const { headers, retryable, status } = wireOf(error)
  return HttpServerResponse.jsonUnsafe(envelopeOf(error, requestId), {
    status,
    headers: { ...headers, "x-should-retry": String(retryable) }
  })
}

/** The same failure as the runtime tells it: `{error}` of section 7.2. */
export const respondPlainly = (error: GatewayFailure): HttpServerResponse.HttpServerResponse => {
  const { headers, status } = wireOf(error)
  return messageEnvelope(status, error.message, headers)
}

const documented = (status: number, description: string) =>
  Envelope.annotate({ identifier: `Error${status}`, description, httpApiStatus: status })

/** The statuses that every gateway operation documents (section 7.1). */
export const documentedErrors = [
  documented(400, "Invalid JSON or request fields"),
  documented(401, "Missing or invalid API key"),
  documented(402, "The account has insufficient credits"),
  documented(403, "The account cannot perform this operation"),
  documented(404, "The requested resource was not found"),
  documented(409, "The request conflicts with existing resource state"),
  documented(429, "The account exceeded this operation's request rate; Retry-After says how many seconds to wait"),
  documented(500, "Unexpected service failure"),
  documented(502, "The upstream model provider failed"),
  documented(503, "A required service is temporarily unavailable")
] as const
