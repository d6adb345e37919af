import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { type Submission, TurnJournal } from "../../application/ports/storage/TurnJournal.ts"
import { Approval, ApprovalAnswer, ApprovalId } from "../../domain/conversation/Approval.ts"
import { textOf } from "../../domain/conversation/Message.ts"
import { SessionId, titleOf } from "../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { TurnId, TurnRef, TurnStatus } from "../../domain/conversation/Turn.ts"
import { Caller } from "../../domain/identity/ApiKey.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import {
  InSession,
  messageOf,
  storable,
  StoredEvents,
  StoredMessage,
  StoredMessages,
  toStored
} from "./ConversationColumns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"
import { SessionNotices } from "./SessionNotices.ts"

const Logged = { logged: Schema.NullOr(SafeInt8) }

const CallerText = Schema.NullOr(Schema.fromJsonString(Caller))

const Metadata = Schema.fromJsonString(Approval.fields.metadata)

const Answer = Schema.fromJsonString(ApprovalAnswer)

/** What an entry remembers, if anything: null is something. */
const Memo = Schema.fromJsonString(Schema.Struct({ value: Schema.optionalKey(Schema.Unknown) }))

const Submitting = Schema.Struct({
  ...TurnRef.fields,
  message: Schema.fromJsonString(StoredMessage),
  stream: Schema.Boolean,
  caller: CallerText,
  title: Schema.NullOr(Schema.String)
})

const Additions = { messages: StoredMessages, events: StoredEvents }

