import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import type { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { type Approval, ApprovalId } from "../../src/domain/conversation/Approval.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { Caller } from "../../src/domain/identity/ApiKey.ts"
import { ApiKeyId, MemberId, OrganizationId } from "../../src/domain/shared/Ids.ts"
import { allEvents, chunk, message, namesOf, response, sessionId, submission, turnIn } from "./Conversation.ts"
import { account } from "./Samples.ts"
import { turnProperties } from "./TurnProperties.ts"

const question = (turn: TurnRef, fields: Partial<Approval> = {}): Omit<Approval, "timestamp"> => ({
  approvalId: ApprovalId.make(crypto.randomUUID()),
  type: "tool_confirmation",
  sessionId: turn.session,
  turnId: turn.turn,
  timeout: 120_000,
  metadata: { toolName: "files--delete", args: { path: "/tmp/\u0000" }, callId: "call-1" },
  ...fields
})

/** What every journal of turns must do. */
export const turnJournalSuite = (
  name: string,
  store: Layer.Layer<TurnJournal | EventLog | Sessions | Organizations | Ledger, unknown>
) =>
  layer(store, { timeout: "2 minutes", excludeTestServices: true })(name, (it) => {
    const contents = Effect.fnUntraced(function* ({ session, workspace }: TurnRef) {
      return (yield* (yield* Sessions).history(workspace, session)).map(({ content }) => content)
    })

    const started = Effect.fnUntraced(function* (said = "Hello") {
      const turn = turnIn(yield* account(), sessionId())
      yield* (yield* TurnJournal).submit(turn, submission(said))
      return turn
    })

    it.effect("keeps a turn as it was submitted", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const workspace = yield* account()
        const caller = new Caller({
          organizationId: workspace,
          memberId: MemberId.make("m"),
          role: "admin",
          keyId: ApiKeyId.make("k")
        })
        const parts = [
          { type: "text" as const, text: "Look: \0 \ud800 😀" },
          { type: "image" as const, image: "blob:1", mimeType: "image/png" },
          { type: "file" as const, data: "blob:2", mimeType: "application/pdf", filename: "ä.pdf" }
        ]
        for (const submitted of [
          submission("Hello", { stream: true, caller }),
          submission(parts),
          submission("NUL \0 and half a pair \udc00"),
          submission("")
        ]) {
          const turn = turnIn(workspace, sessionId())
          assert.deepStrictEqual(yield* journal.find(turn), Option.none())
          assert.deepStrictEqual(yield* journal.submit(turn, submitted), { position: 0 })
          assert.deepStrictEqual(
            yield* journal.find(turn),
            Option.some({
              id: turn.turn,
              status: "running" as const,
              cancelRequested: false,
              hasEntries: false,
              ...submitted
            })
          )
          const [entered] = yield* (yield* Sessions).history(workspace, turn.session)
          const { createdAt, ...rest } = entered ?? assert.fail("no message")
          assert.deepStrictEqual(rest, submitted.message)
          assert.isAtLeast(createdAt, 0)
          assert.deepStrictEqual(yield* journal.find({ ...turn, workspace: yield* account() }), Option.none())
        }
      })
    )

    it.effect("takes a turn for a session that is there, and none for another", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const sessions = yield* Sessions
        const first = yield* started("one")
        const { session, workspace } = first
        const second = turnIn(workspace, session)
        const two = submission("two")
        assert.deepStrictEqual(yield* journal.submitIfOpen(second, two), Option.some({ position: 1 }))
        assert.deepStrictEqual(yield* journal.submitIfOpen(second, two), Option.some({ position: 1 }))
        const elsewhere = turnIn(yield* account(), session)
        assert.deepStrictEqual(yield* journal.submitIfOpen(elsewhere, two), Option.none())
        assert.deepStrictEqual(yield* sessions.find(elsewhere.workspace, session), Option.none())
        yield* sessions.remove(workspace, session)
        assert.deepStrictEqual(yield* journal.submitIfOpen(turnIn(workspace, session), two), Option.none())
        assert.deepStrictEqual(yield* sessions.find(workspace, session), Option.none())
      })
    )

    it.effect("takes no turn without an organization", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const nowhere = turnIn(OrganizationId.make(crypto.randomUUID()), sessionId())
        const exit = yield* Effect.exit(journal.submit(nowhere, submission("Hello")))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* journal.find(nowhere), Option.none())
      })
    )

    it.effect("names a session by its first words, once", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const sessions = yield* Sessions
        const workspace = yield* account()
        const session = sessionId()
        const silent = turnIn(workspace, session)
        yield* journal.submit(silent, submission([{ type: "image", image: "blob:1", mimeType: "image/png" }]))
        assert.deepStrictEqual(yield* allEvents(workspace, session), [])
        yield* journal.finish(silent, "completed", {})
        yield* journal.submit(turnIn(workspace, session), submission("  Deploy\n\tthe service,   please  "))
        yield* journal.submit(turnIn(workspace, session), submission("Another"))
        assert.strictEqual(
          Option.getOrThrow(yield* sessions.find(workspace, session)).title,
          "Deploy the service, please"
        )
        assert.deepStrictEqual(
          (yield* allEvents(workspace, session)).map(({ event }) => event),
          [
            {
              event: "sessionTitleUpdated",
              data: { title: "Deploy the service, please", sessionId: session }
            },
            { event: "messageQueued", data: { position: 1, sessionId: session } }
          ]
        )
      })
    )

    it.effect("runs the turns of a session one at a time, in their order", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const first = yield* started("one")
        const { session, workspace } = first
        const [second, third] = [turnIn(workspace, session), turnIn(workspace, session)]
        assert.deepStrictEqual(yield* journal.submit(second, submission("two")), { position: 1 })
        assert.deepStrictEqual(yield* journal.submit(third, submission("three")), { position: 2 })
        assert.deepStrictEqual(yield* journal.submit(second, submission("two")), { position: 1 })
        assert.deepStrictEqual(yield* contents(first), ["one"])
        assert.strictEqual(Option.getOrThrow(yield* journal.find(second)).status, "queued")

        const answer = { messages: [message("1", { role: "assistant" })], events: [response(session, "1")] }
        assert.deepStrictEqual(yield* journal.finish(first, "completed", answer), Option.some(second))
        assert.deepStrictEqual(yield* contents(first), ["one", "1", "two"])
        assert.strictEqual(Option.getOrThrow(yield* journal.find(first)).status, "completed")
        assert.strictEqual(Option.getOrThrow(yield* journal.find(second)).status, "running")
        assert.deepStrictEqual(yield* journal.submit(third, submission("three")), { position: 1 })
        assert.deepStrictEqual(yield* journal.submit(first, submission("one")), { position: 0 })

        // Who ends a turn again changes nothing, and learns which runs.
        assert.deepStrictEqual(yield* journal.finish(first, "failed", answer), Option.some(second))
        assert.strictEqual(Option.getOrThrow(yield* journal.find(first)).status, "completed")
        // One that waits cannot end.
        assert.deepStrictEqual(yield* journal.finish(third, "failed", {}), Option.some(second))
        assert.strictEqual(Option.getOrThrow(yield* journal.find(third)).status, "queued")

        assert.deepStrictEqual(yield* journal.finish(second, "failed", {}), Option.some(third))
        assert.deepStrictEqual(yield* journal.finish(third, "cancelled", {}), Option.none())
        assert.deepStrictEqual(yield* contents(first), ["one", "1", "two", "three"])
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), [
          "sessionTitleUpdated",
          "messageQueued",
          "messageQueued",
          "response"
        ])
        assert.deepStrictEqual(yield* journal.finish(turnIn(workspace, sessionId()), "completed", {}), Option.none())
      })
    )

    it.effect("gives one of many that are submitted at once the session, the others their places behind it", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const workspace = yield* account()
        const session = sessionId()
        const turns = Array.from({ length: 12 }, () => turnIn(workspace, session))
        const places = yield* Effect.all(
          turns.map((turn) => journal.submit(turn, submission("at once"))),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          places.map(({ position }) => position).toSorted((one, other) => one - other),
          turns.map((_, index) => index)
        )
        const order = turns.toSorted(
          (one, other) => (places[turns.indexOf(one)]?.position ?? 0) - (places[turns.indexOf(other)]?.position ?? 0)
        )
        for (const [index, turn] of order.entries()) {
          const running = (yield* journal.running).filter((ref) => ref.workspace === workspace)
          assert.deepStrictEqual(running, [turn])
          // Several end it at once; each is told of the same next one.
          const next = yield* Effect.all(
            Array.from({ length: 3 }, () => journal.finish(turn, "completed", {})),
            { concurrency: "unbounded" }
          )
          for (const given of next) assert.deepStrictEqual(given, Option.fromUndefinedOr(order[index + 1]))
        }
        assert.strictEqual((yield* (yield* Sessions).history(workspace, session)).length, turns.length)
      })
    )

    it.effect("writes an entry once, its messages and events with it", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const turn = yield* started()
        const { session, workspace } = turn
        const entry = {
          messages: [
            message(null, {
              role: "assistant",
              reasoning: "hm",
              toolCalls: [{ id: "c", name: "tool", arguments: '{"a":"\\u0000"}' }],
              model: "echo",
              provider: "service",
              router: "in-built",
              tokenUsage: { inputTokens: 1, outputTokens: 2, reasoningTokens: 3, totalTokens: 6 }
            }),
            message("result", { role: "tool", toolCallId: "c", name: "tool" })
          ],
          events: [chunk(session, "a"), chunk(session, "b")],
          memo: { text: "\0", list: [1, null] }
        }
        const before = (yield* allEvents(workspace, session)).length
        const written = yield* Effect.all(
          Array.from({ length: 5 }, () => journal.record(turn, "tool-\0", entry)),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(written.filter(Boolean), [true])
        assert.deepStrictEqual(yield* journal.recorded(turn, "tool-\0"), Option.some(entry.memo))
        assert.isTrue(Option.getOrThrow(yield* journal.find(turn)).hasEntries)
        assert.deepStrictEqual(yield* journal.recorded(turn, "other"), Option.none())
        const history = yield* (yield* Sessions).history(workspace, session)
        assert.deepStrictEqual(
          history.slice(1),
          entry.messages.map((sent, index) => ({ ...sent, createdAt: history[index + 1]?.createdAt ?? -1 }))
        )
        assert.deepStrictEqual(
          (yield* allEvents(workspace, session)).slice(before).map(({ event }) => event),
          entry.events
        )
      })
    )

    it.effect("remembers null, and nothing at all", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const turn = yield* started()
        yield* journal.record(turn, "null", { memo: null })
        yield* journal.record(turn, "nothing", {})
        assert.deepStrictEqual(yield* journal.recorded(turn, "null"), Option.some(null))
        assert.deepStrictEqual(yield* journal.recorded(turn, "nothing"), Option.some(undefined))
      })
    )

    it.effect("takes no entries of turns that do not run, and forgets those of earlier ones", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const first = yield* started()
        const second = turnIn(first.workspace, first.session)
        yield* journal.submit(second, submission("two"))
        assert.isFalse(yield* journal.record(second, "early", { messages: [message("early")] }))
        assert.isTrue(yield* journal.record(first, "step", { memo: 1 }))
        yield* journal.finish(first, "completed", {})
        assert.isFalse(yield* journal.record(first, "late", { messages: [message("late")] }))
        assert.isFalse(yield* journal.record(turnIn(first.workspace, sessionId()), "nowhere", {}))
        assert.deepStrictEqual(yield* journal.recorded(first, "step"), Option.some(1))
        assert.isTrue(yield* journal.record(second, "step", { memo: 2 }))
        yield* journal.finish(second, "completed", {})
        assert.deepStrictEqual(yield* journal.recorded(first, "step"), Option.none())
        assert.deepStrictEqual(yield* journal.recorded(second, "step"), Option.some(2))
        assert.deepStrictEqual(yield* contents(first), ["Hello", "two"])
      })
    )

    it.effect("asks the running turn to end, and no other", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const first = yield* started()
        const { session, workspace } = first
        const second = turnIn(workspace, session)
        yield* journal.submit(second, submission("two"))
        assert.deepStrictEqual(yield* journal.cancel(yield* account(), session), Option.none())
        assert.deepStrictEqual(yield* journal.cancel(workspace, session), Option.some(first))
        assert.isTrue(Option.getOrThrow(yield* journal.find(first)).cancelRequested)
        yield* journal.finish(first, "cancelled", {})
        assert.isFalse(Option.getOrThrow(yield* journal.find(second)).cancelRequested)
        yield* journal.finish(second, "completed", {})
        assert.deepStrictEqual(yield* journal.cancel(workspace, session), Option.none())
        assert.deepStrictEqual(yield* journal.cancel(workspace, sessionId()), Option.none())
      })
    )

    it.effect("asks a person once, and takes the first answer", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const turn = yield* started()
        const { session, workspace } = turn
        const asked = question(turn)
        yield* journal.ask(turn, asked)
        yield* journal.ask(turn, asked)
        const [open] = yield* journal.open(workspace, session)
        const { timestamp, ...rest } = open ?? assert.fail("no question is open")
        assert.deepStrictEqual(rest, asked)
        const { turnId: _, ...data } = asked
        assert.deepStrictEqual((yield* allEvents(workspace, session)).slice(1), [
          { id: 2, session, event: { event: "approvalRequest", data: { ...data, timestamp } } }
        ])

        assert.deepStrictEqual(yield* journal.answered(turn, asked.approvalId), Option.none())
        const foreign = yield* account()
        assert.deepStrictEqual(yield* journal.open(foreign, undefined), [])
        assert.deepStrictEqual(yield* journal.answer(foreign, asked.approvalId, { status: "approved" }), Option.none())
        const answers = [
          { status: "approved" as const, rememberChoice: true, formData: { name: "\0" } },
          { status: "denied" as const },
          { status: "cancelled" as const }
        ]
        const taken = yield* Effect.all(
          answers.map((answer) => journal.answer(workspace, asked.approvalId, answer)),
          { concurrency: "unbounded" }
        )
        const [counted, ...others] = answers.filter((_, index) => Option.isSome(taken[index] ?? Option.none()))
        assert.deepStrictEqual(others, [])
        assert.deepStrictEqual(taken.flatMap(Option.toArray), [turn])
        assert.deepStrictEqual(yield* journal.answered(turn, asked.approvalId), Option.fromUndefinedOr(counted))
        assert.deepStrictEqual(yield* journal.open(workspace, undefined), [])
      })
    )

    it.effect("lists open questions of a session or of the workspace, the oldest first", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const first = yield* started()
        const other = turnIn(first.workspace, sessionId())
        yield* journal.submit(other, submission("Hello"))
        const asked = [question(first), question(other, { type: "elicitation", metadata: {} }), question(first)]
        for (const [index, one] of asked.entries()) {
          yield* journal.ask(index === 1 ? other : first, one)
          yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 3)))
        }
        const ids = (approvals: ReadonlyArray<Approval>) => approvals.map(({ approvalId }) => approvalId)
        const wanted = asked.map(({ approvalId }) => approvalId)
        assert.sameMembers([...ids(yield* journal.open(first.workspace, undefined))], wanted)
        assert.deepStrictEqual(ids(yield* journal.open(first.workspace, other.session)), wanted.slice(1, 2))
        assert.deepStrictEqual(ids(yield* journal.open(first.workspace, sessionId())), [])
      })
    )

    it.effect("closes the questions of a turn that ends", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const turn = yield* started()
        const asked = question(turn)
        yield* journal.ask(turn, asked)
        yield* journal.finish(turn, "cancelled", {})
        assert.deepStrictEqual(yield* journal.open(turn.workspace, undefined), [])
        assert.deepStrictEqual(
          yield* journal.answer(turn.workspace, asked.approvalId, { status: "approved" }),
          Option.none()
        )
        yield* journal.ask(turn, question(turn))
        assert.deepStrictEqual(yield* journal.open(turn.workspace, undefined), [])
      })
    )

    it.effect("ends what runs and waits when its session is reset", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const sessions = yield* Sessions
        const first = yield* started()
        const { session, workspace } = first
        const second = turnIn(workspace, session)
        yield* journal.submit(second, submission("two"))
        yield* journal.record(first, "step", { messages: [message("forgotten")], events: [chunk(session, "a")] })
        yield* journal.ask(first, question(first))
        const asked = (yield* journal.open(workspace, session))[0]?.approvalId ?? assert.fail("no question is open")
        assert.deepStrictEqual(yield* sessions.reset(workspace, session), Option.some([first]))

        assert.deepStrictEqual(yield* sessions.history(workspace, session), [])
        for (const turn of [first, second]) {
          assert.strictEqual(Option.getOrThrow(yield* journal.find(turn)).status, "cancelled")
          assert.isFalse(yield* journal.record(turn, "late", { messages: [message("late")] }))
          assert.deepStrictEqual(
            yield* journal.finish(turn, "completed", { messages: [message("late")] }),
            Option.none()
          )
        }
        assert.deepStrictEqual(yield* journal.recorded(first, "step"), Option.none())
        assert.deepStrictEqual(yield* journal.open(workspace, session), [])
        assert.deepStrictEqual(yield* journal.answer(workspace, asked, { status: "approved" }), Option.none())
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), [
          "sessionTitleUpdated",
          "messageQueued",
          "chunk",
          "approvalRequest",
          "error",
          "error",
          "conversationReset"
        ])
        const third = turnIn(workspace, session)
        assert.deepStrictEqual(yield* journal.submit(third, submission("three")), { position: 0 })
        assert.deepStrictEqual(yield* contents(third), ["three"])
        assert.deepStrictEqual(yield* sessions.reset(workspace, session), Option.some([third]))
        assert.deepStrictEqual(yield* sessions.reset(workspace, session), Option.some([]))
        assert.deepStrictEqual(yield* journal.find(first), Option.none())
      })
    )

    it.effect("knows nothing of turns whose session was removed", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const sessions = yield* Sessions
        const first = yield* started()
        const { session, workspace } = first
        const second = turnIn(workspace, session)
        yield* journal.submit(second, submission("two"))
        yield* journal.ask(first, question(first))
        assert.deepStrictEqual(yield* sessions.remove(workspace, session), Option.some([first]))
        assert.deepStrictEqual(yield* journal.find(first), Option.none())
        assert.deepStrictEqual(yield* journal.find(second), Option.none())
        assert.deepStrictEqual(
          (yield* journal.running).filter((ref) => ref.workspace === workspace),
          []
        )
        assert.isFalse(yield* journal.record(first, "late", { messages: [message("late")] }))
        assert.deepStrictEqual(yield* journal.open(workspace, undefined), [])

        const third = turnIn(workspace, session)
        assert.deepStrictEqual(yield* journal.submit(third, submission("three")), { position: 0 })
        assert.isFalse(yield* journal.record(first, "late", { messages: [message("late")] }))
        assert.deepStrictEqual(yield* journal.finish(first, "completed", {}), Option.some(third))
        assert.deepStrictEqual(yield* contents(third), ["three"])
      })
    )

    turnProperties(
      it,
      Effect.map(
        Effect.context<TurnJournal | EventLog | Sessions | Organizations | Ledger>(),
        (stores) => [stores, stores] as const
      )
    )

    it.effect("keeps sessions of the same name in two workspaces apart", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const [mine, foreign] = [yield* account(), yield* account()]
        const session = SessionId.make("default")
        const [one, other] = [turnIn(mine, session), turnIn(foreign, session)]
        assert.deepStrictEqual(yield* journal.submit(one, submission("mine")), { position: 0 })
        assert.deepStrictEqual(yield* journal.submit(other, submission("theirs")), { position: 0 })
        assert.deepStrictEqual(yield* contents(one), ["mine"])
        assert.deepStrictEqual(yield* contents(other), ["theirs"])
        assert.deepStrictEqual(yield* journal.cancel(mine, session), Option.some(one))
        assert.isFalse(Option.getOrThrow(yield* journal.find(other)).cancelRequested)
      })
    )
  })
