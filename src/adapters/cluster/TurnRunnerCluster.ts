import { Clock, Duration, Effect, Fiber, Latch, Layer, Option, References, Schema } from "effect"
import { Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"
import { Workflow, WorkflowEngine } from "effect/workflow"
import { createHash } from "node:crypto"
import { RunTurn } from "../../application/conversation/RunTurn.ts"
import { untilItEnds } from "../../application/conversation/UntilItEnds.ts"
import * as WakeUps from "../../application/conversation/WakeUps.ts"
import { TurnRunner, type TurnSteps } from "../../application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../application/ports/storage/TurnJournal.ts"
import { TurnRef } from "../../domain/conversation/Turn.ts"

/**
 * A turn as a durable workflow: a message in the store of the cluster that whoever has its shard takes up, and takes up
 * again after the death of who had it, until it has ended.
 */
export const TurnWorkflow = Workflow.make("Turn", {
  payload: TurnRef,
  idempotencyKey: ({ session, turn, workspace }) => JSON.stringify([workspace, session, turn])
})

/**
 * What the library calls the execution of a turn (`TurnWorkflow.executionId`), without a detour over another thread,
 * which takes a turn longer than the hash.
 */
export const executionIdOf = (turn: TurnRef): string => {
  const { _tag: tag, idempotencyKey } = TurnWorkflow
  return createHash("sha256")
    .update(`${tag.length}:${tag}:${idempotencyKey(turn)}`)
    .digest("hex")
    .slice(0, 32)
}

/**
 * The same turn for who wants to wake it: of the same identifier, so on the same shard and process. What it is told is
 * not stored, since a turn that is taken up looks into its journal by itself.
 */
const TurnWaking = Entity.make("TurnWaking", [Rpc.make("wake")])

/** A start that could not be handed over by then goes on beside: the journal has the turn, see `UnstartedTurns`. */
const patience = Duration.seconds(1)

/** After so long whoever had the turn is dead, and who takes it up looks into its journal. */
const reach = Duration.seconds(15)

/** A wake-up can be lost with the one it was sent to, or the way there be closed: who waits looks now and then. */
const lookAgainAfter = Duration.toMillis("10 seconds")

/**
 * Turns as workflows of the cluster (decisions 6), on whatever process of it. What a step gave is remembered in the
 * turn's own journal, so there is one account of what has been done.
 */
export const layer = Layer.unwrap(
  Effect.gen(function* () {
    const engine = yield* WorkflowEngine.WorkflowEngine
    const journal = yield* TurnJournal
    const runTurn = yield* RunTurn
    const scope = yield* Effect.scope
    const waking = yield* TurnWaking.client
    const logLevel = yield* References.MinimumLogLevel

    /** Those that run in this process, by the identifiers of their workflows. */
    const live = new Map<string, { readonly wakeUps: WakeUps.WakeUps; readonly gone: Latch.Latch }>()

    const start = Effect.fn("TurnRunner.start")(function* (turn: TurnRef) {
      const execution = { executionId: executionIdOf(turn), payload: turn, discard: true, detached: true } as const
      const starting = yield* engine.execute(TurnWorkflow, execution).pipe(
        Effect.tapCause((cause) => Effect.logWarning("A turn could not be handed over, it will be later.", cause)),
        Effect.forkIn(scope, { startImmediately: true })
      )
      yield* Effect.timeoutOption(Fiber.await(starting), patience)
    })

    const wake = Effect.fn("TurnRunner.wake")(function* (turn: TurnRef) {
      const id = executionIdOf(turn)
      const here = live.get(id)
      if (here !== undefined) return yield* here.wakeUps.wake
      yield* waking(id)
        .wake()
        .pipe(
          Effect.timeout(reach),
          Effect.catchCause((cause) => Effect.logWarning("A turn could not be woken.", cause)),
          Effect.forkIn(scope, { startImmediately: true })
        )
    })

    /** What was remembered first counts: a turn may run twice for a moment, once here and once on its way out. */
    const remembered = <A, I, E, R>(
      turn: TurnRef,
      key: string,
      schema: Schema.Codec<A, I>,
      made: Effect.Effect<A, E, R>
    ) =>
      Effect.gen(function* () {
        const json = Schema.toCodecJson(schema)
        const known = Effect.flatMap(journal.recorded(turn, key), (memo) =>
          Effect.transposeOption(Option.map(memo, (value) => Effect.orDie(Schema.decodeUnknownEffect(json)(value))))
        )
        const before = yield* known
        if (Option.isSome(before)) return before.value
        const result = yield* made
        const memo = yield* Effect.orDie(Schema.encodeEffect(json)(result))
        if (yield* journal.record(turn, key, { memo })) return result
        // A turn that has ended remembers nothing more.
        return Option.getOrElse(yield* known, () => result)
      })

    const stepsOf = (turn: TurnRef, wakeUps: WakeUps.WakeUps): TurnSteps => ({
      run: wakeUps.during,
      once: (name, { run, success }) => remembered(turn, `step-${name}`, success, wakeUps.during(run)),
      wait: Effect.fnUntraced(function* (name, millis) {
        const deadline = Effect.map(Clock.currentTimeMillis, (now) => now + millis)
        const until = yield* remembered(turn, `until-${name}`, Schema.Finite, deadline)
        const left = until - (yield* Clock.currentTimeMillis)
        yield* Effect.raceFirst(wakeUps.next, Effect.sleep(Math.max(0, Math.min(left, millis, lookAgainAfter))))
      }),
      woken: wakeUps.woken
    })

    const run = Effect.fnUntraced(function* (turn: TurnRef, id: string) {
      // One that had to leave may be back before it is gone, and one that the store has forgotten is started once more.
      for (let before = live.get(id); before !== undefined; before = live.get(id)) yield* before.gone.await
      const here = { wakeUps: WakeUps.make(), gone: Latch.makeUnsafe() }
      live.set(id, here)
      const running = Effect.flatMap(
        runTurn.run(turn, stepsOf(turn, here.wakeUps)),
        Option.match({ onNone: () => Effect.void, onSome: start })
      )
      yield* untilItEnds(turn, running).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            live.delete(id)
            here.gone.openUnsafe()
          })
        ),
        // The cluster's own may be another, see `Quiet`.
        Effect.provideService(References.MinimumLogLevel, logLevel)
      )
    })

    const Wakings = TurnWaking.toLayer(
      Effect.map(Entity.CurrentAddress, ({ entityId }) => ({
        wake: () => live.get(entityId)?.wakeUps.wake ?? Effect.void
      })),
      { maxIdleTime: "5 seconds" }
    )

    return Layer.succeed(TurnRunner, { start, wake }).pipe(
      Layer.provideMerge(Layer.merge(TurnWorkflow.toLayer(run), Wakings))
    )
  })
)
