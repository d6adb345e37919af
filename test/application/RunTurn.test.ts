import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import type { ModelCall } from "../../src/application/conversation/CallModel.ts"
import { RunTurn } from "../../src/application/conversation/RunTurn.ts"
import type { TurnSteps } from "../../src/application/ports/runtime/TurnRunner.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { textOf } from "../../src/domain/conversation/Message.ts"
import type { SessionEvent } from "../../src/domain/conversation/SessionEvent.ts"
import { submission, turnIn } from "../conformance/Conversation.ts"
import { calls, conversing, failing, newSession, outcome, says, tool } from "./Conversing.ts"

const approving = { toolConfirmation: { mode: "auto-approve" } }

/** What a message that the model was sent says. */
const told = (call: ModelCall | undefined, place: number): string => {
  const content = call?.request.messages.at(place)?.content
  return typeof content === "string" ? content : JSON.stringify(content ?? null)
}

const namesOf = (events: ReadonlyArray<SessionEvent>) =>
  events.map(({ event }) => event).filter((name) => name !== "sessionTitleUpdated")

const only = <Name extends SessionEvent["event"]>(events: ReadonlyArray<SessionEvent>, name: Name) =>
  events.filter((each): each is Extract<SessionEvent, { event: Name }> => each.event === name)

