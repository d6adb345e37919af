import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { showing } from "../../src/application/conversation/ChunkWriter.ts"
import type { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import { StoreUnavailable } from "../../src/application/ports/storage/StoreUnavailable.ts"
import type { CompletionEvent } from "../../src/domain/completion/CompletionEvent.ts"
import type { SessionEvent } from "../../src/domain/conversation/SessionEvent.ts"
import { sessionId, turnIn } from "../conformance/Conversation.ts"
import { organization } from "../conformance/Samples.ts"

const says = (content: string): CompletionEvent => ({ _tag: "Delta", index: 0, content })

/** A log whose store a test takes away; `times` is how often somebody tried to append. */
const logOf = () => {
  const written: Array<SessionEvent> = []
  const state = { defect: undefined as unknown, times: 0 }
  const unused = () => Effect.die(new Error("no test needs it"))
  const log: EventLog["Service"] = {
    append: (_, events) =>
      Effect.suspend(() => {
        state.times++
        return state.defect === undefined ? Effect.sync(() => void written.push(...events)) : Effect.die(state.defect)
      }),
    after: unused,
    last: unused,
    wakeUps: Stream.empty
  }
  const chunks = () => written.flatMap((each) => (each.event === "chunk" ? [each.data] : []))
  return {
    log,
    state,
    text: () =>
      chunks()
        .map(({ content }) => content)
        .join(""),
    chunks
  }
}

const turn = turnIn(organization().id, sessionId())

describe("what a model says while the store is away", () => {
  it.effect("is shown when it is back, in its order and once", () =>
    Effect.gen(function* () {
      const { chunks, log, state, text } = logOf()
      const goOn = yield* Deferred.make<void>()
      const events = Stream.concat(
        Stream.make(says("one ")),
        Stream.concat(
          Stream.unwrap(Effect.as(Effect.sleep("1 second"), Stream.make(says("two ")))),
          Stream.unwrap(Effect.as(Deferred.await(goOn), Stream.make(says("three"))))
        )
      )
      const showingAll = yield* Effect.forkChild(showing(log, turn, events, () => undefined, true))
      yield* TestClock.adjust("500 millis")
      assert.strictEqual(text(), "one ")
      state.defect = new StoreUnavailable({ cause: "away" })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(text(), "one ")
      assert.isBelow(state.times, 70)
      state.defect = undefined
      yield* TestClock.adjust("500 millis")
      assert.strictEqual(text(), "one two ")

      state.defect = new StoreUnavailable({ cause: "away" })
      yield* Deferred.succeed(goOn, undefined)
      yield* TestClock.adjust("30 seconds")
      assert.isUndefined(showingAll.pollUnsafe())
      state.defect = undefined
      yield* TestClock.adjust("500 millis")
      yield* Fiber.join(showingAll)
      assert.strictEqual(text(), "one two three")
      assert.deepStrictEqual(
        chunks().map(({ isComplete = false }) => isComplete),
        [false, false, true]
      )
    })
  )

  it.effect("is waited for no longer than its turn runs", () =>
    Effect.gen(function* () {
      const { log, state } = logOf()
      state.defect = new StoreUnavailable({ cause: "away" })
      const showingAll = yield* Effect.forkChild(showing(log, turn, Stream.make(says("one")), () => undefined, true))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(showingAll)
      assert.isBelow(state.times, 5)
    })
  )

  it.effect("ends with any other defect of the log", () =>
    Effect.gen(function* () {
      const { log, state } = logOf()
      state.defect = new Error("broken")
      const exit = yield* Effect.exit(showing(log, turn, Stream.make(says("one")), () => undefined, true))
      assert.isTrue(Exit.hasDies(exit))
    })
  )
})
