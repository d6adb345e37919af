import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { longestText } from "../../../domain/conversation/Message.ts"
import { SessionId } from "../../../domain/conversation/Session.ts"
import { bodyMayBeAbsent } from "./Described.ts"
import { BodyLimit, BodyMayBeAbsent } from "./envelopes/Envelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

/** Bytes: an image and a file of 20 MB each, in base64, with the message. */
const largestMessage = 56 * 1024 * 1024

const Session = Schema.optionalKey(
  SessionId.pipe(Schema.annotateKey({ description: "Without it the session is `default`. A new one is made." }))
)

const fields = {
  message: Schema.String.check(Schema.isMaxLength(longestText)).pipe(
    Schema.annotateKey({ description: "May be empty when something is attached. `@<uri>` attaches a resource." })
  ),
  sessionId: Session,
  imageData: Schema.optionalKey(
    Schema.Struct({ base64: Schema.String, mimeType: Schema.String }).pipe(
      Schema.annotateKey({ description: "A PNG, JPEG, GIF or WebP of at most 20 MB." })
    )
  ),
  fileData: Schema.optionalKey(
    Schema.Struct({
      base64: Schema.String,
      mimeType: Schema.String,
      filename: Schema.optionalKey(Schema.String)
    }).pipe(Schema.annotateKey({ description: "`application/pdf`, `audio/mp3` or `audio/wav`, at most 20 MB." }))
  )
}

/** What both routes take (section 4.9). */
export const SentMessage = Schema.Struct(fields)

const Processing = Schema.Struct({ status: Schema.Literal("processing"), sessionId: SessionId }).pipe(
  HttpApiSchema.status(202)
)

const errors = [
  messageError(
    400,
    "The message has no content or over 1,000,000 characters, an attachment is not what it says it is or nothing that " +
      "the model takes, or the agent takes no more sessions."
  ),
  messageError(413, "The body is larger than 56 MiB.")
]

/** Conversation (section 4.9, decisions 6). Answers come over the WebSocket, or as server-sent events. */
export const MessageApi = HttpApiGroup.make("messages").add(
  HttpApiEndpoint.post("sendMessageSync", "/api/message-sync", {
    payload: SentMessage,
    success: Processing,
    error: errors
  })
    .annotateMerge(
      OpenApi.annotations({
        identifier: "sendMessageSync",
        summary: "send a message to the agent, for an answer without chunks",
        description: "Answers once the message is stored. From then on it is answered, whatever process dies."
      })
    )
    .annotate(BodyLimit, largestMessage),
  HttpApiEndpoint.post("sendMessage", "/api/message", {
    payload: Schema.Struct({
      ...fields,
      stream: Schema.optionalKey(
        Schema.Boolean.pipe(Schema.annotateKey({ description: "Whether listeners get chunks while the model speaks." }))
      )
    }),
    success: Processing,
    error: errors
  })
    .annotateMerge(
      OpenApi.annotations({
        identifier: "sendMessage",
        summary: "send a message to the agent",
        description: "Answers once the message is stored. From then on it is answered, whatever process dies."
      })
    )
    .annotate(BodyLimit, largestMessage),
  HttpApiEndpoint.post("resetConversation", "/api/reset", {
    payload: Schema.Struct({ sessionId: Session }),
    success: Schema.Struct({ status: Schema.Literal("reset initiated"), sessionId: SessionId }),
    error: [
      messageError(400, "The id cannot be one of a session."),
      messageError(413, "The body is larger than 1 MiB.")
    ]
  })
    .annotateMerge(
      OpenApi.annotations({
        identifier: "resetConversation",
        summary: "forget the messages of a session",
        description: "What runs or waits in it ends first, each with an `error` of code `cancelled`.",
        transform: bodyMayBeAbsent
      })
    )
    .annotate(BodyMayBeAbsent, true),
  HttpApiEndpoint.get("getGreeting", "/api/greeting", {
    success: Schema.Struct({ greeting: Schema.optionalKey(Schema.String) })
  }).annotateMerge(OpenApi.annotations({ identifier: "getGreeting", summary: "how the agent greets" }))
)
