import { Clock, Context, Effect, Layer } from "effect"
import { type BillingSummary, recentLimit, windowMillis } from "../../domain/billing/BillingSummary.ts"
import type { Caller } from "../../domain/identity/ApiKey.ts"
import { seesAllUsage } from "../../domain/identity/Member.ts"
import { Ledger } from "../ports/storage/Ledger.ts"
import { UsageEvents } from "../ports/storage/UsageEvents.ts"

/** Balance, spend of the preceding 30 days and the newest events, as far as the caller's role shows them. */
export class GetBillingSummary extends Context.Service<
  GetBillingSummary,
  {
    readonly of: (caller: Caller) => Effect.Effect<BillingSummary>
  }
>()("gateway/billing/GetBillingSummary") {
  static readonly layer = Layer.effect(
    GetBillingSummary,
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const usage = yield* UsageEvents

      const of = Effect.fn("GetBillingSummary.of")(function* (caller: Caller) {
        const since = (yield* Clock.currentTimeMillis) - windowMillis
        const scope = {
          organizationId: caller.organizationId,
          memberId: seesAllUsage(caller.role) ? null : caller.memberId
        }
        const [credit, totals, recent] = yield* Effect.all(
          [ledger.credit(caller.organizationId), usage.totals(scope, since), usage.recent(scope, recentLimit)],
          { concurrency: "unbounded" }
        )
        return {
          balance: credit.balance,
          since,
          totalCost: totals.cost,
          totalEvents: totals.events,
          recent
        }
      })

      return GetBillingSummary.of({ of })
    })
  )
}
