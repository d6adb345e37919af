import { Clock, Effect, Layer, Option, Schema } from "effect"
import { RunTurn } from "../../application/conversation/RunTurn.ts"
import { untilItEnds } from "../../application/conversation/UntilItEnds.ts"
import * as WakeUps from "../../application/conversation/WakeUps.ts"
import { TurnRunner, type TurnSteps } from "../../application/ports/runtime/TurnRunner.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"

const keyOf = ({ session, turn, workspace }: TurnRef): string => JSON.stringify([workspace, session, turn])

/** Runs turns as fibers of this process, which forgets them with its end, like the stores in memory. */
export const layer = Layer.effect(
  TurnRunner,
  Effect.gen(function* () {
    const runTurn = yield* RunTurn
    const scope = yield* Effect.scope

    /** The turns that run, with their wake-ups. One that is started after its end finds that in the journal. */
    const started = new Map<string, WakeUps.WakeUps>()

    const stepsOf = (wakeUps: WakeUps.WakeUps): TurnSteps => {
      const results = new Map<string, unknown>()
      const deadlines = new Map<string, number>()
      return {
        run: wakeUps.during,
        once: (name, { run, success }) =>
          Effect.gen(function* () {
            // As a store would give it back, so that a schema which loses something is found out.
            const json = Schema.toCodecJson(success)
            if (results.has(name)) return yield* Effect.orDie(Schema.decodeUnknownEffect(json)(results.get(name)))
            const result = yield* wakeUps.during(run)
            results.set(name, yield* Effect.orDie(Schema.encodeEffect(json)(result)))
            return result
          }),
        wait: Effect.fnUntraced(function* (name, millis) {
          const now = yield* Clock.currentTimeMillis
          const until = deadlines.get(name) ?? now + millis
          deadlines.set(name, until)
          yield* Effect.raceFirst(wakeUps.next, Effect.sleep(Math.max(0, Math.min(until - now, millis))))
        }),
        woken: wakeUps.woken
      }
    }

    const start = (turn: TurnRef): Effect.Effect<void> =>
      Effect.suspend(() => {
        const key = keyOf(turn)
        if (started.has(key)) return Effect.void
        const wakeUps = WakeUps.make()
        started.set(key, wakeUps)
        return untilItEnds(turn, runTurn.run(turn, stepsOf(wakeUps))).pipe(
          Effect.ensuring(Effect.sync(() => void started.delete(key))),
          Effect.flatMap(Option.match({ onNone: () => Effect.void, onSome: start })),
          Effect.forkIn(scope),
          Effect.asVoid
        )
      })

    return TurnRunner.of({
      start: Effect.fn("TurnRunner.start")(start),
      wake: Effect.fn("TurnRunner.wake")((turn) => started.get(keyOf(turn))?.wake ?? Effect.void)
    })
  })
)
