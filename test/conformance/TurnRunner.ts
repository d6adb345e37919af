import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Option, Schema } from "effect"
import { RunTurn } from "../../src/application/conversation/RunTurn.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { sessionId, submission, turnIn } from "./Conversation.ts"
import { account } from "./Samples.ts"

/** What the turns of a suite do, each its own. */
export class Bodies extends Context.Service<Bodies, Map<string, RunTurn["Service"]["run"]>>()("test/Bodies") {}

/** Turns that do what they are told to. */
export const scripted = Layer.effect(
  RunTurn,
  Effect.map(Bodies, (bodies) =>
    RunTurn.of({ run: (turn, steps) => bodies.get(turn.turn)?.(turn, steps) ?? Effect.succeedNone })
  )
).pipe(Layer.provideMerge(Layer.sync(Bodies, () => new Map())))

/** Turns go on in the time of the machine. */
const pause = (millis: number) => Effect.promise(() => new Promise((resolve) => setTimeout(resolve, millis)))

const value = Schema.Struct({ at: Schema.Date, text: Schema.String })

/** What whoever runs turns must do. */
export const turnRunnerSuite = <E>(
  name: string,
  runner: Layer.Layer<TurnRunner | TurnJournal | Organizations | Ledger, E, RunTurn>
) =>
  layer(Layer.provideMerge(runner, scripted), { timeout: "2 minutes", excludeTestServices: true })(name, (it) => {
    /** A turn that runs, by its journal, and does this once it is started. */
    const turnThat = Effect.fnUntraced(function* (run: RunTurn["Service"]["run"]) {
      const turn = turnIn(yield* account(), sessionId())
      yield* (yield* TurnJournal).submit(turn, submission("Hello"))
      ;(yield* Bodies).set(turn.turn, run)
      return turn
    })

    const finish = (turn: TurnRef) => Effect.flatMap(TurnJournal, (journal) => journal.finish(turn, "completed", {}))

    it.effect("runs a turn that was started, once however often it was", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const journal = yield* TurnJournal
        let runs = 0
        const ended = yield* Deferred.make<TurnRef>()
        const turn = yield* turnThat((turn) =>
          Effect.gen(function* () {
            runs++
            yield* Effect.sleep("100 millis")
            yield* Deferred.succeed(ended, turn)
            return yield* journal.finish(turn, "completed", {})
          })
        )
        yield* Effect.all([runner.start(turn), runner.start(turn)], { concurrency: "unbounded" })
        yield* runner.start(turn)
        assert.deepStrictEqual(yield* Deferred.await(ended), turn)
        yield* runner.start(turn)
        yield* pause(300)
        assert.strictEqual(runs, 1)
      })
    )

    it.effect("does not wait for the end of a turn", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const goOn = yield* Deferred.make<void>()
        const ended = yield* Deferred.make<void>()
        const turn = yield* turnThat(() =>
          Deferred.await(goOn).pipe(Effect.andThen(Deferred.succeed(ended, undefined)), Effect.as(Option.none()))
        )
        yield* runner.start(turn)
        yield* Deferred.succeed(goOn, undefined)
        yield* Deferred.await(ended)
      })
    )

    it.effect("starts the turn that comes next", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const journal = yield* TurnJournal
        const order: Array<string> = []
        const ended = yield* Deferred.make<void>()
        const first = yield* turnThat((turn) => {
          order.push("first")
          return journal.finish(turn, "completed", {})
        })
        const second = turnIn(first.workspace, first.session)
        ;(yield* Bodies).set(second.turn, (turn) => {
          order.push("second")
          return Effect.andThen(Deferred.succeed(ended, undefined), journal.finish(turn, "completed", {}))
        })
        assert.deepStrictEqual(yield* journal.submit(second, submission("And?")), { position: 1 })
        yield* runner.start(first)
        yield* Deferred.await(ended)
        assert.deepStrictEqual(order, ["first", "second"])
      })
    )

    it.effect("runs a turn again that a defect has ended, and its finished steps not", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const journal = yield* TurnJournal
        const ran: Array<string> = []
        const given: Array<typeof value.Type> = []
        const ended = yield* Deferred.make<void>()
        const at = new Date(1_234_567_890_123)
        const turn = yield* turnThat((turn, steps) =>
          Effect.gen(function* () {
            const step = (name: string, run: Effect.Effect<void>) =>
              steps.once(name, {
                success: value,
                run: Effect.andThen(
                  Effect.sync(() => void ran.push(name)),
                  Effect.as(run, { at, text: `${name} 😀` })
                )
              })
            given.push(yield* step("first", Effect.void))
            yield* steps.once("nothing", { success: Schema.Void, run: Effect.sync(() => void ran.push("nothing")) })
            // The step itself has failed: it is not finished.
            yield* step("second", ran.length < 3 ? Effect.die("away") : Effect.void)
            // The turn fails between two steps.
            if (ran.length < 5) {
              ran.push("between")
              return yield* Effect.die("away")
            }
            yield* Deferred.succeed(ended, undefined)
            return yield* journal.finish(turn, "completed", {})
          })
        )
        yield* runner.start(turn)
        yield* Deferred.await(ended)
        assert.deepStrictEqual(ran, ["first", "nothing", "second", "second", "between"])
        assert.deepStrictEqual(
          given,
          Array.from({ length: 3 }, () => ({ at, text: "first 😀" }))
        )
      })
    )

    it.effect("runs a turn again that was interrupted from within, or by several things at once", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const journal = yield* TurnJournal
        let runs = 0
        const ended = yield* Deferred.make<void>()
        const turn = yield* turnThat((turn, steps) =>
          Effect.gen(function* () {
            runs++
            if (runs === 1) return yield* Effect.interrupt
            if (runs === 2) {
              const beside = steps.once("beside", { success: Schema.Void, run: Effect.never })
              yield* Effect.all([beside, Effect.andThen(Effect.yieldNow, Effect.die("away"))], { concurrency: 2 })
            }
            yield* Deferred.succeed(ended, undefined)
            return yield* journal.finish(turn, "completed", {})
          })
        )
        yield* runner.start(turn)
        yield* Deferred.await(ended)
        assert.strictEqual(runs, 3)
      })
    )

    it.effect("gives a step's own error to the turn, and does not remember it", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const seen: Array<unknown> = []
        const ended = yield* Deferred.make<void>()
        const turn = yield* turnThat((_turn, steps) =>
          Effect.gen(function* () {
            const step = (run: Effect.Effect<number, string>) =>
              steps.once("step", { success: Schema.Finite, run }).pipe(Effect.result)
            seen.push(yield* step(Effect.fail("no")), yield* step(Effect.succeed(1)), yield* step(Effect.fail("no")))
            yield* Deferred.succeed(ended, undefined)
            return Option.none<TurnRef>()
          })
        )
        yield* runner.start(turn)
        yield* Deferred.await(ended)
        assert.deepStrictEqual(
          seen.map((result) => JSON.parse(JSON.stringify(result))),
          [
            { _id: "Result", _tag: "Failure", failure: "no" },
            { _id: "Result", _tag: "Success", value: 1 },
            { _id: "Result", _tag: "Success", value: 1 }
          ]
        )
        yield* finish(turn)
      })
    )

    /** A turn that waits once; gives how long it did. */
    const waiting = Effect.fnUntraced(function* (millis: number, before: Effect.Effect<void>) {
      const begun = yield* Deferred.make<void>()
      const ended = yield* Deferred.make<number>()
      const journal = yield* TurnJournal
      const turn = yield* turnThat((turn, steps) =>
        Effect.gen(function* () {
          yield* steps.once("ask", {
            success: Schema.Void,
            run: Effect.andThen(Deferred.succeed(begun, undefined), before)
          })
          const since = performance.now()
          yield* steps.wait("answer", millis)
          yield* Deferred.succeed(ended, performance.now() - since)
          return yield* journal.finish(turn, "completed", {})
        })
      )
      yield* (yield* TurnRunner).start(turn)
      yield* Deferred.await(begun)
      return { turn, ended: Deferred.await(ended) }
    })

    it.effect("waits as long as nobody wakes the turn", () =>
      Effect.gen(function* () {
        const { ended } = yield* waiting(400, Effect.void)
        const waited = yield* ended
        assert.isAtLeast(waited, 390)
        assert.isBelow(waited, 1_500)
      })
    )

    it.effect("ends a wait at once when the turn is woken", () =>
      Effect.gen(function* () {
        const { ended, turn } = yield* waiting(60_000, Effect.void)
        yield* pause(300)
        yield* (yield* TurnRunner).wake(turn)
        const waited = yield* ended
        assert.isBelow(waited, 1_300)
      })
    )

    it.effect("counts a wake-up of the step before the wait", () =>
      Effect.gen(function* () {
        const { ended, turn } = yield* waiting(60_000, pause(500))
        yield* (yield* TurnRunner).wake(turn)
        assert.isBelow(yield* ended, 400)
      })
    )

    it.effect("waits no longer in all for being run again", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const ended = yield* Deferred.make<number>()
        let since: number | undefined
        let broken = false
        const turn = yield* turnThat((_turn, steps) =>
          Effect.gen(function* () {
            since ??= performance.now()
            if (broken) yield* steps.wait("answer", 1_500)
            else yield* Effect.raceFirst(steps.wait("answer", 1_500), pause(700))
            if (!broken) {
              broken = true
              return yield* Effect.die("away")
            }
            yield* Deferred.succeed(ended, performance.now() - since)
            return Option.none<TurnRef>()
          })
        )
        yield* runner.start(turn)
        const waited = yield* Deferred.await(ended)
        assert.isAtLeast(waited, 1_480)
        assert.isBelow(waited, 2_100)
        yield* finish(turn)
      })
    )

    it.effect("tells all who listen in a step of a wake-up, also of one that came just before it", () =>
      Effect.gen(function* () {
        const runner = yield* TurnRunner
        const begun = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const heard: Array<string> = []
        const ended = yield* Deferred.make<void>()
        const turn = yield* turnThat((_turn, steps) =>
          Effect.gen(function* () {
            yield* Deferred.succeed(begun, undefined)
            yield* Deferred.await(goOn)
            yield* steps.once("long", {
              success: Schema.Void,
              run: Effect.gen(function* () {
                yield* steps.woken
                heard.push("before")
                const listen = (name: string) =>
                  Effect.andThen(
                    steps.woken,
                    Effect.sync(() => heard.push(name))
                  )
                yield* pause(1_100)
                const listening = yield* Effect.forkChild(
                  Effect.all([listen("one"), listen("other")], { concurrency: 2 })
                )
                yield* pause(200)
                heard.push("during")
                yield* Fiber.join(listening)
              })
            })
            yield* Deferred.succeed(ended, undefined)
            return Option.none<TurnRef>()
          })
        )
        yield* runner.start(turn)
        yield* Deferred.await(begun)
        yield* runner.wake(turn)
        yield* Deferred.succeed(goOn, undefined)
        while (heard.length < 2) yield* pause(10)
        assert.deepStrictEqual(heard, ["before", "during"])
        const since = performance.now()
        yield* runner.wake(turn)
        yield* Deferred.await(ended)
        assert.isBelow(performance.now() - since, 1_000)
        assert.deepStrictEqual(heard, ["before", "during", "one", "other"])
        yield* finish(turn)
      })
    )

    it.effect("wakes nobody for a turn that does not run", () =>
      Effect.gen(function* () {
        const turn = yield* turnThat(() => Effect.succeedNone)
        yield* (yield* TurnRunner).wake(turn)
        yield* finish(turn)
      })
    )
  })
