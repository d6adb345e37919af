import { Context, type Effect, type Option } from "effect"
import type { Approval, ApprovalAnswer, ApprovalId } from "../../../domain/conversation/Approval.ts"
import type { Message } from "../../../domain/conversation/Message.ts"
import type { SessionId } from "../../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../../domain/conversation/SessionEvent.ts"
import type { TurnId, TurnRef, TurnStatus } from "../../../domain/conversation/Turn.ts"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * What turns have done (decisions 6). Everything that a turn writes is an entry under a key of its own, once: a turn that
 * is taken up by another process writes the same entries and finds them there. Messages and events of an entry are one
 * transaction. Turns of a session run one at a time, in the order of their submission.
 */
export class TurnJournal extends Context.Service<
  TurnJournal,
  {
    /**
     * Stores a user's message as a new turn; the session is made if need be, and named by the first words if it has no
     * title, which logs `sessionTitleUpdated`. It runs at once, or waits behind others of its session: `position` 0
     * runs, 1 is next. A waiting one logs `messageQueued`. The message enters the history when the turn begins to run,
     * here or in `finish`. A turn that is there already stays as it is.
     */
    readonly submit: (turn: TurnRef, submission: Submission) => Effect.Effect<{ readonly position: number }>
    /** The same in a session that is there already; none, and nothing is stored, if it is not. */
    readonly submitIfOpen: (
      turn: TurnRef,
      submission: Submission
    ) => Effect.Effect<Option.Option<{ readonly position: number }>>
    /** None if its session was removed. */
    readonly find: (turn: TurnRef) => Effect.Effect<Option.Option<TurnRecord>>
    /** Writes an entry unless it is there; false if it was. Turns that have ended, or wait, take none: false. */
    readonly record: (turn: TurnRef, key: string, entry: Entry) => Effect.Effect<boolean>
    /**
     * What an entry remembers beside messages and events; undefined if it remembers nothing, none if there is no such
     * entry. Those of an ended turn are forgotten when a later one of its session ends.
     */
    readonly recorded: (turn: TurnRef, key: string) => Effect.Effect<Option.Option<unknown>>
    /**
     * Ends a running turn with its last messages and events, once, and forgets the chunks of those before; the next one that
     * waits runs.
     * One that has ended stays as it did. Gives the turn of the session that runs now.
     */
    readonly finish: (
      turn: TurnRef,
      status: Exclude<TurnStatus, "queued" | "running">,
      entry: Entry
    ) => Effect.Effect<Option.Option<TurnRef>>
    /** Turns that run, whatever process they run on: for those whose process died before it could say so. */
    readonly running: Effect.Effect<ReadonlyArray<TurnRef>>
    /** Asks the running turn of a session to end; gives it. Waiting ones go on waiting. */
    readonly cancel: (workspace: OrganizationId, session: SessionId) => Effect.Effect<Option.Option<TurnRef>>
    /** Asks a person, once; logs `approvalRequest`. A turn that does not run asks nobody. */
    readonly ask: (turn: TurnRef, approval: Omit<Approval, "timestamp">) => Effect.Effect<void>
    /**
     * The first answer counts, also one that the turn itself gives once it has waited long enough: none if there was
     * one, or no such question is open in the workspace. A turn that has ended has no open questions.
     */
    readonly answer: (
      workspace: OrganizationId,
      approval: ApprovalId,
      answer: ApprovalAnswer
    ) => Effect.Effect<Option.Option<TurnRef>>
    readonly answered: (turn: TurnRef, approval: ApprovalId) => Effect.Effect<Option.Option<ApprovalAnswer>>
    /** Questions without an answer, oldest first. */
    readonly open: (workspace: OrganizationId, session: SessionId | undefined) => Effect.Effect<ReadonlyArray<Approval>>
  }
>()("gateway/ports/storage/TurnJournal") {}

export interface Submission {
  readonly message: Omit<Message, "createdAt">
  /** Whether chunks are wanted. */
  readonly stream: boolean
  /** In whose name the models are called; null while the runtime is open. */
  readonly caller: Caller | null
}

export interface TurnRecord extends Submission {
  readonly status: TurnStatus
  readonly cancelRequested: boolean
  /** Whether it has written anything yet. */
  readonly hasEntries: boolean
  readonly id: TurnId
}

export interface Entry {
  /** Appended to the session's history in this order. */
  readonly messages?: ReadonlyArray<Omit<Message, "createdAt">>
  /** Appended to the session's event log in this order. */
  readonly events?: ReadonlyArray<SessionEvent>
  /** What the turn wants to remember, as JSON. */
  readonly memo?: unknown
}
