import { Duration, Effect, Layer, Schedule } from "effect"
import { TurnRunner } from "../../application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../application/ports/storage/TurnJournal.ts"

/** A turn that has run for so long without being started by anybody is started by everybody. */
const interval = Duration.seconds(5)

/**
 * Starts the turns whose process died between the message that it stored and the start of its turn. A turn is left to
 * those who submitted it for one round, and started by this process once: it runs until it has ended.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const journal = yield* TurnJournal
    const runner = yield* TurnRunner

    /** The turns of the last round, true for those that this process has started. */
    let known = new Map<string, boolean>()

    const round = Effect.gen(function* () {
      const seen = new Map<string, boolean>()
      for (const turn of yield* journal.running) {
        const key = JSON.stringify([turn.workspace, turn.session, turn.turn])
        const started = known.get(key)
        if (started === false) yield* runner.start(turn)
        seen.set(key, started !== undefined)
      }
      known = seen
    })

    yield* round.pipe(
      Effect.catchCause((cause) => Effect.logDebug("Turns could not be looked for, they will be later.", cause)),
      Effect.repeat(Schedule.spaced(interval)),
      Effect.forkScoped
    )
  })
)
