import { Context, type Effect, type Option } from "effect"
import type { Message, MessageRole } from "../../../domain/conversation/Message.ts"
import type { Session, SessionId } from "../../../domain/conversation/Session.ts"
import type { TurnRef } from "../../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * The sessions of workspaces with their histories. Times are the store's. Operations are atomic and durable when they
 * return; `TurnJournal` is what adds to histories.
 */
export class Sessions extends Context.Service<
  Sessions,
  {
    /** The session, made unless it is there. */
    readonly open: (
      workspace: OrganizationId,
      id: SessionId
    ) => Effect.Effect<{ readonly session: Session; readonly isNew: boolean }>
    /** The same, but a new one only while the workspace has room for it, exactly: else none. */
    readonly openWithin: (
      workspace: OrganizationId,
      id: SessionId,
      room: SessionRoom
    ) => Effect.Effect<Option.Option<{ readonly session: Session; readonly isNew: boolean }>>
    readonly find: (workspace: OrganizationId, id: SessionId) => Effect.Effect<Option.Option<Session>>
    /** The latest activity first. */
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Session>>
    /** Oldest first. */
    readonly history: (workspace: OrganizationId, id: SessionId) => Effect.Effect<ReadonlyArray<Message>>
    /** Whether a turn of the session runs. */
    readonly isBusy: (workspace: OrganizationId, id: SessionId) => Effect.Effect<boolean>
    /** Logs `sessionTitleUpdated`. False if there is no such session. */
    readonly rename: (workspace: OrganizationId, id: SessionId, title: string) => Effect.Effect<boolean>
    /**
     * Forgets the messages of a session, and logs `conversationReset`. Turns that run or wait end before it, each with
     * an `error` of code `cancelled`; whoever runs one finds it ended. Gives the ones that ran, to be woken; none if
     * there is no such session.
     */
    readonly reset: (workspace: OrganizationId, id: SessionId) => Effect.Effect<Option.Option<ReadonlyArray<TurnRef>>>
    /**
     * With all that belongs to it, but its blobs. Turns that run or wait end before it, each with an `error` of code
     * `cancelled` that those who listen still get; they are not found any more. Gives the ones that ran, to be woken; none
     * if there was no such session. One made again under the same id goes on with the numbers of
     * events where this one ended, for those who still listen.
     */
    readonly remove: (workspace: OrganizationId, id: SessionId) => Effect.Effect<Option.Option<ReadonlyArray<TurnRef>>>
    /** Which session the workspace has loaded last, if it is there still. */
    readonly current: (workspace: OrganizationId) => Effect.Effect<Option.Option<SessionId>>
    /** Makes it the current one. False if there is no such session. */
    readonly load: (workspace: OrganizationId, id: SessionId) => Effect.Effect<boolean>
    /** Sessions with no activity for so long, in milliseconds, and no running turn; oldest first. */
    readonly idle: (workspace: OrganizationId, millis: number, limit: number) => Effect.Effect<ReadonlyArray<SessionId>>
    /**
     * Messages whose text has the phrase, whatever its case: those with the exact phrase first, then the newest. Nothing
     * in the phrase has a meaning of its own. `total` counts all of them.
     */
    readonly searchMessages: (
      workspace: OrganizationId,
      query: MessageSearch
    ) => Effect.Effect<{ readonly hits: ReadonlyArray<FoundMessage>; readonly total: number }>
    /** Sessions with such messages, those with the newest first. `total` counts all of them. */
    readonly searchSessions: (
      workspace: OrganizationId,
      phrase: string,
      limit: number
    ) => Effect.Effect<{ readonly found: ReadonlyArray<FoundSession>; readonly total: number }>
  }
>()("gateway/ports/storage/Sessions") {}

/** How many sessions a workspace may have that were active within so many milliseconds. */
export interface SessionRoom {
  readonly most: number
  readonly millis: number
}

export interface MessageSearch {
  readonly phrase: string
  readonly session?: SessionId
  readonly role?: MessageRole
  readonly limit: number
  readonly offset: number
}

export interface FoundMessage {
  readonly session: SessionId
  readonly message: Message
  /** The place of the message in its session's history, from 0. */
  readonly index: number
}

export interface FoundSession {
  readonly session: Session
  readonly matchCount: number
  /** The oldest of its matches. */
  readonly first: FoundMessage
}
