import { Context, Effect, Layer, Option, Schema } from "effect"
import type { Message } from "../../domain/conversation/Message.ts"
import { defaultSession, type Session, SessionId } from "../../domain/conversation/Session.ts"
import { SessionNotFound, TooManySessions } from "../../domain/conversation/SessionErrors.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { CurrentAgent } from "../agent/CurrentAgent.ts"
import { Environment } from "../agent/Environment.ts"
import { plain } from "../llm/LlmCatalog.ts"
import { AgentYaml } from "../ports/files/AgentYaml.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { TurnRunner } from "../ports/runtime/TurnRunner.ts"
import { AllowedTools } from "../ports/storage/AllowedTools.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import { SessionLlms } from "../ports/storage/SessionLlms.ts"
import { type SessionRoom, Sessions } from "../ports/storage/Sessions.ts"
import { TurnJournal } from "../ports/storage/TurnJournal.ts"

/**
 * The sessions of a workspace (decisions 6). An id that cannot be one is not found, like another workspace's.
 *
 * The agent's configuration bounds how many there are: those that were active within `sessionTTL` are at most
 * `maxSessions`. One that was idle for longer takes no room, and stays with its history until it is deleted.
 */
export class SessionsOfWorkspace extends Context.Service<
  SessionsOfWorkspace,
  {
    /** The latest activity first. */
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Session>>
    /** The session, made unless it is there; without an id a new one. Messages make theirs by this too. */
    readonly open: (
      workspace: OrganizationId,
      id: SessionId | undefined
    ) => Effect.Effect<{ readonly session: Session; readonly isNew: boolean }, TooManySessions>
    readonly find: (workspace: OrganizationId, id: string) => Effect.Effect<Session, SessionNotFound>
    /** Oldest first. `isBusy` while a turn runs. */
    readonly history: (
      workspace: OrganizationId,
      id: string
    ) => Effect.Effect<{ readonly history: ReadonlyArray<Message>; readonly isBusy: boolean }, SessionNotFound>
    readonly rename: (workspace: OrganizationId, id: string, title: string) => Effect.Effect<Session, SessionNotFound>
    /** With its history, its blobs, its choice of a model and the tools allowed in it. What runs in it ends. */
    readonly remove: (workspace: OrganizationId, id: string) => Effect.Effect<void, SessionNotFound>
    /** Forgets the messages of a session and their blobs. What runs in it or waits ends. None is made for it. */
    readonly reset: (workspace: OrganizationId, id: SessionId) => Effect.Effect<void>
    /** The one that was loaded last, on whatever replica; while there is none, the one of messages that name none. */
    readonly current: (workspace: OrganizationId) => Effect.Effect<SessionId>
    readonly load: (workspace: OrganizationId, id: string) => Effect.Effect<void, SessionNotFound>
    /** Asks the turn that runs to end; false if none does. Those that wait go on waiting. */
    readonly cancel: (workspace: OrganizationId, id: string) => Effect.Effect<boolean, SessionNotFound>
  }
