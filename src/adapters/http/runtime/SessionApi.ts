import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Message } from "../../../domain/conversation/Message.ts"
import { Session, SessionId, SessionTitle } from "../../../domain/conversation/Session.ts"
import { bodyMayBeAbsent } from "./Described.ts"
import { BodyMayBeAbsent } from "./envelopes/Envelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

const Id = { id: Schema.String }

const unknownSession = messageError(404, "No session of the workspace has this id.")

const tooLarge = messageError(413, "The body is larger than 1 MiB.")

const One = Schema.Struct({ session: Session })

/** Sessions (decisions 6). They are listed the latest activity first. */
export const SessionApi = HttpApiGroup.make("sessions").add(
  HttpApiEndpoint.get("listSessions", "/api/sessions", {
    success: Schema.Struct({ sessions: Schema.Array(Session) })
  }).annotateMerge(OpenApi.annotations({ identifier: "listSessions", summary: "list sessions" })),
  HttpApiEndpoint.post("openSession", "/api/sessions", {
    payload: Schema.Struct({
      sessionId: Schema.optionalKey(
        SessionId.pipe(Schema.annotateKey({ description: "Without it a new session gets an id of the service." }))
      )
    }),
    success: [
      One.annotate({ description: "The session, made now." }).pipe(HttpApiSchema.status(201)),
      One.annotate({ description: "The session, which was there." })
    ],
    error: [messageError(400, "The id cannot be one, or the agent takes no more sessions."), tooLarge]
  })
    .annotateMerge(
      OpenApi.annotations({
        identifier: "openSession",
        summary: "create a session",
        description:
          "The agent's `sessions.maxSessions` bounds how many sessions were active within `sessions.sessionTTL`. Idle " +
          "ones take no room and keep their history. The body may be absent.",
        transform: bodyMayBeAbsent
      })
    )
    .annotate(BodyMayBeAbsent, true),
  HttpApiEndpoint.get("getCurrentSession", "/api/sessions/current", {
    success: Schema.Struct({ currentSessionId: SessionId })
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "getCurrentSession",
      summary: "the session that was loaded last",
      description: "`default`, the session of messages that name none, while none was loaded."
    })
  ),
  HttpApiEndpoint.get("getSession", "/api/sessions/:id", {
    params: Id,
    success: One,
    error: [unknownSession]
  }).annotateMerge(OpenApi.annotations({ identifier: "getSession", summary: "one session" })),
  HttpApiEndpoint.get("getSessionHistory", "/api/sessions/:id/history", {
    params: Id,
    success: Schema.Struct({
      history: Schema.Array(Message),
      isBusy: Schema.Boolean.annotate({ description: "Whether the agent is at work in this session." })
    }),
    error: [unknownSession]
  }).annotateMerge(
    OpenApi.annotations({ identifier: "getSessionHistory", summary: "the messages of a session, oldest first" })
  ),
  HttpApiEndpoint.patch("renameSession", "/api/sessions/:id", {
    params: Id,
    payload: Schema.Struct({ title: SessionTitle }),
    success: One,
    error: [messageError(400, "The title does not have 1 to 120 characters."), unknownSession, tooLarge]
  }).annotateMerge(OpenApi.annotations({ identifier: "renameSession", summary: "name a session" })),
  HttpApiEndpoint.delete("deleteSession", "/api/sessions/:id", {
    params: Id,
    success: Schema.Struct({ status: Schema.Literal("deleted"), sessionId: Schema.String }),
    error: [unknownSession]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "deleteSession",
      summary: "delete a session",
      description: "With its history, its events, its attachments and its choice of a model. What runs in it ends."
    })
  ),
  HttpApiEndpoint.post("loadSession", "/api/sessions/:id/load", {
    params: Id,
    success: Schema.Struct({
      status: Schema.Literal("loaded"),
      sessionId: Schema.String,
      currentSession: Schema.String
    }),
    error: [unknownSession]
  }).annotateMerge(OpenApi.annotations({ identifier: "loadSession", summary: "make a session the current one" })),
  HttpApiEndpoint.post("cancelSession", "/api/sessions/:id/cancel", {
    params: Id,
    success: Schema.Struct({
      cancelled: Schema.Boolean.annotate({ description: "Whether there was something to cancel." }),
      sessionId: Schema.String
    }),
    error: [unknownSession]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "cancelSession",
      summary: "cancel what runs in a session",
      description: "The answer that is being made ends with an `error` of code `cancelled`; queued messages stay."
    })
  )
)