export const layer = Layer.effect(
  TurnJournal,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notices = yield* SessionNotices
    const { briefly } = yield* Patience.make

    const textsOf = (json: string) => sql`ARRAY(SELECT jsonb_array_elements_text(${json}::jsonb))`

    const Submitted = Schema.Struct({ place: Schema.Int, ...Logged })

    const submitting = (
      { caller, message, session, stream, title, turn }: typeof Submitting.Encoded,
      workspace: Statement.Fragment
    ) => sql`
      submit_turn(${workspace}, ${session}, ${turn}, ${message}::jsonb, ${stream}, ${caller}::text, ${title}::text)`

    const submitTurn = SqlSchema.findOne({
      Request: Submitting,
      Result: Submitted,
      execute: (turn) => sql`SELECT * FROM ${submitting(turn, sql`${turn.workspace}`)}`
    })

    // What the function takes of the session's row keeps any plan from calling it before the row is found.
    const submitTurnIfOpen = SqlSchema.findOneOption({
      Request: Submitting,
      Result: Submitted,
      execute: (turn) => sql`
        SELECT t.* FROM sessions s CROSS JOIN LATERAL ${submitting(turn, sql.literal("s.organization_id"))} t
        WHERE s.organization_id = ${turn.workspace} AND s.id = ${turn.session} AND s.removed_at IS NULL`
    })

    const findTurn = SqlSchema.findOneOption({
      Request: TurnRef,
      Result: Schema.Struct({
        id: TurnId,
        status: TurnStatus,
        cancelRequested: Schema.Boolean,
        hasEntries: Schema.Boolean,
        stream: Schema.Boolean,
        message: Schema.fromJsonString(StoredMessage),
        caller: CallerText
      }),
      execute: ({ session, turn, workspace }) => sql`
        SELECT id, status, cancel_requested, stream, message::text AS message, caller,
          EXISTS (
            SELECT FROM turn_entries e
            WHERE e.organization_id = t.organization_id AND e.session_id = t.session_id AND e.turn_id = t.id
          ) AS has_entries
        FROM session_turns t
        WHERE organization_id = ${workspace} AND session_id = ${session} AND id = ${turn}`
    })

    const recordEntry = SqlSchema.findOne({
      Request: Schema.Struct({ ...TurnRef.fields, key: Schema.String, memo: Memo, ...Additions }),
      Result: Schema.Struct({ recorded: Schema.Boolean, ...Logged }),
      execute: ({ events, key, memo, messages, session, turn, workspace }) => sql`
        SELECT * FROM record_entry(
          ${workspace}, ${session}, ${turn}, ${key}, ${memo}, ${messages}::jsonb, ${textsOf(events)})`
    })

    const findEntry = SqlSchema.findOneOption({
      Request: Schema.Struct({ ...TurnRef.fields, key: Schema.String }),
      Result: Schema.Struct({ memo: Memo }),
      execute: ({ key, session, turn, workspace }) => sql`
        SELECT memo FROM turn_entries
        WHERE organization_id = ${workspace} AND session_id = ${session} AND turn_id = ${turn} AND key = ${key}`
    })

    const finishTurn = SqlSchema.findOne({
      Request: Schema.Struct({ ...TurnRef.fields, status: TurnStatus, ...Additions }),
      Result: Schema.Struct({ next: Schema.NullOr(TurnId), ...Logged }),
      execute: ({ events, messages, session, status, turn, workspace }) => sql`
        SELECT * FROM finish_turn(
          ${workspace}, ${session}, ${turn}, ${status}, ${messages}::jsonb, ${textsOf(events)})`
    })

    const runningTurns = SqlSchema.findAll({
      Request: Schema.Void,
      Result: TurnRef,
      execute: () => sql`
        SELECT organization_id AS workspace, session_id AS session, id AS turn FROM session_turns
        WHERE status = 'running'`
    })

    const cancelTurn = SqlSchema.findOneOption({
      Request: Schema.Struct(InSession),
      Result: Schema.Struct({ turn: TurnId }),
      execute: ({ session, workspace }) => sql`
        UPDATE session_turns SET cancel_requested = true
        WHERE organization_id = ${workspace} AND session_id = ${session} AND status = 'running'
        RETURNING id AS turn`
    })

    const askQuestion = SqlSchema.findOne({
      Request: Schema.Struct({
        ...TurnRef.fields,
        id: ApprovalId,
        type: Approval.fields.type,
        timeout: SafeInt8,
        metadata: Metadata
      }),
      Result: Schema.Struct(Logged),
      execute: ({ id, metadata, session, timeout, turn, type, workspace }) => sql`
        SELECT ask_question(
          ${workspace}, ${session}, ${turn}, ${id}, ${type}, ${timeout}, ${metadata}::text) AS logged`
    })

    const answerQuestion = SqlSchema.findOneOption({
      Request: Schema.Struct({ workspace: OrganizationId, id: ApprovalId, answer: Answer }),
      Result: Schema.Struct({ session: SessionId, turn: TurnId }),
      execute: ({ answer, id, workspace }) => sql`
        UPDATE turn_questions q SET answer = ${answer}
        WHERE q.organization_id = ${workspace} AND q.id = ${id} AND q.answer IS NULL
          AND is_running(q.organization_id, q.session_id, q.turn_id)
        RETURNING q.session_id AS session, q.turn_id AS turn`
    })

    const findAnswer = SqlSchema.findOneOption({
      Request: Schema.Struct({ ...TurnRef.fields, id: ApprovalId }),
      Result: Schema.Struct({ answer: Answer }),
      execute: ({ id, session, turn, workspace }) => sql`
        SELECT answer FROM turn_questions
        WHERE organization_id = ${workspace} AND id = ${id} AND session_id = ${session} AND turn_id = ${turn}
          AND answer IS NOT NULL`
    })

    const openQuestions = SqlSchema.findAll({
      Request: Schema.Struct({ workspace: OrganizationId, session: Schema.NullOr(SessionId) }),
      Result: Schema.Struct({
        ...Approval.fields,
        timeout: SafeInt8,
        timestamp: SafeInt8,
        metadata: Metadata
      }),
      execute: ({ session, workspace }) => sql`
        SELECT q.id AS approval_id, q.type, q.session_id, q.turn_id, q.timeout, q.asked_at AS timestamp, q.metadata
        FROM turn_questions q
        WHERE q.organization_id = ${workspace} AND q.answer IS NULL
          AND (${session}::text IS NULL OR q.session_id = ${session})
          AND is_running(q.organization_id, q.session_id, q.turn_id)
        ORDER BY q.asked_at, q.id`
    })

    const submitted = (
      { session, title, workspace }: typeof Submitting.Type,
      { logged, place }: typeof Submitted.Type
    ) => {
      // Of a turn that runs at once nothing is logged but its session's title.
      const events: ReadonlyArray<SessionEvent> | undefined =
        place > 0 || title === null
          ? undefined
          : [{ event: "sessionTitleUpdated", data: { title, sessionId: session } }]
      return Effect.as(notices.appended(workspace, session, logged, events), { position: place })
    }

    return TurnJournal.of({
      submit: Effect.fn("TurnJournal.submit")(
        function* (turn, submission) {
          const request = submittingOf(turn, submission)
          const stored = yield* briefly(submitTurn(request)).pipe(
            Effect.catchTag("NoSuchElementError", Effect.die),
            Effect.catch(toDefect)
          )
          return yield* submitted(request, stored)
        },
        (submit, turn) => notices.appending([turn], submit)
      ),
      submitIfOpen: Effect.fn("TurnJournal.submitIfOpen")(
        function* (turn, submission) {
          const request = submittingOf(turn, submission)
          const stored = yield* Effect.catch(briefly(submitTurnIfOpen(request)), toDefect)
          return yield* Effect.transposeOption(Option.map(stored, (stored) => submitted(request, stored)))
        },
        (submit, turn) => notices.appending([turn], submit)
      ),
      find: Effect.fn("TurnJournal.find")((turn) =>
        Effect.map(
          Effect.catch(briefly(findTurn(turn)), toDefect),
          Option.map(({ message, ...record }) => ({ ...record, message: messageOf(message) }))
        )
      ),
      record: Effect.fn("TurnJournal.record")(
        function* (turn, key, { events = [], memo, messages = [] }) {
          const { logged, recorded } = yield* briefly(
            recordEntry({
              ...turn,
              key: storable(key),
              memo: memo === undefined ? {} : { value: memo },
              messages: messages.map(toStored),
              events
            })
          ).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
          yield* notices.appended(turn.workspace, turn.session, logged, events)
          return recorded
        },
        (record, turn) => notices.appending([turn], record)
      ),
      recorded: Effect.fn("TurnJournal.recorded")((turn, key) =>
        Effect.map(
          Effect.catch(briefly(findEntry({ ...turn, key: storable(key) })), toDefect),
          Option.map(({ memo }) => memo.value)
        )
      ),
      finish: Effect.fn("TurnJournal.finish")(
        function* (turn, status, { events = [], messages = [] }) {
          const { logged, next } = yield* briefly(
            finishTurn({ ...turn, status, messages: messages.map(toStored), events })
          ).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
          yield* notices.appended(turn.workspace, turn.session, logged, events)
          return next === null ? Option.none() : Option.some({ ...turn, turn: next })
        },
        (finish, turn) => notices.appending([turn], finish)
      ),
      running: Effect.suspend(() => Effect.catch(briefly(runningTurns()), toDefect)).pipe(
        Effect.withSpan("TurnJournal.running")
      ),
      cancel: Effect.fn("TurnJournal.cancel")((workspace, session) =>
        Effect.map(
          Effect.catch(briefly(cancelTurn({ workspace, session })), toDefect),
          Option.map(({ turn }) => ({ workspace, session, turn }))
        )
      ),
      ask: Effect.fn("TurnJournal.ask")(function* (turn, { approvalId, metadata, timeout, type }) {
        const { logged } = yield* briefly(askQuestion({ ...turn, id: approvalId, type, timeout, metadata })).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
        yield* notices.appended(turn.workspace, turn.session, logged)
      }),
      answer: Effect.fn("TurnJournal.answer")((workspace, id, answer) =>
        Effect.map(
          Effect.catch(briefly(answerQuestion({ workspace, id, answer })), toDefect),
          Option.map(({ session, turn }) => ({ workspace, session, turn }))
        )
      ),
      answered: Effect.fn("TurnJournal.answered")((turn, id) =>
        Effect.map(
          Effect.catch(briefly(findAnswer({ ...turn, id })), toDefect),
          Option.map(({ answer }) => answer)
        )
      ),
      open: Effect.fn("TurnJournal.open")((workspace, session) =>
        Effect.catch(briefly(openQuestions({ workspace, session: session ?? null })), toDefect)
      )
    })
  })
)

const submittingOf = (turn: TurnRef, { caller, message, stream }: Submission): typeof Submitting.Type => ({
  ...turn,
  message: toStored(message),
  stream,
  caller,
  title: titleOf(storable(textOf(message)))
})
