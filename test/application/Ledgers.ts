import { Context, Effect, Layer } from "effect"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { StoreUnavailable } from "../../src/application/ports/storage/StoreUnavailable.ts"
import type { Settlement } from "../../src/domain/billing/CreditHold.ts"
import type { HoldId } from "../../src/domain/shared/Ids.ts"

/** What a test sees of the ledger's use, and how it takes the ledger away. */
export class LedgerWatch extends Context.Service<
  LedgerWatch,
  {
    /** While true, every call dies as it does when the store cannot be reached. */
    away: boolean
    /** The settlement of this hold dies otherwise, every time. */
    broken: HoldId | undefined
    readonly settled: Array<Settlement>
    readonly released: Array<HoldId>
    readonly renewed: Array<HoldId>
  }
>()("test/LedgerWatch") {
  static readonly layer = Layer.sync(LedgerWatch, () =>
    LedgerWatch.of({ away: false, broken: undefined, settled: [], released: [], renewed: [] })
  )
}

const Watched = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const watch = yield* LedgerWatch
    /** There and back takes time, as it does over a network: a caller can be interrupted on either way. */
    const reach = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.yieldNow.pipe(
        Effect.andThen(
          Effect.suspend(() => (watch.away ? Effect.die(new StoreUnavailable({ cause: "switched off" })) : call))
        ),
        Effect.ensuring(Effect.yieldNow)
      )
    return Ledger.of({
      grant: (...request) => reach(ledger.grant(...request)),
      credit: (organization) => reach(ledger.credit(organization)),
      hold: (request) => reach(ledger.hold(request)),
      settle: (settlement) =>
        reach(
          Effect.suspend(() => {
            if (settlement.holdId === watch.broken) return Effect.die(new Error("broken settlement"))
            watch.settled.push(settlement)
            return ledger.settle(settlement)
          })
        ),
      release: (hold) =>
        reach(
          Effect.suspend(() => {
            watch.released.push(hold)
            return ledger.release(hold)
          })
        ),
      renew: (renewals) =>
        reach(
          Effect.suspend(() => {
            watch.renewed.push(...renewals.map(({ holdId }) => holdId))
            return ledger.renew(renewals)
          })
        ),
      sweep: reach(ledger.sweep)
    })
  })
)

/** The in-memory stores with a ledger under watch. */
export const stores = Layer.suspend(() =>
  Watched.pipe(Layer.provideMerge(LedgerWatch.layer), Layer.provideMerge(InMemoryLive.layer))
)
