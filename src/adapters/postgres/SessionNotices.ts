import { PgClient, PgConnection } from "@effect/sql-pg"
import { Context, Effect, Layer, Option, PubSub, Queue, Schedule, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { WakeUp } from "../../application/ports/storage/EventLog.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"

const channel = "session_events"

/** That a session has events from this number on, written at this time of the store. */
export const Notice = Schema.Tuple([OrganizationId, SessionId, Schema.Int, Schema.Int])

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Notice))

/** After so long without a notice one is asked for. */
const silence = "5 seconds"

/** What must come back of what was asked for. */
const anyone = "anyone?"

/**
 * Which sessions have new events. On a server it is told by notifications, over a connection of its own outside of the
 * pool; when that breaks or falls silent it is made anew, and what has changed meanwhile is looked up. The embedded
 * store has one process, which tells itself.
 */
export class SessionNotices extends Context.Service<
  SessionNotices,
  {
    readonly wakeUps: PubSub.PubSub<WakeUp>
    /** What this process has appended, from that number on; the events, if they are known here. */
    readonly appended: (
      workspace: OrganizationId,
      session: SessionId,
      from: number | null,
      events?: ReadonlyArray<SessionEvent>
    ) => Effect.Effect<void>
    /**
     * Runs what appends to these sessions and then says so by `appended`. A notice of theirs that comes meanwhile is most
     * likely of that, so it is passed on afterwards: nobody has to read what this process is about to know.
     */
    readonly appending: <A, E, R>(
      sessions: ReadonlyArray<Pick<WakeUp, "workspace" | "session">>,
      append: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E, R>
  }
>()("gateway/postgres/SessionNotices") {
  static readonly layer = Layer.effect(
    SessionNotices,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { config } = yield* PgClient.PgClient
      const wakeUps = yield* PubSub.unbounded<WakeUp>()

      const tell = (wakeUp: WakeUp) => PubSub.publish(wakeUps, wakeUp)

      if (config.stream !== undefined) {
        return SessionNotices.of({
          wakeUps,
          appending: (_, append) => append,
          appended: (workspace, session, from, events) =>
            from === null
              ? Effect.void
              : tell({ workspace, session, from, upTo: from + (events?.length ?? 1) - 1, events })
        })
      }

      const clock = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ now: SafeInt8 }),
        execute: () => sql`SELECT epoch_millis() AS now`
      })

      /** Less a minute for what was not committed then. */
      const changedSince = SqlSchema.findAll({
        Request: SafeInt8,
        Result: Schema.Struct({ workspace: OrganizationId, session: SessionId, from: SafeInt8, upTo: SafeInt8 }),
        execute: (since) => sql`
          SELECT e.organization_id AS workspace, e.session_id AS session, min(e.id) AS "from", max(e.id) AS up_to
          FROM sessions s JOIN session_events e ON e.organization_id = s.organization_id AND e.session_id = s.id
          WHERE s.last_activity >= ${since}::bigint - 60000 AND e.created_at >= ${since}::bigint - 60000
          GROUP BY 1, 2`
      })

      /** Until when this process knows of everything, by the store's clock. */
      let heard = Option.none<number>()

      const catchUp = Effect.gen(function* () {
        if (Option.isNone(heard)) return void (heard = Option.some((yield* clock()).now))
        yield* Effect.forEach(yield* changedSince(heard.value), tell, { discard: true })
      })

      const pending = new Pending()

      const hear = Effect.fnUntraced(function* (payload: string) {
        if (payload === anyone) return
        const [workspace, session, from, at] = yield* decode(payload)
        heard = Option.some(at)
        const wakeUp = { workspace, session, from, upTo: from }
        if (!pending.hold(wakeUp)) yield* tell(wakeUp)
      })

      /** Fails when the connection is lost, else goes on for ever. */
      const listening = Effect.gen(function* () {
        const connection = yield* PgConnection.make(config)
        const notices = yield* connection.listen(channel)
        yield* catchUp
        const asked = sql`SELECT pg_notify(${channel}, ${anyone})`.pipe(
          Effect.andThen(Queue.takeAll(notices)),
          Effect.timeout(silence)
        )
        return yield* Queue.takeAll(notices).pipe(
          Effect.timeoutOrElse({ duration: silence, orElse: () => asked }),
          Effect.flatMap(Effect.forEach(({ payload }) => hear(payload), { discard: true })),
          Effect.forever,
          Effect.tapError((error) => Effect.logWarning("Notices of events are lost: listening again.", error.message))
        )
      }).pipe(Effect.scoped)

      yield* listening.pipe(Effect.retry(Schedule.spaced("500 millis")), Effect.forkScoped)

      return SessionNotices.of({
        wakeUps,
        appending: (sessions, append) =>
          Effect.acquireUseRelease(
            Effect.sync(() => pending.begin(sessions)),
            () => append,
            // In one go: what is told in between of a later event would let those be dropped.
            () =>
              Effect.sync(() => {
                for (const wakeUp of pending.end(sessions)) PubSub.publishUnsafe(wakeUps, wakeUp)
              })
          ),
        // What is not known here is told by the store's own notification alone.
        appended: (workspace, session, from, events) =>
          from === null || events === undefined
            ? Effect.void
            : tell({ workspace, session, from, upTo: from + events.length - 1, events, isAhead: true })
      })
    })
  )
}

/** Sessions that this process appends to right now, with the notices of them that came meanwhile. */
class Pending {
  readonly #sessions = new Map<string, { appends: number; readonly held: Array<WakeUp> }>()

  begin(sessions: ReadonlyArray<Pick<WakeUp, "workspace" | "session">>): void {
    for (const session of sessions) {
      const known = this.#sessions.get(keyOf(session))
      if (known === undefined) this.#sessions.set(keyOf(session), { appends: 1, held: [] })
      else known.appends++
    }
  }

  /** False if nothing is appended to its session. */
  hold(wakeUp: WakeUp): boolean {
    return this.#sessions.get(keyOf(wakeUp))?.held.push(wakeUp) !== undefined
  }

  /** What was held for those that nothing is appended to any more. */
  end(sessions: ReadonlyArray<Pick<WakeUp, "workspace" | "session">>): ReadonlyArray<WakeUp> {
    return sessions.flatMap((session) => {
      const known = this.#sessions.get(keyOf(session))
      if (known === undefined || --known.appends > 0) return []
      this.#sessions.delete(keyOf(session))
      return known.held
    })
  }
}

const keyOf = ({ session, workspace }: Pick<WakeUp, "workspace" | "session">): string => `${workspace} ${session}`
