import { Duration, Effect, Layer, Schedule } from "effect"
import { TurnRunner } from "../../application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../application/ports/storage/TurnJournal.ts"

/** A turn that has run for so long without being started by anybody is started by everybody. */
const interval = Duration.seconds(5)

/** So many rounds later it is started once more: that start may have failed too. One that runs is not started again. */
const again = 6

/**
 * Starts the turns whose process died between the message that it stored and the start of its turn. A turn is left to
 * those who submitted it for one round, and then started by this process now and then, until it has ended.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const journal = yield* TurnJournal
    const runner = yield* TurnRunner

    /** The turns of the last round, with the rounds that they have been there for. */
    let known = new Map<string, number>()

    const round = Effect.gen(function* () {
      const seen = new Map<string, number>()
      for (const turn of yield* journal.running) {
        const key = JSON.stringify([turn.workspace, turn.session, turn.turn])
        const rounds = known.get(key) ?? 0
        if (rounds % again === 1) yield* runner.start(turn)
        seen.set(key, rounds + 1)
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
