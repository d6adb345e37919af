import { Context, type Effect } from "effect"
import type { UsageEvent } from "../../../domain/billing/BillingSummary.ts"
import type { MemberId, OrganizationId } from "../../../domain/shared/Ids.ts"
import type { NanoUsd } from "../../../domain/shared/Money.ts"

/** Whose usage: a whole organization's, or one member's of it. */
export interface UsageScope {
  readonly organizationId: OrganizationId
  readonly memberId: MemberId | null
}

/** Reads what settlements recorded. Times are epoch milliseconds. */
export class UsageEvents extends Context.Service<
  UsageEvents,
  {
    /** Sum and count of the events at `since` or later. */
    readonly totals: (
      scope: UsageScope,
      since: number
    ) => Effect.Effect<{ readonly cost: NanoUsd; readonly events: number }>
    /** The newest events, newest first. */
    readonly recent: (scope: UsageScope, limit: number) => Effect.Effect<ReadonlyArray<UsageEvent>>
    /** Spend by model and UTC day (`YYYY-MM-DD`) since a time, newest day first, dearest model first. */
    readonly byModelAndDay: (scope: UsageScope, since: number) => Effect.Effect<ReadonlyArray<DailySpend>>
  }
>()("gateway/ports/storage/UsageEvents") {}

export interface DailySpend {
  readonly day: string
  readonly model: string
  readonly events: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cost: NanoUsd
}
