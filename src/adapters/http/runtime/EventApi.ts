import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { messageError } from "./envelopes/MessageEnvelope.ts"

/** The number of an event: digits. */
const EventNumber = Schema.String.check(
  Schema.isPattern(/^\d{1,15}$/, { expected: "the number of an event, 0 or greater" })
)

/** What happens in a session, for those who speak no WebSocket (decisions 6). */
export const EventApi = HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("listenToSession", "/api/sessions/:id/events", {
    params: { id: Schema.String },
    query: {
      after: Schema.optionalKey(
        EventNumber.pipe(
          Schema.annotateKey({
            description: "As the header `Last-Event-ID`, for the first request of a client that cannot set it."
          })
        )
      )
    },
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" })),
    error: [
      messageError(400, "The header `Last-Event-ID`, or `after`, is not the number of an event."),
      messageError(404, "No session of the workspace has this id.")
    ]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "listenToSession",
      summary: "the events of a session as they happen",
      description:
        "Server-sent events: `event` is the name of the WebSocket's event, `data` its data, `id` its number. With " +
        "`Last-Event-ID` those with greater numbers come first; without it only what happens from now on. The stream " +
        "ends when the service stops, the key is revoked, or too much is not read: connect again."
    })
  )
)
