import { Cause, Effect, Exit, Fiber, Schedule, Schema } from "effect"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import { StoreUnavailable } from "../ports/storage/StoreUnavailable.ts"

/** How soon a turn is run again that was broken off: the store may be away, for a moment or for long. */
const again = Schedule.min([Schedule.exponential("200 millis", 2), Schedule.spaced("5 seconds")]).pipe(
  Schedule.jittered
)

/**
 * Runs a turn as often as it takes. A defect breaks it off, and so does an interruption from within, as of a fiber that
 * a step waits for; one from outside ends it.
 */
export const untilItEnds = <A>({ session, turn }: TurnRef, run: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.forkChild(run, { startImmediately: true }).pipe(
    Effect.flatMap((running) => Effect.onInterrupt(Fiber.await(running), () => Fiber.interrupt(running))),
    Effect.flatMap(Exit.match({ onSuccess: Effect.succeed, onFailure: Effect.fail })),
    Effect.tapError((cause) =>
      // A store that is away breaks off all of them, and that is known.
      Schema.is(StoreUnavailable)(Cause.squash(cause))
        ? Effect.logDebug("A turn waits for the store.", { turn, session })
        : Effect.logWarning("A turn was broken off, it is run again.", { turn, session }, cause)
    ),
    Effect.retry(again),
    // It is retried for ever.
    Effect.catch(Effect.failCause)
  )