describe("a turn", () => {
  it.effect("ends with the model's answer, which is in the history", () => {
    const { asked, layer } = conversing({ script: [says("Hello.")] })
    return Effect.gen(function* () {
      const { ended, send, session, workspace } = yield* newSession
      yield* send("Hi")
      const events = yield* ended()
      assert.deepStrictEqual(namesOf(events), ["thinking", "response"])
      assert.deepInclude(only(events, "response")[0]?.data, {
        text: "Hello.",
        provider: "openai",
        model: "gpt",
        router: "in-built",
        tokenUsage: { inputTokens: 10, outputTokens: 5, reasoningTokens: 0, totalTokens: 15 }
      })
      const history = yield* (yield* Sessions).history(workspace, session)
      assert.deepStrictEqual(
        history.map((message) => [message.role, textOf(message)]),
        [
          ["user", "Hi"],
          ["assistant", "Hello."]
        ]
      )
      assert.deepStrictEqual(asked[0]?.request.messages, [
        { role: "system", content: "You help." },
        { role: "user", content: "Hi" }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("shows what the model says while it says it, if that is wanted", () => {
    const script = [
      () => ({ after: done, events: [...says("one ").slice(0, 1), ...says("two")] }),
      () => ({ after: done, events: [...says("one ").slice(0, 1), ...says("two")] })
    ]
    const done = Deferred.makeUnsafe<void>()
    const { layer } = conversing({ script })
    return Effect.gen(function* () {
      const { ended, events, send } = yield* newSession
      yield* send("Hi", true)
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(
        only(yield* events, "chunk").map(({ data }) => data.content),
        ["one "]
      )
      yield* Deferred.succeed(done, undefined)
      const all = yield* ended()
      assert.strictEqual(only(all, "response")[0]?.data.text, "one two")
      const chunks = only(all, "chunk")
      assert.strictEqual(chunks.map(({ data }) => data.content).join(""), "one two")
      assert.deepStrictEqual(
        chunks.map(({ data }) => data.isComplete ?? false),
        chunks.map((_, place) => place === chunks.length - 1)
      )
      yield* send("Hi", false)
      assert.strictEqual(only(yield* ended(2), "response")[1]?.data.text, "one two")
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs the tools that the model calls, and tells it what they gave", () => {
    const { asked, layer } = conversing({
      agent: approving,
      script: [calls(["add", { a: 1 }], ["add", { a: 2 }]), says("3")],
      tools: [tool("add", ({ a }) => Effect.succeed(outcome(`got ${JSON.stringify(a)}`)))]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Add")
      const events = yield* ended()
      assert.deepStrictEqual(namesOf(events), [
        "thinking",
        "toolCall",
        "toolCall",
        "toolResult",
        "toolResult",
        "thinking",
        "response"
      ])
      assert.deepStrictEqual(
        asked[1]?.request.messages.filter(({ role }) => role === "tool").map(({ content }) => content),
        ["got 1", "got 2"]
      )
      assert.strictEqual(only(events, "response")[0]?.data.tokenUsage.totalTokens, 30)
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells the model what is wrong with a call, and runs nothing", () => {
    let ran = 0
    const { asked, layer } = conversing({
      agent: { toolConfirmation: { mode: "auto-approve", toolPolicies: { alwaysDeny: ["never"] } } },
      script: [calls(["nothing", {}], ["add", "{"], ["never", {}]), says("So be it.")],
      tools: ["add", "never"].map((name) => tool(name, () => Effect.sync(() => outcome(`${++ran}`))))
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Go")
      const events = yield* ended()
      assert.deepStrictEqual(
        only(events, "toolResult").map(({ data }) => data.success),
        [false, false, false]
      )
      const [unknown, malformed, denied] =
        asked[1]?.request.messages
          .filter(({ role }) => role === "tool")
          .map(({ content }) => JSON.stringify(content)) ?? []
      assert.include(unknown, "There is no tool")
      assert.include(malformed, "no JSON object")
      assert.include(denied, "does not allow")
      assert.strictEqual(ran, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails once the model has asked for tools too often", () => {
    const { asked, layer } = conversing({
      agent: { ...approving, llm: { provider: "openai", model: "gpt", maxIterations: 2 } },
      script: [calls(["add", {}]), calls(["add", {}])],
      tools: [tool("add", () => Effect.succeed(outcome("more")))]
    })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Go")
      const events = yield* ended()
      assert.deepInclude(only(events, "error")[0]?.data, { code: "max_iterations", recoverable: true })
      assert.lengthOf(asked, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails with one error when the model does, and the session can be used at once", () => {
    const { layer } = conversing({ script: [failing(), says("Back.")] })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Hi")
      assert.deepStrictEqual(namesOf(yield* ended()), ["thinking", "error"])
      yield* send("Again")
      const events = yield* ended(2)
      assert.deepStrictEqual(namesOf(events), ["thinking", "error", "thinking", "response"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for the one before it", () => {
    const done = Deferred.makeUnsafe<void>()
    const { layer } = conversing({ script: [{ after: done, events: says("first") }, says("second"), says("third")] })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("1")
      yield* send("2")
      yield* send("3")
      yield* Deferred.succeed(done, undefined)
      const events = yield* ended(3)
      assert.deepStrictEqual(
        only(events, "response").map(({ data }) => data.text),
        ["first", "second", "third"]
      )
      assert.deepStrictEqual(
        only(events, "messageQueued").map(({ data }) => data.position),
        [1, 2]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("ends at once when it is cancelled, and the model's connection with it", () => {
    const never = Deferred.makeUnsafe<void>()
    const { closed, layer } = conversing({ script: [{ after: never, events: says("never") }] })
    return Effect.gen(function* () {
      const { events, send, session, workspace } = yield* newSession
      const turn = yield* send("Hi")
      yield* TestClock.adjust(10)
      assert.strictEqual(closed(), 0)
      yield* (yield* TurnJournal).cancel(workspace, session)
      yield* (yield* TurnRunner).wake(turn)
      yield* TestClock.adjust(1)
      assert.strictEqual(closed(), 1)
      assert.deepInclude(only(yield* events, "error")[0]?.data, { code: "cancelled" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("attaches what its message refers to", () => {
    const { asked, layer } = conversing({ script: [says("Read.")] })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Read @file:x")
      yield* ended()
      assert.deepStrictEqual(
        asked[0]?.request.messages.map(({ content }) => content),
        ["You help.", "Read @file:x", "the file"]
      )
    }).pipe(Effect.provide(layer))
  })
})

describe("an approval", () => {
  const asking = (more: object = {}) =>
    conversing({
      agent: { toolConfirmation: { timeout: 1_000, ...more } },
      script: [calls(["add", { a: 1 }]), says("Done."), calls(["add", { a: 2 }]), says("Done.")],
      tools: [tool("add", () => Effect.succeed(outcome("added")))]
    })

  it.effect("lets the tool run, and is asked for again by the next call", () => {
    const { layer } = asking()
    return Effect.gen(function* () {
      const { ended, events, send, workspace } = yield* newSession
      const journal = yield* TurnJournal
      for (let turns = 1; turns <= 2; turns++) {
        const turn = yield* send("Add")
        yield* TestClock.adjust(100)
        const request = only(yield* events, "approvalRequest")[turns - 1]
        assert.deepInclude(request?.data.metadata, { toolName: "add", callId: "call-0" })
        assert.isDefined(request)
        yield* journal.answer(workspace, request.data.approvalId, { status: "approved" })
        yield* (yield* TurnRunner).wake(turn)
        assert.isTrue(only(yield* ended(turns), "toolResult")[turns - 1]?.data.success)
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("is remembered when its answer says so", () => {
    const { layer } = asking()
    return Effect.gen(function* () {
      const { ended, events, send, workspace } = yield* newSession
      const turn = yield* send("Add")
      yield* TestClock.adjust(100)
      const [request] = only(yield* events, "approvalRequest")
      assert.isDefined(request)
      yield* (yield* TurnJournal).answer(workspace, request.data.approvalId, {
        status: "approved",
        rememberChoice: true
      })
      yield* (yield* TurnRunner).wake(turn)
      yield* ended()
      yield* send("Add")
      assert.lengthOf(only(yield* ended(2), "approvalRequest"), 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("that nobody answers in time is a denial, which the model is told", () => {
    const { asked, layer } = asking()
    return Effect.gen(function* () {
      const { ended, events, send } = yield* newSession
      yield* send("Add")
      yield* TestClock.adjust(999)
      assert.lengthOf(only(yield* events, "toolResult"), 0)
      const all = yield* ended()
      assert.isFalse(only(all, "toolResult")[0]?.data.success)
      assert.include(told(asked[1], -1), "not approved")
    }).pipe(Effect.provide(layer))
  })

  it.effect("holds up no call that needs none", () => {
    const { layer } = conversing({
      agent: { toolConfirmation: { timeout: 60_000, toolPolicies: { alwaysAllow: ["free"] } } },
      script: [calls(["add", {}], ["free", {}]), says("Done.")],
      tools: ["add", "free"].map((name) => tool(name, () => Effect.succeed(outcome(name))))
    })
    return Effect.gen(function* () {
      const { events, send } = yield* newSession
      yield* send("Go")
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(namesOf(yield* events), [
        "thinking",
        "toolCall",
        "toolCall",
        "approvalRequest",
        "toolResult"
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("that is never given because the turn is cancelled leaves a tool that did not run", () => {
    const { asked, layer } = asking({ timeout: 60_000 })
    return Effect.gen(function* () {
      const { ended, send, session, workspace } = yield* newSession
      const turn = yield* send("Add")
      yield* TestClock.adjust(100)
      yield* (yield* TurnJournal).cancel(workspace, session)
      yield* (yield* TurnRunner).wake(turn)
      const events = yield* ended()
      assert.deepStrictEqual(namesOf(events).slice(-2), ["toolResult", "error"])
      yield* send("And now?")
      yield* ended(2)
      assert.include(JSON.stringify(asked[1]?.request.messages), "cancelled before this tool ran")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is not asked for where the agent denies every tool", () => {
    const { layer } = asking({ mode: "auto-deny" })
    return Effect.gen(function* () {
      const { ended, send } = yield* newSession
      yield* send("Add")
      const all = yield* ended()
      assert.lengthOf(only(all, "approvalRequest"), 0)
      assert.isFalse(only(all, "toolResult")[0]?.data.success)
    }).pipe(Effect.provide(layer))
  })
})

describe("a form", () => {
  it.effect("is filled in by a person while the tool waits", () => {
    const { asked, layer } = conversing({
      script: [calls(["ask_user", {}]), says("Blue it is.")],
      tools: [
        tool(
          "ask_user",
          (_, { elicit }) =>
            Effect.map(elicit({ message: "Which colour?", schema: { type: "object" } }), ({ formData, status }) =>
              outcome(`${status} ${JSON.stringify(formData)}`)
            ),
          { asksItself: true, isIdempotent: true }
        )
      ]
    })
    return Effect.gen(function* () {
      const { ended, events, send, workspace } = yield* newSession
      const turn = yield* send("Ask me")
      yield* TestClock.adjust(100)
      const [request] = only(yield* events, "approvalRequest")
      assert.deepInclude(request?.data, { type: "elicitation" })
      assert.isDefined(request)
      yield* (yield* TurnJournal).answer(workspace, request.data.approvalId, {
        status: "approved",
        formData: { colour: "blue" }
      })
      yield* (yield* TurnRunner).wake(turn)
      yield* ended()
      assert.strictEqual(asked[1]?.request.messages.at(-1)?.content, 'approved {"colour":"blue"}')
    }).pipe(Effect.provide(layer))
  })
})

describe("a turn that is taken up again", () => {
  /** Steps of a process that remembers nothing: all there is is the journal. */
  const forgetful: TurnSteps = {
    run: (step) => step,
    once: (_, { run }) => run,
    wait: () => Effect.never,
    woken: Effect.never
  }

  /** Runs a turn so often that it is broken off once at each of its steps. */
  const brokenAt = (script: Parameters<typeof conversing>[0], broken: number) => {
    const { layer } = conversing(script)
    return Effect.gen(function* () {
      const { events, session, workspace } = yield* newSession
      const journal = yield* TurnJournal
      const { run } = yield* RunTurn
      const turn = turnIn(workspace, session)
      yield* journal.submit(turn, submission("Go"))
      let steps = 0
      const dying: TurnSteps = {
        ...forgetful,
        run: (step) => Effect.flatMap(step, (given) => (++steps === broken ? Effect.interrupt : Effect.succeed(given)))
      }
      yield* Effect.exit(run(turn, dying))
      const before = yield* events
      assert.isTrue(Option.isNone(yield* run(turn, forgetful)))
      const after = yield* events
      assert.deepStrictEqual(after.slice(0, before.length), before)
      return { events: after, history: yield* (yield* Sessions).history(workspace, session) }
    }).pipe(Effect.provide(layer))
  }

  it.effect("repeats no step that was finished", () =>
    Effect.gen(function* () {
      for (let broken = 1; broken <= 4; broken++) {
        const ran: Array<string> = []
        const { events, history } = yield* brokenAt(
          {
            agent: approving,
            script: [calls(["a", {}], ["b", {}]), says("Done.")],
            tools: ["a", "b"].map((name) => tool(name, () => Effect.sync(() => (ran.push(name), outcome(name)))))
          },
          broken
        )
        assert.deepStrictEqual(ran.toSorted(), ["a", "b"], `broken at ${broken}`)
        assert.lengthOf(only(events, "toolCall"), 2)
        assert.lengthOf(only(events, "toolResult"), 2)
        assert.lengthOf(only(events, "response"), 1)
        assert.deepStrictEqual(
          history.map(({ role }) => role),
          ["user", "assistant", "tool", "tool", "assistant"]
        )
      }
    })
  )

  for (const isIdempotent of [false, true]) {
    it.effect(
      isIdempotent
        ? "runs a tool again whose outcome nobody knows, if that does no harm"
        : "tells the model of a tool whose outcome nobody knows, and does not run it again",
      () => {
        let ran = 0
        const { asked, layer } = conversing({
          agent: approving,
          script: [calls(["pay", {}]), says("Done.")],
          tools: [
            tool(
              "pay",
              () => Effect.suspend(() => (++ran === 1 ? Effect.interrupt : Effect.succeed(outcome("paid")))),
              { isIdempotent }
            )
          ]
        })
        return Effect.gen(function* () {
          const { session, workspace } = yield* newSession
          const { run } = yield* RunTurn
          const turn = turnIn(workspace, session)
          yield* (yield* TurnJournal).submit(turn, submission("Pay"))
          yield* Effect.exit(run(turn, forgetful))
          yield* run(turn, forgetful)
          assert.strictEqual(ran, isIdempotent ? 2 : 1)
          assert.include(told(asked[1], -1), isIdempotent ? "paid" : "The outcome is unknown")
        }).pipe(Effect.provide(layer))
      }
    )
  }

  it.effect("and had ended gives the next one, which was not started", () => {
    const { layer } = conversing({ script: [says("first"), says("second")] })
    return Effect.gen(function* () {
      const { session, workspace } = yield* newSession
      const { run } = yield* RunTurn
      const journal = yield* TurnJournal
      const [first, second] = [turnIn(workspace, session), turnIn(workspace, session)]
      yield* journal.submit(first, submission("1"))
      yield* journal.submit(second, submission("2"))
      assert.deepStrictEqual(yield* run(second, forgetful), Option.none())
      assert.deepStrictEqual(yield* run(first, forgetful), Option.some(second))
      assert.deepStrictEqual(yield* run(first, forgetful), Option.some(second))
      assert.deepStrictEqual(yield* run(second, forgetful), Option.none())
    }).pipe(Effect.provide(layer))
  })

  it.effect("after its session was removed does nothing", () => {
    const { asked, layer } = conversing()
    return Effect.gen(function* () {
      const { session, workspace } = yield* newSession
      const turn = turnIn(workspace, session)
      yield* (yield* TurnJournal).submit(turn, submission("1"))
      yield* (yield* Sessions).remove(workspace, session)
      assert.deepStrictEqual(yield* (yield* RunTurn).run(turn, forgetful), Option.none())
      assert.lengthOf(asked, 0)
    }).pipe(Effect.provide(layer))
  })
})

describe("a context that outgrows its model", () => {
  it.effect("is summarized once, and the history keeps the original", () => {
    const long = "word ".repeat(400)
    const { asked, layer } = conversing({
      maxInputTokens: 1_500,
      script: [says("1"), says("2"), says("It was about words."), says("3"), says("4"), says("5")]
    })
    return Effect.gen(function* () {
      const { ended, send, session, workspace } = yield* newSession
      for (let turns = 1; turns <= 4; turns++) {
        yield* send(turns < 4 ? long : "And now?")
        yield* ended(turns)
      }
      assert.lengthOf(asked, 5)
      assert.include(told(asked[2], 0), "Summarize")
      assert.include(told(asked[3], 0), "It was about words.")
      yield* send("More?")
      yield* ended(5)
      assert.lengthOf(asked, 6)
      assert.include(told(asked[5], 0), "It was about words.")
      const history = yield* (yield* Sessions).history(workspace, session)
      assert.strictEqual(history.filter((message) => textOf(message) === long).length, 3)
    }).pipe(Effect.provide(layer))
  })
})