>()("gateway/conversation/SessionsOfWorkspace") {
  static readonly layer = Layer.effect(
    SessionsOfWorkspace,
    Effect.gen(function* () {
      const sessions = yield* Sessions
      const journal = yield* TurnJournal
      const runner = yield* TurnRunner
      const blobs = yield* Blobs
      const llms = yield* SessionLlms
      const allowed = yield* AllowedTools
      const ids = yield* Ids
      const agents = yield* CurrentAgent
      const environment = yield* Environment
      const yaml = yield* AgentYaml

      const found = Effect.fnUntraced(function* (workspace: OrganizationId, given: string) {
        const id = yield* idOf(given)
        const session = yield* sessions.find(workspace, id)
        return yield* Option.match(session, {
          onNone: () => Effect.fail(new SessionNotFound({ id })),
          onSome: Effect.succeed
        })
      })

      /** Those of the agent's file, which need not run; the usual ones while it has mistakes. */
      const roomOf = (workspace: OrganizationId): Effect.Effect<SessionRoom> =>
        Effect.gen(function* () {
          const { text } = yield* agents.file(workspace)
          const { valid } = yaml.read(text, plain(yield* environment.variables(workspace)))
          const configured = valid?.config.sessions
          return configured === undefined ? usualRoom : { most: configured.maxSessions, millis: configured.sessionTTL }
        }).pipe(Effect.catchTag("NoCurrentAgent", () => Effect.succeed(usualRoom)))

      const open = Effect.fn("SessionsOfWorkspace.open")(function* (
        workspace: OrganizationId,
        given: SessionId | undefined
      ) {
        if (given !== undefined) {
          const known = yield* sessions.find(workspace, given)
          if (Option.isSome(known)) return { session: known.value, isNew: false }
        }
        const room = yield* roomOf(workspace)
        const opened = yield* sessions.openWithin(workspace, given ?? SessionId.make(yield* ids.next), room)
        if (Option.isNone(opened)) return yield* new TooManySessions(room)
        return opened.value
      })

      const wakeAll = (turns: ReadonlyArray<TurnRef>) => Effect.forEach(turns, runner.wake, { discard: true })

      const remove = Effect.fn("SessionsOfWorkspace.remove")(function* (workspace: OrganizationId, given: string) {
        const id = yield* idOf(given)
        const ran = yield* sessions.remove(workspace, id)
        // Also of one that is not there: whoever removed it may have died before this.
        yield* wakeAll(Option.getOrElse(ran, () => []))
        yield* blobs.release(workspace, blobOwner(id))
        yield* llms.remove(workspace, id)
        yield* allowed.forgetSession(workspace, id)
        if (Option.isNone(ran)) return yield* new SessionNotFound({ id })
      })

      const reset = Effect.fn("SessionsOfWorkspace.reset")(function* (workspace: OrganizationId, id: SessionId) {
        const ran = yield* sessions.reset(workspace, id)
        yield* wakeAll(Option.getOrElse(ran, () => []))
        yield* blobs.release(workspace, blobOwner(id))
      })

      const cancel = Effect.fn("SessionsOfWorkspace.cancel")(function* (workspace: OrganizationId, given: string) {
        const { id } = yield* found(workspace, given)
        const running = yield* journal.cancel(workspace, id)
        yield* wakeAll(Option.toArray(running))
        return Option.isSome(running)
      })

      return SessionsOfWorkspace.of({
        list: Effect.fn("SessionsOfWorkspace.list")(sessions.list),
        open,
        find: Effect.fn("SessionsOfWorkspace.find")(found),
        history: Effect.fn("SessionsOfWorkspace.history")(function* (workspace, given) {
          const { id } = yield* found(workspace, given)
          const history = yield* sessions.history(workspace, id)
          return { history, isBusy: yield* sessions.isBusy(workspace, id) }
        }),
        rename: Effect.fn("SessionsOfWorkspace.rename")(function* (workspace, given, title) {
          const id = yield* idOf(given)
          if (!(yield* sessions.rename(workspace, id, title))) return yield* new SessionNotFound({ id })
          return yield* found(workspace, id)
        }),
        remove,
        reset,
        current: Effect.fn("SessionsOfWorkspace.current")((workspace) =>
          Effect.map(
            sessions.current(workspace),
            Option.getOrElse(() => defaultSession)
          )
        ),
        load: Effect.fn("SessionsOfWorkspace.load")(function* (workspace, given) {
          const id = yield* idOf(given)
          if (!(yield* sessions.load(workspace, id))) return yield* new SessionNotFound({ id })
        }),
        cancel
      })
    })
  )
}

/** The defaults of an agent's configuration (decisions 4). */
const usualRoom: SessionRoom = { most: 100, millis: 3_600_000 }

/** Who keeps the blobs of a session's messages. */
export const blobOwner = (session: SessionId): string => `session:${session}`

const isId = Schema.is(SessionId)

const idOf = (given: string): Effect.Effect<SessionId, SessionNotFound> =>
  isId(given) ? Effect.succeed(given) : Effect.fail(new SessionNotFound({ id: given }))
