import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as UnstartedTurns from "../../src/adapters/cluster/UnstartedTurns.ts"
import { RunTurn } from "../../src/application/conversation/RunTurn.ts"
import type { TurnSteps } from "../../src/application/ports/runtime/TurnRunner.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { StoreUnavailable } from "../../src/application/ports/storage/StoreUnavailable.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import type { SessionEvent } from "../../src/domain/conversation/SessionEvent.ts"
import { submission, turnIn } from "../conformance/Conversation.ts"
import { calls, conversing, failing, newSession, outcome, says, tool } from "./Conversing.ts"

const approving = { toolConfirmation: { mode: "auto-approve" } }
const only = <Name extends SessionEvent["event"]>(events: ReadonlyArray<SessionEvent>, name: Name) =>
  events.filter((each): each is Extract<SessionEvent, { event: Name }> => each.event === name)
/** Steps of a process that remembers nothing: all there is is the journal. */
const forgetful: TurnSteps = {
  run: (step) => step,
  once: (_, { run }) => run,
  wait: () => Effect.never,
  woken: Effect.never
}
/** What an operation of the store does that is away. */
const away: Effect.Effect<never> = Effect.die(new StoreUnavailable({ cause: "away" }))
const codes = (events: ReadonlyArray<SessionEvent>) => only(events, "error").map(({ data }) => data.code)

describe("a turn that runs twice for a moment", () => {
  it.effect("is not cancelled by the one whose answer comes second", () => {
    const late = Deferred.makeUnsafe<void>()
    const { layer } = conversing({
      agent: approving,
      script: [
        { after: late, events: [...says("x").slice(0, 1), ...calls(["slow", {}])] },
        calls(["slow", {}]),
        says("Done."),
        says("Done.")
      ],
      tools: [tool("slow", () => Effect.as(Effect.sleep("3 seconds"), outcome("slow")))]
    })
    return Effect.gen(function* () {
      const { events, session, workspace } = yield* newSession
      const { run } = yield* RunTurn
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("Go"))
      const a = yield* Effect.forkChild(run(turn, forgetful))
      yield* TestClock.adjust(10)
      const b = yield* Effect.forkChild(run(turn, forgetful))
      yield* TestClock.adjust(100)
      yield* Deferred.succeed(late, undefined)
      yield* TestClock.adjust(10_000)
      yield* Fiber.await(a)
      yield* Fiber.await(b)
      assert.deepStrictEqual(codes(yield* events), [])
      assert.lengthOf(only(yield* events, "response"), 1)
    }).pipe(Effect.provide(layer))
  })
})

