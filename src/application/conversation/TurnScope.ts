import { Effect, Option } from "effect"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { TurnSteps } from "../ports/runtime/TurnRunner.ts"
import type { TurnJournal } from "../ports/storage/TurnJournal.ts"
import { TurnCancelled } from "./TurnStopped.ts"
import { isStoreUnavailable } from "./WhenStoreIsBack.ts"

/** A turn that runs, with those who run and record it. */
export interface TurnScope {
  readonly turn: TurnRef
  readonly steps: TurnSteps
  readonly journal: TurnJournal["Service"]
}

/** Fails when the turn was cancelled, or has ended by somebody else's hand. */
export const ensureRunning = ({ journal, turn }: TurnScope): Effect.Effect<void, TurnCancelled> =>
  Effect.flatMap(journal.find(turn), (found) =>
    Option.isSome(found) && found.value.status === "running" && !found.value.cancelRequested
      ? Effect.void
      : Effect.fail(new TurnCancelled())
  )

/** A store that is away says nothing of it: whoever only looks looks again. */
const look = (scope: TurnScope): Effect.Effect<void, TurnCancelled> =>
  Effect.catchDefect(
    Effect.suspend(() => ensureRunning(scope)),
    (defect) => (isStoreUnavailable(defect) ? Effect.void : Effect.die(defect))
  )

/** Interrupts what runs for a turn as soon as that is cancelled. */
export const unlessCancelled = <A, E, R>(
  scope: TurnScope,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | TurnCancelled, R> =>
  Effect.raceFirst(
    effect,
    Effect.forever(Effect.raceFirst(scope.steps.woken, Effect.sleep(lookAgainAfter)).pipe(Effect.andThen(look(scope))))
  )

/** Wake-ups are what tells; this is for one that got lost. */
const lookAgainAfter = "5 seconds"
