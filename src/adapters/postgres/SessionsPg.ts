import { Array, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Sessions } from "../../application/ports/storage/Sessions.ts"
import { Session, SessionId } from "../../domain/conversation/Session.ts"
import { cancelled, type SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { TurnId } from "../../domain/conversation/Turn.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { fromRow, InSession, MessageRow, messageColumns, StoredEvent } from "./ConversationColumns.ts"
import { toDefect } from "./Failures.ts"
import * as MessageSearch from "./MessageSearch.ts"
import * as Patience from "./Patience.ts"
import { SessionNotices } from "./SessionNotices.ts"

const Row = Schema.Struct({ ...Session.fields, createdAt: SafeInt8, lastActivity: SafeInt8 })

const Logged = { logged: Schema.NullOr(SafeInt8) }

/** Null: no such session. */
const Ran = Schema.NullOr(Schema.Array(TurnId))

export const layer = Layer.effect(
  Sessions,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notices = yield* SessionNotices
    const search = yield* MessageSearch.make
    const { briefly, longer } = yield* Patience.make

    const columns = sql.literal("id, created_at, last_activity, message_count, title")

    const openSession = SqlSchema.findOne({
      Request: Schema.Struct(InSession),
      Result: Schema.Struct({ isNew: Schema.Boolean }),
      execute: ({ session, workspace }) => sql`SELECT open_session(${workspace}, ${session}) AS is_new`
    })

    const openSessionWithin = SqlSchema.findOne({
      Request: Schema.Struct({ ...InSession, most: SafeInt8, millis: SafeInt8 }),
      Result: Schema.Struct({ isNew: Schema.NullOr(Schema.Boolean) }),
      execute: ({ millis, most, session, workspace }) => sql`
        SELECT open_session_within(${workspace}, ${session}, ${most}, ${millis}) AS is_new`
    })

    const findSession = SqlSchema.findOneOption({
      Request: Schema.Struct(InSession),
      Result: Row,
      execute: ({ session, workspace }) => sql`
        SELECT ${columns} FROM sessions
        WHERE organization_id = ${workspace} AND id = ${session} AND removed_at IS NULL`
    })

    const listSessions = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Row,
      execute: (workspace) => sql`
        SELECT ${columns} FROM sessions WHERE organization_id = ${workspace} AND removed_at IS NULL
        ORDER BY last_activity DESC, id`
    })

    const sessionsById = SqlSchema.findAll({
      Request: Schema.Struct({
        workspace: OrganizationId,
        ids: Schema.fromJsonString(Schema.Array(SessionId))
      }),
      Result: Row,
      execute: ({ ids, workspace }) => sql`
        SELECT ${columns} FROM sessions
        WHERE organization_id = ${workspace} AND removed_at IS NULL
          AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(${ids}::jsonb)))`
    })

    const historyOf = SqlSchema.findAll({
      Request: Schema.Struct(InSession),
      Result: MessageRow,
      execute: ({ session, workspace }) => sql`
        SELECT ${sql.literal(messageColumns)} FROM session_messages
        WHERE organization_id = ${workspace} AND session_id = ${session} ORDER BY position`
    })

    const hasRunningTurn = SqlSchema.findOne({
      Request: Schema.Struct(InSession),
      Result: Schema.Struct({ isBusy: Schema.Boolean }),
      execute: ({ session, workspace }) => sql`
        SELECT EXISTS (
          SELECT 1 FROM session_turns
          WHERE organization_id = ${workspace} AND session_id = ${session} AND status = 'running') AS is_busy`
    })

    const renameSession = SqlSchema.findOne({
      Request: Schema.Struct({ ...InSession, title: Schema.String, event: StoredEvent }),
      Result: Schema.Struct({ renamed: Schema.Boolean, ...Logged }),
      execute: ({ event, session, title, workspace }) => sql`
        SELECT * FROM rename_session(${workspace}, ${session}, ${title}, ${event})`
    })

    const resetSession = SqlSchema.findOne({
      Request: Schema.Struct({ ...InSession, ending: StoredEvent, event: StoredEvent }),
      Result: Schema.Struct({ ran: Ran, ...Logged }),
      execute: ({ ending, event, session, workspace }) => sql`
        SELECT * FROM reset_session(${workspace}, ${session}, ${ending}, ${event})`
    })

    const removeSession = SqlSchema.findOne({
      Request: Schema.Struct({ ...InSession, ending: StoredEvent }),
      Result: Schema.Struct({ ran: Ran, ...Logged }),
      execute: ({ ending, session, workspace }) => sql`
        SELECT * FROM remove_session(${workspace}, ${session}, ${ending})`
    })

    const currentSession = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Schema.Struct({ currentSession: SessionId }),
      execute: (workspace) => sql`
        SELECT current_session FROM session_workspaces
        WHERE organization_id = ${workspace} AND current_session IS NOT NULL`
    })

    const loadSession = SqlSchema.findOne({
      Request: Schema.Struct(InSession),
      Result: Schema.Struct({ loaded: Schema.Boolean }),
      execute: ({ session, workspace }) => sql`SELECT load_session(${workspace}, ${session}) AS loaded`
    })

    const idleSessions = SqlSchema.findAll({
      Request: Schema.Struct({ workspace: OrganizationId, millis: SafeInt8, limit: Schema.Int }),
      Result: Schema.Struct({ id: SessionId }),
      execute: ({ limit, millis, workspace }) => sql`
        SELECT s.id FROM sessions s
        WHERE s.organization_id = ${workspace} AND s.removed_at IS NULL
          AND s.last_activity <= epoch_millis() - ${millis}::bigint
          AND NOT EXISTS (
            SELECT 1 FROM session_turns t
            WHERE t.organization_id = s.organization_id AND t.session_id = s.id AND t.status = 'running')
        ORDER BY s.last_activity, s.id LIMIT ${limit}`
    })

    /** Somebody may have removed it since it was opened. */
    const opened = Effect.fnUntraced(function* (
      workspace: OrganizationId,
      session: SessionId,
      isNew: boolean
    ): Effect.fn.Return<
      Option.Option<{ session: Session; isNew: boolean }>,
      Effect.Error<ReturnType<typeof findSession>>
    > {
      return Option.map(yield* findSession({ workspace, session }), (session) => ({ session, isNew }))
    })

    const open = Effect.fn("Sessions.open")(function* (workspace: OrganizationId, session: SessionId) {
      const opening = Effect.gen(function* () {
        for (;;) {
          const { isNew } = yield* openSession({ workspace, session })
          const found = yield* opened(workspace, session, isNew)
          if (Option.isSome(found)) return found.value
        }
      })
      return yield* briefly(opening).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
    })

    const refs = (workspace: OrganizationId, session: SessionId, ran: typeof Ran.Type) =>
      Option.map(Option.fromNullOr(ran), (turns) => turns.map((turn) => ({ workspace, session, turn })))

    return Sessions.of({
      open,
      openWithin: Effect.fn("Sessions.openWithin")(function* (workspace, session, room) {
        const opening = Effect.gen(function* () {
          for (;;) {
            const { isNew } = yield* openSessionWithin({ workspace, session, ...room })
            if (isNew === null) return Option.none()
            const found = yield* opened(workspace, session, isNew)
            if (Option.isSome(found)) return found
          }
        })
        return yield* briefly(opening).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
      }),
      find: Effect.fn("Sessions.find")((workspace, session) =>
        Effect.catch(briefly(findSession({ workspace, session })), toDefect)
      ),
      list: Effect.fn("Sessions.list")((workspace) => Effect.catch(longer(listSessions(workspace)), toDefect)),
      history: Effect.fn("Sessions.history")((workspace, session) =>
        Effect.map(Effect.catch(longer(historyOf({ workspace, session })), toDefect), Array.map(fromRow))
      ),
      isBusy: Effect.fn("Sessions.isBusy")((workspace, session) =>
        briefly(hasRunningTurn({ workspace, session })).pipe(
          Effect.map(({ isBusy }) => isBusy),
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
      ),
      rename: Effect.fn("Sessions.rename")(function* (workspace, session, title) {
        const event: SessionEvent = { event: "sessionTitleUpdated", data: { title, sessionId: session } }
        const { logged, renamed } = yield* briefly(renameSession({ workspace, session, title, event })).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
        yield* notices.appended(workspace, session, logged)
        return renamed
      }),
      reset: Effect.fn("Sessions.reset")(function* (workspace, session) {
        const event: SessionEvent = { event: "conversationReset", data: { sessionId: session } }
        const { logged, ran } = yield* longer(
          resetSession({ workspace, session, ending: cancelled(session), event })
        ).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
        yield* notices.appended(workspace, session, logged)
        return refs(workspace, session, ran)
      }),
      remove: Effect.fn("Sessions.remove")(function* (workspace, session) {
        const { logged, ran } = yield* longer(removeSession({ workspace, session, ending: cancelled(session) })).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
        yield* notices.appended(workspace, session, logged)
        return refs(workspace, session, ran)
      }),
      current: Effect.fn("Sessions.current")((workspace) =>
        Effect.map(Effect.catch(briefly(currentSession(workspace)), toDefect), ([found]) =>
          Option.fromUndefinedOr(found?.currentSession)
        )
      ),
      load: Effect.fn("Sessions.load")((workspace, session) =>
        briefly(loadSession({ workspace, session })).pipe(
          Effect.map(({ loaded }) => loaded),
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
      ),
      idle: Effect.fn("Sessions.idle")((workspace, millis, limit) =>
        Effect.map(
          Effect.catch(briefly(idleSessions({ workspace, millis, limit })), toDefect),
          Array.map(({ id }) => id)
        )
      ),
      searchMessages: Effect.fn("Sessions.searchMessages")((workspace, query) =>
        search
          .messages(workspace, query)
          .pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
      ),
      searchSessions: Effect.fn("Sessions.searchSessions")(function* (workspace, phrase, limit) {
        const searching = Effect.gen(function* () {
          const { found, total } = yield* search.sessions(workspace, phrase, limit)
          const rows = yield* sessionsById({ workspace, ids: found.map(({ first }) => first.session) })
          const byId = new Map(rows.map((row) => [row.id, row]))
          return {
            found: found.flatMap((match) => {
              const session = byId.get(match.first.session)
              return session === undefined ? [] : [{ session, ...match }]
            }),
            total
          }
        })
        return yield* searching.pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect))
      })
    })
  })
)
