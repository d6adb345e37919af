import { Context, type Effect } from "effect"
import type { RateDecision, RatePolicy } from "../../../domain/ratelimit/RatePolicy.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * Counts the requests of accounts in windows. A window begins with an account's first request under a policy and lasts
 * the policy's period; refused requests are not counted.
 */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    /** Counts one request. While the store is away it is admitted: a request that costs needs a hold anyway. */
    readonly take: (account: OrganizationId, policy: RatePolicy) => Effect.Effect<RateDecision>
    /** The refusal of an account whose window is known to be used up; undefined: it has to be counted. Cheap. */
    readonly usedUp: (account: OrganizationId, policy: RatePolicy) => Effect.Effect<RateDecision | undefined>
  }
>()("gateway/ports/storage/RateLimits") {}
