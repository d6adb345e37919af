import { Effect, Layer } from "effect"
import { RateLimits } from "../../application/ports/storage/RateLimits.ts"
import type { RateDecision, RatePolicy } from "../../domain/ratelimit/RatePolicy.ts"
import { AccountRounds } from "./AccountRounds.ts"
import { isAway } from "./Failures.ts"

/** Windows in the store, exact across all processes on it, by its clock. */
export const layer = Layer.effect(
  RateLimits,
  Effect.gen(function* () {
    const rounds = yield* AccountRounds

    return RateLimits.of({
      usedUp: (account, policy) => rounds.usedUp(account, policy),
      take: (account, policy) =>
        rounds.ask({ organization: account, rate: policy, hold: undefined }).pipe(
          Effect.map(({ decision }) => decision ?? admitted(policy)),
          Effect.catch((error) =>
            isAway(error)
              ? Effect.as(
                  Effect.logWarning("The store is away: a request was not counted.", { policy: policy.policy }),
                  admitted(policy)
                )
              : Effect.die(error)
          )
        )
    })
  })
)

/** What an uncounted request is told. */
const admitted = ({ limit, periodSeconds }: RatePolicy): RateDecision => ({
  allowed: true,
  limit,
  remaining: limit - 1,
  resetSeconds: periodSeconds
})
