import { Context, Effect, Layer, type Scope } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Authenticate } from "../../../application/identity/Authenticate.ts"
import { RateLimits } from "../../../application/ports/storage/RateLimits.ts"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import { type RateDecision, type RatePolicy, refusalOf } from "../../../domain/ratelimit/RatePolicy.ts"
import { credential } from "../edge/Credential.ts"
import type { RequestState, Source } from "../edge/RequestState.ts"
import type { GatewayFailure } from "./GatewayEnvelope.ts"

/** One request that the gate let in. */
export interface Admitted {
  readonly caller: Caller
  readonly request: HttpServerRequest.HttpServerRequest
  readonly source: Source
  readonly state: RequestState
  /** The operation's policy. */
  readonly policy: RatePolicy
}

export type Handler = (
  admitted: Admitted
) => Effect.Effect<HttpServerResponse.HttpServerResponse, GatewayFailure, Scope.Scope>

/**
 * Who counts a request under its policy: the gate before the handler, or the handler with the hold that it takes, in
 * one write. What fails before its hold is counted too.
 */
export type Counting = "at the gate" | "with its hold"

/** The way into every gateway operation: a valid key (section 5), then the operation's rate policy (section 8). */
export class Gate extends Context.Service<
  Gate,
  {
    readonly enter: (
      policy: RatePolicy,
      counting: Counting,
      handler: Handler
    ) => (request: HttpServerRequest.HttpServerRequest, source: Source, state: RequestState) => ReturnType<Handler>
  }
>()("gateway/http/Gate") {
  static readonly layer = Layer.effect(
    Gate,
    Effect.gen(function* () {
      const authenticate = yield* Authenticate
      const limits = yield* RateLimits

      return Gate.of({
        enter: (policy, counting, handler) => {
          const decide = (state: RequestState, decision: RateDecision) => {
            state.rate = decision
            return decision.allowed ? Effect.void : Effect.fail(refusalOf(policy, decision))
          }

          const count = (state: RequestState, { organizationId }: Caller) =>
            Effect.flatMap(limits.take(organizationId, policy), (decision) => decide(state, decision))

          return Effect.fnUntraced(function* (request, source, state) {
            const caller = yield* authenticate.byKey(credential(source.headers.authorization))
            state.caller = caller
            const refusal = yield* limits.usedUp(caller.organizationId, policy)
            if (refusal !== undefined) yield* decide(state, refusal)
            else if (counting === "at the gate") yield* count(state, caller)
            return yield* Effect.catch(handler({ caller, request, source, state, policy }), (error) =>
              state.rate === undefined ? Effect.andThen(count(state, caller), Effect.fail(error)) : Effect.fail(error)
            )
          })
        }
      })
    })
  )
}
