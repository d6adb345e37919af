import type { NanoUsd } from "../shared/Money.ts"

/** One charged request. `timestamp` is epoch milliseconds. */
export interface UsageEvent {
  readonly model: string
  readonly cost: NanoUsd
  readonly inputTokens: number
  readonly outputTokens: number
  readonly timestamp: number
}

/** Balance and recent spend of an account, as far as the caller may see it (section 2.2). */
export interface BillingSummary {
  readonly balance: NanoUsd
  /** Start of the window, epoch milliseconds. */
  readonly since: number
  readonly totalCost: NanoUsd
  readonly totalEvents: number
  readonly recent: ReadonlyArray<UsageEvent>
}

/** The usage window: the preceding 30 days. */
export const windowMillis = 30 * 24 * 60 * 60 * 1000

/** At most so many recent events. */
export const recentLimit = 50
