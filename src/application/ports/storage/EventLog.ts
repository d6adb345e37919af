import { Context, type Effect, type Stream } from "effect"
import type { SessionId } from "../../../domain/conversation/Session.ts"
import type { NumberedEvent, SessionEvent } from "../../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * The events of sessions, numbered without gaps (decisions 6). Chunks are kept until a later turn of their session ends,
 * or some time after their own has, so that nobody who listens misses a number; the others as long as their session.
 * Numbers of forgotten chunks are not given again.
 */
export class EventLog extends Context.Service<
  EventLog,
  {
    /**
     * Appends chunks, or what else may be written again when a turn is taken up anew. Grouped with those of others. A
     * turn that does not run appends nothing: what ended it is its last word.
     */
    readonly append: (turn: TurnRef, events: ReadonlyArray<SessionEvent>) => Effect.Effect<void>
    /** Events with greater numbers, in order. */
    readonly after: (
      workspace: OrganizationId,
      session: SessionId,
      id: number,
      limit: number
    ) => Effect.Effect<ReadonlyArray<NumberedEvent>>
    /** The number of the session's newest event; 0 without any. */
    readonly last: (workspace: OrganizationId, session: SessionId) => Effect.Effect<number>
    /** From now on; each run of the stream is told of everything. */
    readonly wakeUps: Stream.Stream<WakeUp>
  }
>()("gateway/ports/storage/EventLog") {}

/**
 * That a session has new events, of this process or another: a hint to read on. It may come twice or for nothing; after
 * a lost connection it comes for every session that changed meanwhile.
 */
export interface WakeUp {
  readonly workspace: OrganizationId
  readonly session: SessionId
  /** Events with smaller numbers were there before. */
  readonly from: number
  /** Whoever has the event of this number has all that this tells of: what is appended at once is read at once. */
  readonly upTo: number
  /** All of them, from that number on, if this process has appended them: they need not be read. */
  readonly events?: ReadonlyArray<SessionEvent> | undefined
  /** Told before what may still be on its way of events with smaller numbers. It comes once more, after them. */
  readonly isAhead?: boolean
}
