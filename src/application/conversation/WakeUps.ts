import { Clock, Duration, Effect, Latch } from "effect"
import type { TurnSteps } from "../ports/runtime/TurnRunner.ts"

/** The wake-ups of a turn that runs here: what every runner of turns makes of them. */
export interface WakeUps {
  readonly wake: Effect.Effect<void>
  /** See `TurnSteps`. Also tells of a wake-up that came before somebody listened, and of one that another has heard. */
  readonly woken: TurnSteps["woken"]
  /** Done at a wake-up, also at one that came since the last step began; none is told twice. */
  readonly next: Effect.Effect<void>
  /** A step: those that run beside each other are one. */
  readonly during: <A, E, R>(step: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/**
 * Several may listen at a time, for a cancellation and for answers, and one may be busy with the last wake-up when the
 * next comes: for so long everybody is told to look once more, so often.
 */
const echo = { for: Duration.toMillis("1 second"), every: Duration.millis(250) }

export const make = (): WakeUps => {
  // One who listens during a step takes nothing from who waits after it.
  const heard = Latch.makeUnsafe(false)
  const awaited = Latch.makeUnsafe(false)
  let last = -Infinity
  let steps = 0
  return {
    wake: Effect.gen(function* () {
      last = yield* Clock.currentTimeMillis
      yield* heard.open
      yield* awaited.open
    }),
    woken: Effect.gen(function* () {
      const isRecent = (yield* Clock.currentTimeMillis) - last < echo.for
      yield* isRecent ? Effect.timeoutOption(heard.await, echo.every) : heard.await
      yield* heard.close
    }),
    next: Effect.andThen(awaited.await, Effect.asVoid(awaited.close)),
    during: (step) =>
      Effect.acquireUseRelease(
        Effect.suspend(() => (steps++ === 0 ? awaited.close : Effect.void)),
        () => step,
        () => Effect.sync(() => void steps--)
      )
  }
}
