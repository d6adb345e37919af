import { Array, Clock, Effect, Layer, Option, Order } from "effect"
import { type Submission, TurnJournal } from "../../application/ports/storage/TurnJournal.ts"
import type { Approval } from "../../domain/conversation/Approval.ts"
import { textOf } from "../../domain/conversation/Message.ts"
import { titleOf } from "../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import {
  Conversations,
  forgetChunks,
  isOpen,
  runningTurn,
  type StoredSession,
  type StoredTurn
} from "./Conversations.ts"

const oldestFirst = Order.mapInput(Order.Number, ({ timestamp }: Approval) => timestamp)

export const layer = Layer.effect(
  TurnJournal,
  Effect.gen(function* () {
    const { all, append, find, open, sessionsOf } = yield* Conversations

    const turnOf = ({ session, turn, workspace }: TurnRef): StoredTurn | undefined =>
      find(workspace, session)?.turns.get(turn)

    /** The turn with its session, as long as it runs. */
    const runningOf = (ref: TurnRef): readonly [StoredSession, StoredTurn] | undefined => {
      const stored = find(ref.workspace, ref.session)
      const turn = stored?.turns.get(ref.turn)
      return stored !== undefined && turn?.status === "running" ? [stored, turn] : undefined
    }

    const begin = (stored: StoredSession, turn: StoredTurn) => {
      turn.status = "running"
      return append(stored, { messages: [turn.submission.message] })
    }

    const submit = Effect.fnUntraced(function* (ref: TurnRef, submission: Submission) {
      const { stored } = yield* open(ref.workspace, ref.session)
      const ahead = [...stored.turns.values()].filter(isOpen)
      const known = stored.turns.get(ref.turn)
      if (known !== undefined) return { position: Math.max(0, ahead.indexOf(known)) }
      const turn: StoredTurn = {
        ref,
        submission,
        status: "queued",
        cancelRequested: false,
        entries: new Map(),
        questions: new Map()
      }
      stored.turns.set(ref.turn, turn)
      const events: Array<SessionEvent> = []
      const title = titleOf(textOf(submission.message))
      if (stored.title === null && title !== null) {
        stored.title = title
        events.push({ event: "sessionTitleUpdated", data: { title, sessionId: stored.id } })
      }
      const position = ahead.length
      if (position > 0) events.push({ event: "messageQueued", data: { position, sessionId: stored.id } })
      yield* append(stored, { events })
      if (position === 0) yield* begin(stored, turn)
      return { position }
    })

    return TurnJournal.of({
      submit,
      submitIfOpen: (ref, submission) =>
        find(ref.workspace, ref.session) === undefined ? Effect.succeedNone : Effect.asSome(submit(ref, submission)),
      find: (ref) =>
        Effect.sync(() =>
          Option.map(Option.fromUndefinedOr(turnOf(ref)), ({ cancelRequested, entries, status, submission }) => ({
            id: ref.turn,
            status,
            cancelRequested,
            hasEntries: entries.size > 0,
            ...submission
          }))
        ),
      record: Effect.fnUntraced(function* (ref, key, entry) {
        const running = runningOf(ref)
        if (running === undefined) return false
        const [stored, { entries }] = running
        if (entries.has(key)) return false
        entries.set(key, entry.memo)
        yield* append(stored, { ...entry, turn: ref.turn })
        return true
      }),
      recorded: (ref, key) =>
        Effect.sync(() => {
          const entries = turnOf(ref)?.entries
          return entries?.has(key) === true ? Option.some(entries.get(key)) : Option.none()
        }),
      finish: Effect.fnUntraced(function* (ref, status, entry) {
        const stored = find(ref.workspace, ref.session)
        if (stored === undefined) return Option.none()
        const running = runningOf(ref)
        if (running !== undefined) {
          const [, turn] = running
          for (const earlier of stored.turns.values()) {
            if (isOpen(earlier)) continue
            earlier.entries.clear()
            earlier.questions.clear()
          }
          turn.status = status
          forgetChunks(stored, ref.turn)
          yield* append(stored, { ...entry, turn: ref.turn })
          const next = [...stored.turns.values()].find(isOpen)
          if (next !== undefined) yield* begin(stored, next)
        }
        return Option.map(runningTurn(stored), (turn) => turn.ref)
      }),
      running: Effect.sync(() => all().flatMap((stored) => Option.toArray(runningTurn(stored)).map(({ ref }) => ref))),
      cancel: (workspace, session) =>
        Effect.sync(() => {
          const stored = find(workspace, session)
          if (stored === undefined) return Option.none()
          return Option.map(runningTurn(stored), (turn) => {
            turn.cancelRequested = true
            return turn.ref
          })
        }),
      ask: Effect.fnUntraced(function* (ref, question) {
        const running = runningOf(ref)
        if (running === undefined) return
        const [stored, { questions }] = running
        if (questions.has(question.approvalId)) return
        const approval = { ...question, timestamp: yield* Clock.currentTimeMillis }
        questions.set(approval.approvalId, { approval, answer: undefined })
        const { turnId: _, ...data } = approval
        yield* append(stored, { turn: ref.turn, events: [{ event: "approvalRequest", data }] })
      }),
      answer: (workspace, id, answer) =>
        Effect.sync(() => {
          for (const turn of sessionsOf(workspace).flatMap((stored) => Option.toArray(runningTurn(stored)))) {
            const question = turn.questions.get(id)
            if (question === undefined || question.answer !== undefined) continue
            question.answer = answer
            return Option.some(turn.ref)
          }
          return Option.none()
        }),
      answered: (ref, id) => Effect.sync(() => Option.fromUndefinedOr(turnOf(ref)?.questions.get(id)?.answer)),
      open: (workspace, session) =>
        Effect.sync(() =>
          Array.sort(
            sessionsOf(workspace)
              .filter(({ id }) => session === undefined || id === session)
              .flatMap((stored) => Option.toArray(runningTurn(stored)))
              .flatMap(({ questions }) => [...questions.values()])
              .flatMap(({ answer, approval }) => (answer === undefined ? [approval] : [])),
            oldestFirst
          )
        )
    })
  })
)
