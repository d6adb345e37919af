import { Array, Duration, Effect, Layer, Predicate, Schedule, Schema, Stream } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { EventLog } from "../../application/ports/storage/EventLog.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { TurnId, type TurnRef } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { InSession, StoredEvent } from "./ConversationColumns.ts"
import { isAway, toDefect } from "./Failures.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as Patience from "./Patience.ts"
import { Notice, SessionNotices } from "./SessionNotices.ts"

/** An event as `append_events` takes it. */
const Appended = Schema.Struct({ ...InSession, turn: TurnId, event: StoredEvent })

/** After the end of their turn, and at least so long after they were said. */
const chunksStay = Duration.minutes(1)

export const layer = Layer.effect(
  EventLog,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notices = yield* SessionNotices
    const { briefly } = yield* Patience.make

    const appendEvents = SqlSchema.findOne({
      Request: Schema.fromJsonString(Schema.Array(Appended)),
      Result: Schema.Struct({ logged: Schema.fromJsonString(Schema.Array(Notice)) }),
      execute: (batch) => sql`SELECT append_events(${batch}::jsonb)::text AS logged`
    })

    const queue = yield* GroupCommit.make(
      (batch: ReadonlyArray<readonly [TurnRef, ReadonlyArray<SessionEvent>]>) => {
        const events = batch.flatMap(([turn, events]) => events.map((event) => ({ ...turn, event })))
        const append = briefly(appendEvents(events)).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.tap(({ logged }) =>
            Effect.forEach(
              logged,
              ([workspace, session, from]) =>
                notices.appended(workspace, session, from, ofOneTurn(events, workspace, session)),
              { discard: true }
            )
          ),
          Effect.as(Array.makeBy(batch.length, () => undefined))
        )
        return notices.appending(
          batch.map(([turn]) => turn),
          append
        )
      },
      { most: 128, mayBlameItem: Predicate.not(isAway) }
    )

    const eventsAfter = SqlSchema.findAll({
      Request: Schema.Struct({ ...InSession, after: SafeInt8, limit: Schema.Int }),
      Result: Schema.Struct({ id: SafeInt8, event: StoredEvent }),
      execute: ({ after, limit, session, workspace }) => sql`
        SELECT id, event FROM session_events
        WHERE organization_id = ${workspace} AND session_id = ${session} AND id > ${after}
        ORDER BY id LIMIT ${limit}`
    })

    const lastOf = SqlSchema.findAll({
      Request: Schema.Struct(InSession),
      Result: Schema.Struct({ lastEvent: SafeInt8 }),
      execute: ({ session, workspace }) => sql`
        SELECT last_event FROM sessions
        WHERE organization_id = ${workspace} AND id = ${session} AND removed_at IS NULL`
    })

    const forgetChunks = Effect.suspend(() => briefly(sql`SELECT forget_chunks(${Duration.toMillis(chunksStay)})`))

    yield* forgetChunks.pipe(
      Effect.catchCause((cause) => Effect.logDebug("Chunks of ended turns stay in the store for now.", cause)),
      Effect.delay(Duration.divideUnsafe(chunksStay, 2)),
      Effect.repeat(Schedule.forever),
      Effect.forkScoped
    )

    return EventLog.of({
      append: Effect.fn("EventLog.append")((turn, events) =>
        events.length === 0 ? Effect.void : Effect.catch(queue([turn, events]), toDefect)
      ),
      after: Effect.fn("EventLog.after")((workspace, session, after, limit) =>
        Effect.map(
          Effect.catch(briefly(eventsAfter({ workspace, session, after, limit })), toDefect),
          Array.map(({ event, id }) => ({ id, session, event }))
        )
      ),
      last: Effect.fn("EventLog.last")((workspace, session) =>
        Effect.map(Effect.catch(briefly(lastOf({ workspace, session })), toDefect), ([found]) => found?.lastEvent ?? 0)
      ),
      wakeUps: Stream.fromPubSub(notices.wakeUps)
    })
  })
)

/** The events of a batch that a session has got. Turns that do not run append none, so with two it is not known which. */
const ofOneTurn = (
  events: ReadonlyArray<typeof Appended.Type>,
  workspace: OrganizationId,
  session: SessionId
): ReadonlyArray<SessionEvent> | undefined => {
  const own = events.filter((event) => event.session === session && event.workspace === workspace)
  return own.every(({ turn }) => turn === own[0]?.turn) ? own.map(({ event }) => event) : undefined
}
