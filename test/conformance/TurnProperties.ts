import { assert, type Vitest } from "@effect/vitest"
import { type Context, Effect, Option, Schema } from "effect"
import { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { ApprovalId } from "../../src/domain/conversation/Approval.ts"
import type { SessionId } from "../../src/domain/conversation/Session.ts"
import { endsTurn } from "../../src/domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { allEvents, message, response, sessionId, submission, turnIn } from "./Conversation.ts"
import { account } from "./Samples.ts"

export type ConversationStores = TurnJournal | EventLog | Sessions | Organizations | Ledger

/** Which of the last turns, ended ones included: few, so that most things are done more than once, often at once. */
const Which = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
const Key = Schema.Literals(["one", "two"])
/** Which of two processes does it. */
const By = Schema.Literals([0, 1])

const Step = Schema.TaggedUnion({
  Submit: { by: By, session: By },
  Record: { by: By, which: Which, key: Key },
  Append: { by: By, which: Which },
  Finish: { by: By, which: Which },
  Cancel: { by: By, session: By },
  Ask: { by: By, which: Which },
  Answer: { by: By, which: Which, approved: Schema.Boolean }
})
type Step = typeof Step.Type

const Burst = Schema.Array(Step).check(Schema.isMaxLength(10))

/** What was submitted, and how often the stores said that something of it counted. */
interface Submitted {
  readonly ref: TurnRef
  readonly recorded: Array<string>
  answers: number
}

const perform = Effect.fnUntraced(function* (
  step: Step,
  workspace: OrganizationId,
  sessions: readonly [SessionId, SessionId],
  turns: Array<Submitted>,
  known: ReadonlyArray<Submitted>
) {
  const journal = yield* TurnJournal
  const log = yield* EventLog
  const turn = "which" in step ? known.at(-1 - step.which) : undefined
  switch (step._tag) {
    case "Submit": {
      const ref = turnIn(workspace, sessions[step.session])
      turns.push({ ref, recorded: [], answers: 0 })
      yield* journal.submit(ref, submission(ref.turn))
      return
    }
    case "Cancel":
      yield* journal.cancel(workspace, sessions[step.session])
      return
    case "Record": {
      if (turn === undefined) return
      const { ref } = turn
      const text = `${ref.turn} ${step.key}`
      const entry = {
        messages: [message(text, { role: "tool" })],
        events: [{ event: "thinking" as const, data: { sessionId: ref.session } }],
        memo: text
      }
      if (yield* journal.record(ref, step.key, entry)) turn.recorded.push(step.key)
      return
    }
    case "Append": {
      if (turn === undefined) return
      const { ref } = turn
      yield* log.append(ref, [{ event: "thinking", data: { sessionId: ref.session } }])
      return
    }
    case "Finish": {
      if (turn === undefined) return
      const { ref } = turn
      const next = yield* journal.finish(ref, "completed", {
        messages: [message(`${ref.turn} answer`, { role: "assistant" })],
        events: [response(ref.session, ref.turn)]
      })
      assert.isTrue(Option.isNone(next) || next.value.session === ref.session)
      return
    }
    case "Ask": {
      if (turn === undefined) return
      const { ref } = turn
      yield* journal.ask(ref, {
        approvalId: ApprovalId.make(`${ref.turn}.question`),
        type: "elicitation",
        sessionId: ref.session,
        turnId: ref.turn,
        timeout: 1_000,
        metadata: {}
      })
      return
    }
    case "Answer": {
      if (turn === undefined) return
      const { ref } = turn
      const answered = yield* journal.answer(workspace, ApprovalId.make(`${ref.turn}.question`), {
        status: step.approved ? "approved" : "denied"
      })
      if (Option.isSome(answered)) turn.answers++
      return
    }
  }
})

const assertInvariants = Effect.fnUntraced(function* (
  workspace: OrganizationId,
  session: SessionId,
  turns: ReadonlyArray<Submitted>
) {
  const journal = yield* TurnJournal
  const own = turns.filter(({ ref }) => ref.session === session)
  const statuses = new Map<string, string>()
  for (const { answers, ref } of own) {
    statuses.set(ref.turn, Option.getOrThrow(yield* journal.find(ref)).status)
    assert.isAtMost(answers, 1)
  }
  const withStatus = (status: string) => own.filter(({ ref }) => statuses.get(ref.turn) === status)
  const running = withStatus("running").map(({ ref }) => ref)
  assert.isAtMost(running.length, 1)
  assert.strictEqual(running.length, withStatus("queued").length > 0 ? 1 : running.length)
  assert.deepStrictEqual(
    (yield* journal.running).filter((ref) => ref.workspace === workspace && ref.session === session),
    running
  )

  // Of every event there is a number, and of every ended turn one end, in the order in which they ran.
  const events = yield* allEvents(workspace, session)
  assert.deepStrictEqual(
    events.map(({ id }) => id),
    events.map((_, index) => index + 1)
  )
  assert.strictEqual(yield* (yield* EventLog).last(workspace, session), events.length)
  const ends = events.flatMap(({ event }) => (endsTurn(event) && event.event === "response" ? [event.data.text] : []))
  assert.strictEqual(ends.length, withStatus("completed").length)

  // Each turn's messages stand together: what the user said, what was recorded, the answer.
  const history = (yield* (yield* Sessions).history(workspace, session)).map(({ content }) => content)
  const order = [...ends, ...running.map(({ turn }) => `${turn}`)]
  let at = 0
  for (const turn of order) {
    const { recorded } = own.find(({ ref }) => ref.turn === turn) ?? assert.fail("an unknown turn")
    assert.strictEqual(history[at], turn)
    const entries = history.slice(at + 1, at + 1 + recorded.length)
    assert.sameMembers(
      [...entries],
      recorded.map((key) => `${turn} ${key}`)
    )
    assert.strictEqual(new Set(recorded).size, recorded.length)
    at += 1 + recorded.length
    if (ends.includes(turn)) assert.strictEqual(history[at++], `${turn} answer`)
  }
  assert.strictEqual(history.length, at)
  const found = yield* (yield* Sessions).find(workspace, session)
  assert.strictEqual(Option.match(found, { onNone: () => 0, onSome: ({ messageCount }) => messageCount }), at)
})

/** The invariants of turns, whatever is done in whatever order, at once, by either of two processes. */
export const turnProperties = <R>(
  it: Vitest.MethodsNonLive<R>,
  processes: Effect.Effect<
    readonly [Context.Context<ConversationStores>, Context.Context<ConversationStores>],
    never,
    R
  >
): void => {
  it.effect.prop(
    "keeps one running turn, one end of each, their order and numbers without gaps",
    { bursts: Schema.Array(Burst).check(Schema.isMaxLength(12)) },
    ({ bursts }) =>
      Effect.gen(function* () {
        const both = yield* processes
        const [first] = both
        const workspace = yield* Effect.provide(account(), first)
        const sessions = [sessionId(), sessionId()] as const
        const turns: Array<Submitted> = []
        for (const steps of bursts) {
          const known = [...turns]
          yield* Effect.all(
            steps.map((step) => Effect.provide(perform(step, workspace, sessions, turns, known), both[step.by])),
            { concurrency: "unbounded", discard: true }
          )
          for (const [index, session] of sessions.entries()) {
            yield* Effect.provide(assertInvariants(workspace, session, turns), both[index === 0 ? 0 : 1])
          }
        }
      }),
    { timeout: 240_000, arbitrary: { runs: 40 } }
  )
}
