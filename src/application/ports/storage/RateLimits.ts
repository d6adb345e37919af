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
    readonly take: (account: OrganizationId, policy: RatePolicy) => Effect.Effect<RateDecision>
  }
>()("gateway/ports/storage/RateLimits") {}
