import { Effect, Schema } from "effect"
import { StoreUnavailable } from "../ports/storage/StoreUnavailable.ts"

/** The store is away: that is nobody's fault, and passes. */
export const isStoreUnavailable = Schema.is(StoreUnavailable)

/**
 * Does it again until the store is back: what is to be written, an answer of a model or what a tool did, cannot be made
 * again, or not for nothing. Only for what may be done twice: the first time may have been done.
 */
export const whenStoreIsBack = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchDefect(effect, (defect) =>
    isStoreUnavailable(defect)
      ? Effect.andThen(
          Effect.sleep("500 millis"),
          Effect.suspend(() => whenStoreIsBack(effect))
        )
      : Effect.die(defect)
  )
