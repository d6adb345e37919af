import { Context, type Effect, type Schema } from "effect"
import type { TurnRef } from "../../../domain/conversation/Turn.ts"

/**
 * Runs turns durably: one that was started goes on, on this process or another, until it has ended, whatever dies
 * meanwhile. What is done more than once is the affair of the turn, which writes a journal.
 */
export class TurnRunner extends Context.Service<
  TurnRunner,
  {
    /** Returns when the start is durable. A turn that was started already is not started again. */
    readonly start: (turn: TurnRef) => Effect.Effect<void>
    /** Tells a turn, wherever it runs, that something it waits for may be there: an answer, or a cancellation. */
    readonly wake: (turn: TurnRef) => Effect.Effect<void>
  }
>()("gateway/ports/runtime/TurnRunner") {}

/** What a turn gets from the one who runs it. */
export interface TurnSteps {
  /** Runs a step that writes what it did into the journal by itself: nothing more is remembered of it. */
  readonly run: <A, E, R>(step: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Runs a step and remembers what it gave: a turn that is taken up again is given that, and the step does not run. One
   * that was interrupted by the death of its process runs again, so what it writes it writes under a key. Names are of
   * one turn.
   */
  readonly once: <A, I, E, R>(
    name: string,
    step: { readonly success: Schema.Codec<A, I>; readonly run: Effect.Effect<A, E, R> }
  ) => Effect.Effect<A, E, R>
  /**
   * Waits until somebody wakes the turn, under this name at most so many milliseconds in all, also when the turn is taken
   * up by another process meanwhile; a wake-up since the step before counts. It may end early for nothing: look, and wait
   * again.
   */
  readonly wait: (name: string, millis: number) => Effect.Effect<void>
  /** Completes when the turn is woken while a step runs: a cancellation may have come. */
  readonly woken: Effect.Effect<void>
}
