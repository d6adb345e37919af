import { Context, Duration, Effect, Layer, Schedule } from "effect"
import type { Checkpoint, Settlement } from "../../domain/billing/CreditHold.ts"
import type { HoldId } from "../../domain/shared/Ids.ts"
import { type NanoUsd, zero } from "../../domain/shared/Money.ts"
import { Ledger } from "../ports/storage/Ledger.ts"
import { StoreUnavailable } from "../ports/storage/StoreUnavailable.ts"

/** How often leases are renewed and dead processes' holds are looked for: several times in a lease. */
const interval = Duration.seconds(5)

/**
 * Keeps the leases of this process's open holds, with what each has delivered, and ends them. A hold that cannot be
 * ended because the store is away is ended when it is back. The holds of processes that died are swept: a process that
 * is killed stops renewing, and any other one, or its own next start, settles by the last checkpoint.
 */
export class HoldKeeper extends Context.Service<
  HoldKeeper,
  {
    /** Renews the hold until it is ended. `checkpoint` tells what was delivered so far, if anything. */
    readonly keep: (hold: HoldId, checkpoint: () => Checkpoint | null) => Effect.Effect<void>
    /** Gives the charge: what the ledger took or, while the store is away, what it will take. */
    readonly settle: (settlement: Settlement) => Effect.Effect<NanoUsd>
    readonly release: (hold: HoldId) => Effect.Effect<void>
  }
>()("gateway/billing/HoldKeeper") {
  static readonly layer = Layer.effect(
    HoldKeeper,
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const open = new Map<HoldId, () => Checkpoint | null>()
      const overdue = new Map<HoldId, Effect.Effect<unknown>>()

      const renew = Effect.suspend(() =>
        open.size === 0
          ? Effect.void
          : ledger.renew([...open].map(([holdId, checkpoint]) => ({ holdId, checkpoint: checkpoint() })))
      )

      const sweep = Effect.flatMap(ledger.sweep, (swept) =>
        swept === 0 ? Effect.void : Effect.logWarning(`Ended ${swept} credit holds that had outlived their process.`)
      )

      const forget = (hold: HoldId) =>
        Effect.sync(() => {
          open.delete(hold)
          overdue.delete(hold)
        })

      /**
       * Ends a hold now or, when the store is away, at a later turn; until then its lease is renewed. A hold whose
       * ending fails otherwise is left to its lease and the sweep.
       */
      const end = <A>(hold: HoldId, ending: Effect.Effect<A>, whenAway: A): Effect.Effect<A> =>
        Effect.tap(ending, () => forget(hold)).pipe(
          Effect.catchDefect((defect) =>
            defect instanceof StoreUnavailable
              ? Effect.sync(() => {
                  overdue.set(hold, ending)
                  return whenAway
                })
              : Effect.andThen(forget(hold), Effect.die(defect))
          )
        )

      /** A store that is away now is tried again at the next turn: leases outlast several. */
      const forgiving = (task: string, effect: Effect.Effect<void>) =>
        Effect.catchCause(effect, (cause) => Effect.logWarning(`Could not ${task} credit holds.`, cause))

      /** All at once, so that they share a write; one that fails does not hold up the others. */
      const endOverdue = Effect.suspend(() =>
        Effect.forEach(
          [...overdue],
          ([holdId, ending]) => forgiving("end overdue", Effect.asVoid(end<unknown>(holdId, ending, undefined))),
          { concurrency: "unbounded", discard: true }
        )
      )

      yield* endOverdue.pipe(
        Effect.andThen(forgiving("renew", renew)),
        Effect.andThen(forgiving("sweep", sweep)),
        Effect.repeat(Schedule.spaced(interval)),
        Effect.withTracerEnabled(false),
        Effect.forkScoped
      )

      return HoldKeeper.of({
        keep: (hold, checkpoint) => Effect.sync(() => void open.set(hold, checkpoint)),
        settle: (settlement) =>
          end(
            settlement.holdId,
            Effect.map(ledger.settle(settlement), (charged) => charged ?? zero),
            settlement.cost
          ),
        release: (hold) => Effect.asVoid(end(hold, ledger.release(hold), false))
      })
    })
  )
}
