import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { SessionsOfWorkspace } from "../../../application/conversation/SessionsOfWorkspace.ts"
import type { Session } from "../../../domain/conversation/Session.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const SessionHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* SessionsOfWorkspace

    return handlers
      .handle("listSessions", () =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.list(id)).pipe(Effect.map((list) => ({ sessions: list })))
      )
      .handle("openSession", ({ payload: { sessionId } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.open(id, sessionId)).pipe(
          Effect.map(({ isNew, session }) =>
            HttpServerResponse.jsonUnsafe(one(session), { status: isNew ? 201 : 200 })
          ),
          Effect.catchTags({ TooManySessions: refuse(400) })
        )
      )
      .handle("getCurrentSession", () =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.current(id)).pipe(
          Effect.map((currentSessionId) => ({ currentSessionId }))
        )
      )
      .handle("getSession", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.find(id, params.id)).pipe(
          Effect.map(one),
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
      .handle("getSessionHistory", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.history(id, params.id)).pipe(
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
      .handle("renameSession", ({ params, payload: { title } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.rename(id, params.id, title)).pipe(
          Effect.map(one),
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
      .handle("deleteSession", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.remove(id, params.id)).pipe(
          Effect.as({ status: "deleted" as const, sessionId: params.id }),
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
      .handle("loadSession", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.load(id, params.id)).pipe(
          Effect.as({ status: "loaded" as const, sessionId: params.id, currentSession: params.id }),
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
      .handle("cancelSession", ({ params }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.cancel(id, params.id)).pipe(
          Effect.map((cancelled) => ({ cancelled, sessionId: params.id })),
          Effect.catchTags({ SessionNotFound: refuse(404) })
        )
      )
  })
)

const one = (session: Session) => ({ session })

/** `{error}` (section 7.2). */
const refuse =
  (status: number) =>
  ({ message }: { readonly message: string }) =>
    Effect.succeed(messageEnvelope(status, message))
