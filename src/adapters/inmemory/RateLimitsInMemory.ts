import { Clock, Effect, Layer } from "effect"
import { RateLimits } from "../../application/ports/storage/RateLimits.ts"
import type { RateDecision } from "../../domain/ratelimit/RatePolicy.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"

interface Window {
  /** Monotonic, so that a corrected system clock neither stretches nor cuts it. */
  readonly endsAt: bigint
  used: number
}

const perSecond = 1_000_000_000n

/**
 * Exact in one process. A policy's windows stand in the order of their ends, so those that are over are dropped from
 * the front: memory holds only accounts that called within the last period.
 */
export const layer = Layer.sync(RateLimits, () => {
  const policies = new Map<string, Map<OrganizationId, Window>>()

  const windowsOf = (policy: string): Map<OrganizationId, Window> => {
    const found = policies.get(policy)
    if (found !== undefined) return found
    const windows = new Map<OrganizationId, Window>()
    policies.set(policy, windows)
    return windows
  }

  const decision = ({ endsAt, used }: Window, limit: number, now: bigint, allowed: boolean): RateDecision => ({
    allowed,
    limit,
    remaining: Math.max(limit - used, 0),
    resetSeconds: Number((endsAt - now + perSecond - 1n) / perSecond)
  })

  return RateLimits.of({
    usedUp: (account, { limit, policy }) =>
      Effect.map(Clock.monotonicTimeNanos, (now) => {
        const window = windowsOf(policy).get(account)
        return window === undefined || window.endsAt <= now || window.used < limit
          ? undefined
          : decision(window, limit, now, false)
      }),
    take: (account, { limit, periodSeconds, policy }) =>
      Effect.map(Clock.monotonicTimeNanos, (now) => {
        const windows = windowsOf(policy)
        for (const [other, { endsAt }] of windows) {
          if (endsAt > now) break
          windows.delete(other)
        }
        const window = windows.get(account) ?? { endsAt: now + BigInt(periodSeconds) * perSecond, used: 0 }
        if (window.used === 0) windows.set(account, window)
        const allowed = window.used < limit
        if (allowed) window.used++
        return decision(window, limit, now, allowed)
      })
  })
})