describe("the first run of a turn", () => {
  /** A journal in which it is written as late as the test says that the model was asked, for the first time. */
  const slowly = (written: Deferred.Deferred<void>) => {
    let tries = 0
    return ({ record }: TurnJournal["Service"]): Partial<TurnJournal["Service"]> => ({
      record: (turn, key, entry) =>
        key !== "model-1-begun" || tries++ > 0
          ? record(turn, key, entry)
          : Effect.andThen(Deferred.await(written), record(turn, key, entry))
    })
  }
  const names = (events: ReadonlyArray<SessionEvent>) => events.map(({ event }) => event).slice(1)

  it.effect("asks the model while the journal is written, and says nothing before", () => {
    const written = Deferred.makeUnsafe<void>()
    const { asked, layer } = conversing({ journal: slowly(written), script: [says("Done.")] })
    return Effect.gen(function* () {
      const { ended, events, send } = yield* newSession
      yield* send("Hi", true)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(asked, 1)
      assert.deepStrictEqual(names(yield* events), [])
      yield* Deferred.succeed(written, undefined)
      assert.deepStrictEqual(names(yield* ended()), ["thinking", "chunk", "response"])
      assert.lengthOf(asked, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("that fails at once has thought before it says so", () => {
    const written = Deferred.makeUnsafe<void>()
    const { layer } = conversing({ journal: slowly(written), script: [failing()] })
    return Effect.gen(function* () {
      const { ended, events, send } = yield* newSession
      yield* send("Hi", true)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(names(yield* events), [])
      yield* Deferred.succeed(written, undefined)
      assert.deepStrictEqual(names(yield* ended()), ["thinking", "error"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("leaves the model as soon as it turns out that another run has asked, and takes its answer", () => {
    const written = Deferred.makeUnsafe<void>()
    const never = Deferred.makeUnsafe<void>()
    let ran = 0
    const { asked, closed, layer } = conversing({
      agent: approving,
      journal: slowly(written),
      script: [{ after: never, events: says("Never said.") }, calls(["a", {}]), says("Done."), says("Done.")],
      tools: [tool("a", () => Effect.sync(() => (ran++, outcome("a"))))]
    })
    return Effect.gen(function* () {
      const { events, session, workspace } = yield* newSession
      const { run } = yield* RunTurn
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("Go"))
      const first = yield* Effect.forkChild(run(turn, forgetful))
      yield* TestClock.adjust(10)
      yield* run(turn, forgetful)
      assert.lengthOf(asked, 3)
      assert.strictEqual(closed(), 2)
      yield* Deferred.succeed(written, undefined)
      yield* Fiber.join(first)
      assert.strictEqual(closed(), 3)
      assert.lengthOf(asked, 3)
      assert.strictEqual(ran, 1)
      assert.deepStrictEqual(
        only(yield* events, "response").map(({ data }) => data.text),
        ["Done."]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("leaves the model when the store is away, and asks once more when it is back", () => {
    const never = Deferred.makeUnsafe<void>()
    let tries = 0
    const { asked, closed, layer } = conversing({
      journal: ({ record }) => ({
        record: (turn, key, entry) =>
          key === "model-1-begun" && tries++ < 4
            ? Effect.andThen(Effect.sleep("1 second"), away)
            : record(turn, key, entry)
      }),
      script: [{ after: never, events: says("Never said.") }, says("Done.")]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Hi", true)
      yield* TestClock.adjust(500)
      assert.strictEqual(closed(), 0)
      assert.deepStrictEqual(names(yield* ended()), ["thinking", "chunk", "response"])
      assert.strictEqual(tries, 5)
      assert.lengthOf(asked, 2)
      assert.strictEqual(closed(), 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("that has a defect has thought before it says so", () => {
    const written = Deferred.makeUnsafe<void>()
    const { layer } = conversing({
      journal: slowly(written),
      script: [
        () => {
          throw new RangeError("a defect")
        }
      ]
    })
    return Effect.gen(function* () {
      const { ended, events, send } = yield* newSession
      yield* send("Hi", true)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(names(yield* events), [])
      yield* Deferred.succeed(written, undefined)
      const all = yield* ended()
      assert.deepStrictEqual(names(all), ["thinking", "error"])
      assert.deepStrictEqual(codes(all), ["internal_error"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is cancelled while the journal is written, and leaves the model", () => {
    const never = Deferred.makeUnsafe<void>()
    const { asked, closed, layer } = conversing({ journal: slowly(never), script: [says("Never said.")] })
    return Effect.gen(function* () {
      const { ended, send, session, workspace } = yield* newSession
      const turn = yield* send("Hi", true)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(asked, 1)
      yield* (yield* TurnJournal).cancel(workspace, session)
      yield* (yield* TurnRunner).wake(turn)
      assert.deepStrictEqual(codes(yield* ended()), ["cancelled"])
      assert.strictEqual(closed(), 1)
    }).pipe(Effect.provide(layer))
  })
})

describe("a store that is away for a moment", () => {
  /** A tool that takes 12 s, and a journal one operation of which is away when the test says so. */
  const paying = (operation: "find" | "record") => {
    const state = { finished: 0, isAway: false }
    const made = conversing({
      agent: approving,
      journal: ({ find, record }) =>
        operation === "find"
          ? { find: (turn) => Effect.suspend(() => (state.isAway ? away : find(turn))) }
          : { record: (turn, key, entry) => Effect.suspend(() => (state.isAway ? away : record(turn, key, entry))) },
      script: [calls(["pay", {}]), says("Done.")],
      tools: [
        tool("pay", () =>
          Effect.andThen(
            Effect.sleep("12 seconds"),
            Effect.sync(() => {
              state.finished++
              return outcome("paid")
            })
          )
        )
      ]
    })
    return { ...made, state }
  }

  it.effect("when a running turn is looked at, does not break off its tool", () => {
    const { asked, layer, state } = paying("find")
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Pay")
      yield* TestClock.adjust("1 second")
      state.isAway = true
      for (let second = 0; second < 7; second++) yield* TestClock.adjust("1 second")
      state.isAway = false
      yield* ended()
      assert.strictEqual(state.finished, 1)
      assert.include(JSON.stringify(asked[1]?.request.messages.at(-1)), "paid")
    }).pipe(Effect.provide(layer))
  })

  it.effect("when a tool has ended, does not lose its result", () => {
    const { asked, layer, state } = paying("record")
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Pay")
      for (let second = 0; second < 11; second++) yield* TestClock.adjust("1 second")
      state.isAway = true
      for (let second = 0; second < 3; second++) yield* TestClock.adjust("1 second")
      state.isAway = false
      yield* ended()
      assert.strictEqual(state.finished, 1)
      assert.include(JSON.stringify(asked[1]?.request.messages.at(-1)), "paid")
    }).pipe(Effect.provide(layer))
  })

  it.effect("when an answer that calls tools is there, does not ask the model again", () => {
    let failures = 1
    const { asked, layer } = conversing({
      agent: approving,
      journal: ({ record }) => ({
        record: (turn, key, entry) =>
          Effect.suspend(() => (key === "model-1" && failures-- > 0 ? away : record(turn, key, entry)))
      }),
      script: [calls(["a", {}]), says("Done"), says("Done")],
      tools: [tool("a", () => Effect.succeed(outcome("a")))]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Hi", true)
      assert.lengthOf(only(yield* ended(), "toolResult"), 1)
      assert.strictEqual(new Set(asked.map(({ requestId }) => requestId)).size, 2)
      assert.lengthOf(asked, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("when the turn ends, does not ask the model again", () => {
    let failures = 1
    const { asked, layer } = conversing({
      journal: ({ finish }) => ({
        finish: (turn, status, entry) => Effect.suspend(() => (failures-- > 0 ? away : finish(turn, status, entry)))
      }),
      script: [says("First."), says("Second.")]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Hi", true)
      const all = yield* ended()
      assert.lengthOf(asked, 1)
      assert.strictEqual(only(all, "response")[0]?.data.text, "First.")
    }).pipe(Effect.provide(layer))
  })
})

describe("a call", () => {
  it.effect("that had begun has an unknown outcome, also when its tool is not there at the take-over", () => {
    let ran = 0
    const tools = [
      tool("pay", () =>
        Effect.suspend(() => {
          ran++
          return Effect.interrupt
        })
      )
    ]
    const { asked, layer } = conversing({ agent: approving, script: [calls(["pay", {}]), says("Done.")], tools })
    return Effect.gen(function* () {
      const { session, workspace } = yield* newSession
      const { run } = yield* RunTurn
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("Pay"))
      yield* Effect.exit(run(turn, forgetful))
      assert.strictEqual(ran, 1)
      // Its server is not connected yet on the replica that takes the turn up.
      tools.pop()
      yield* run(turn, forgetful)
      assert.include(JSON.stringify(asked[1]?.request.messages.at(-1)), "The outcome is unknown")
    }).pipe(Effect.provide(layer))
  })

  it.effect("whose tool has a defect is told to the model", () => {
    const { layer } = conversing({
      agent: approving,
      script: [calls(["a", {}]), says("Done.")],
      tools: [tool("a", () => Effect.die(new RangeError("Maximum call stack size exceeded")))]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Hi")
      const all = yield* ended()
      assert.deepStrictEqual(codes(all), [])
      assert.isFalse(only(all, "toolResult")[0]?.data.success)
    }).pipe(Effect.provide(layer))
  })

  it.effect("that asks with a form waits for it no longer in all when the turn is taken up again", () => {
    const { layer } = conversing({
      agent: { toolConfirmation: { timeout: 10_000 } },
      script: [calls(["ask_user", {}]), says("Done.")],
      tools: [
        tool(
          "ask_user",
          (_, { elicit }) => Effect.map(elicit({ message: "?", schema: {} }), ({ status }) => outcome(status)),
          { asksItself: true, isIdempotent: true }
        )
      ]
    })
    return Effect.gen(function* () {
      const { events, session, workspace } = yield* newSession
      const { run } = yield* RunTurn
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("Ask"))
      const first = yield* Effect.forkChild(run(turn, forgetful))
      for (let second = 0; second < 9; second++) yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(first)
      yield* Effect.forkChild(run(turn, forgetful))
      for (let second = 0; second < 4; second++) yield* TestClock.adjust("1 second")
      assert.lengthOf(only(yield* events, "response"), 1)
    }).pipe(Effect.provide(layer))
  })
})

describe("a turn", () => {
  it.effect("is cancelled within a second while its agent starts", () => {
    // A strict server that takes its time, 30 s unless configured.
    const { layer } = conversing({
      running: ({ of }) => ({ of: (workspace) => Effect.delay(of(workspace), "30 seconds") }),
      script: [says("First.")]
    })
    return Effect.gen(function* () {
      const { events, send, session, workspace } = yield* newSession
      const turn = yield* send("Hi")
      yield* TestClock.adjust(100)
      yield* (yield* TurnJournal).cancel(workspace, session)
      yield* (yield* TurnRunner).wake(turn)
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual(codes(yield* events), ["cancelled"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("whose start by this process failed is started again", () => {
    const { layer } = conversing()
    return Effect.gen(function* () {
      const { session, workspace } = yield* newSession
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("Hi"))
      let started = 0
      // As that of the cluster: a start that fails is a line in the log.
      const runner = TurnRunner.of({ start: () => Effect.sync(() => void started++), wake: () => Effect.void })
      yield* Layer.build(UnstartedTurns.layer).pipe(Effect.provideService(TurnRunner, runner))
      yield* TestClock.adjust("1 minute")
      assert.isAbove(started, 1)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })
})
