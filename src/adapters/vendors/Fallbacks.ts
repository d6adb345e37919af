import { Effect, Result } from "effect"
import type { CallError, UpstreamCall } from "../../application/ports/vendor/Upstreams.ts"

/**
 * Makes a call at its route's upstream and, where that fails in a way that another one may not, at the fallbacks in
 * turn. A call with an organization's own key stays where the key belongs.
 */
export const withFallbacks = <A, R>(
  call: UpstreamCall,
  attempt: (call: UpstreamCall) => Effect.Effect<A, CallError, R>
): Effect.Effect<A, CallError, R> =>
  call.route.fallbacks === undefined || call.apiKey !== undefined ? attempt(call) : inTurn(call, attempt)

const inTurn = Effect.fnUntraced(function* <A, R>(
  call: UpstreamCall,
  attempt: (call: UpstreamCall) => Effect.Effect<A, CallError, R>
) {
  const { fallbacks = [], ...first } = call.route
  const errors: Array<CallError> = []
  for (const place of [first, ...fallbacks]) {
    const result = yield* Effect.result(attempt({ ...call, route: { ...first, ...place } }))
    if (Result.isSuccess(result)) {
      yield* logFailures(call, errors, place.upstream)
      return result.success
    }
    errors.push(result.failure)
    if (!mayBeServedElsewhere(result.failure)) break
  }
  const told = errors.reduce((most, error) => (hope(error) > hope(most) ? error : most))
  // The caller of the call logs the one that it is told.
  const others = errors.filter((error) => error !== told)
  yield* logFailures(call, others, undefined)
  return yield* Effect.fail(told)
})

/**
 * A refusal of the request itself is the vendor's answer to it. Where bytes of an answer had come, the vendor has done
 * the work, and the operator may have to pay for it: it is not done twice.
 */
const mayBeServedElsewhere = (error: CallError): boolean => {
  switch (error._tag) {
    case "InvalidRequest":
      return true
    case "UpstreamRefused":
      return false
    case "UpstreamFailed":
      return error.reason !== "cut_off" && error.reason !== "stalled" && error.reason !== "malformed_answer"
  }
}

/** Of several errors a caller is told the one that leaves most to do: ask again, then change the request. */
const hope = (error: CallError): number => {
  switch (error._tag) {
    case "UpstreamFailed":
      return error.retryable ? 3 : 1
    case "UpstreamRefused":
      return 2
    case "InvalidRequest":
      return 0
  }
}

const logFailures = (
  { request: { model } }: UpstreamCall,
  errors: ReadonlyArray<CallError>,
  served: string | undefined
): Effect.Effect<void> =>
  Effect.forEach(
    errors,
    (error) =>
      error._tag === "UpstreamFailed"
        ? Effect.logWarning(
            served === undefined ? "An upstream failed, and so did others." : "An upstream failed, another one served.",
            { model, failed: error.upstream, reason: error.reason, detail: error.detail, served }
          )
        : Effect.void,
    { discard: true }
  )
