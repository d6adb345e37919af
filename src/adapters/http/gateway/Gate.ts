import { Context, Effect, Layer, Redacted } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { Authenticate } from "../../../application/identity/Authenticate.ts"
import { RateLimits } from "../../../application/ports/storage/RateLimits.ts"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import { RateLimited } from "../../../domain/ratelimit/RatePolicy.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { handled } from "./GatewayEnvelope.ts"
import { isLimited, RatePolicies } from "./RatePolicies.ts"

export class CurrentCaller extends Context.Service<CurrentCaller, Caller>()("gateway/http/CurrentCaller") {}

/** The way into every gateway operation: a valid key (section 5), then the operation's rate policy (section 8). */
export class Gate extends HttpApiMiddleware.Service<Gate, { provides: CurrentCaller }>()("gateway/http/Gate", {
  security: { bearer: HttpApiSecurity.bearer }
}) {
  static readonly layer = Layer.effect(
    Gate,
    Effect.gen(function* () {
      const authenticate = yield* Authenticate
      const limits = yield* RateLimits
      const policies = yield* RatePolicies

      return Gate.of({
        bearer: (answer, { credential, endpoint }) =>
          Effect.gen(function* () {
            const request = yield* CurrentRequest
            const caller = yield* authenticate.byKey(Redacted.value(credential))
            request.caller = caller
            if (isLimited(policies, endpoint.identifier)) {
              const policy = policies[endpoint.identifier]
              const decision = yield* limits.take(caller.organizationId, policy)
              request.rate = decision
              if (!decision.allowed) {
                return yield* new RateLimited({ ...policy, retryAfterSeconds: decision.resetSeconds })
              }
            }
            return yield* Effect.provideService(Effect.orDie(answer), CurrentCaller, caller)
          }).pipe(handled)
      })
    })
  )
}
