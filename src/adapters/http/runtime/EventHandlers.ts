import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Deferred, Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { ServerResponse } from "node:http"
import { Listen, type Listener } from "../../../application/conversation/Listen.ts"
import { SessionsOfWorkspace } from "../../../application/conversation/SessionsOfWorkspace.ts"
import type { NumberedEvent } from "../../../domain/conversation/SessionEvent.ts"
import { credential } from "../edge/Credential.ts"
import { Drain } from "../edge/Drain.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { streamHeaders } from "../gateway/EventStreams.ts"
import { Admission } from "./Admission.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

/** After so many seconds of silence a comment shows proxies and clients that the stream lives. */
const silence = 15

/** How often a stream's key is looked at: a revocation ends it within 5 s (decisions 1), 2 of which a key is remembered. */
const keysEvery = "2 seconds"

export const EventHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "events",
  Effect.fnUntraced(function* (handlers) {
    const listen = yield* Listen
    const sessions = yield* SessionsOfWorkspace
    const admission = yield* Admission
    const drain = yield* Drain

    /** Done when the key that the stream was asked for with is valid no more. A store that is away says nothing of it. */
    const revoked = (key: string): Effect.Effect<void> =>
      admission.workspaceOf(key).pipe(
        Effect.as(false),
        Effect.catchTags({ InvalidApiKey: () => Effect.succeed(true) }),
        Effect.catchCause((cause) => (Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeed(false))),
        Effect.delay(keysEvery),
        Effect.repeat({ until: (isRevoked) => isRevoked }),
        Effect.asVoid
      )

    const handle = Effect.fnUntraced(
      function* (id: string, after: string | undefined, request: HttpServerRequest.HttpServerRequest) {
        const workspace = yield* CurrentWorkspace
        const state = yield* CurrentRequest
        const last = request.headers["last-event-id"] ?? after
        if (last !== undefined && !/^\d{1,15}$/.test(last)) {
          return messageEnvelope(400, "Last-Event-ID: Expected the number of an event, 0 or greater.")
        }
        const session = yield* sessions.find(workspace.id, id)
        drain.dismiss(yield* Effect.fiber)
        const reader = new Reader(responseOf(request))
        reader.begin({ ...streamHeaders, ...state.headers, ...(drain.isClosing() ? { connection: "close" } : {}) })
        const listening = listen.open(workspace.id, reader)
        yield* Effect.gen(function* () {
          reader.follows(yield* listening.subscribe(session.id, last === undefined ? undefined : Number(last)))
          yield* Effect.raceAllFirst([
            reader.keptAlive,
            revoked(credential(request.headers["authorization"])),
            Deferred.await(drain.deadline)
          ])
        }).pipe(Effect.ensuring(Effect.sync(() => listening.stop())))
        reader.end()
        return answered
      },
      Effect.catchTags({ SessionNotFound: ({ message }) => Effect.succeed(messageEnvelope(404, message)) })
    )

    return handlers.handle("listenToSession", ({ params: { id }, query: { after }, request }) =>
      handle(id, after, request)
    )
  })
)

/** The head and the body are written: nothing is left for the framework to send. */
const answered = HttpServerResponse.empty({ status: 200 })

/** Where the answer to a request is written. The service speaks HTTP/1.1 only. */
const responseOf = (request: HttpServerRequest.HttpServerRequest): ServerResponse => {
  const response = NodeHttpServerRequest.toServerResponse(request)
  if (response instanceof ServerResponse) return response
  throw new TypeError("an event stream needs a response of HTTP/1.1")
}

/** Bytes that a client has not read yet, beyond which it is no longer waited for. */
const mostUnread = 4 * 1024 * 1024

/** Bytes that a client may have unread while it is told of more that it has asked for. */
const someUnread = 256 * 1024

/** A client that takes nothing of what it asked for, for so long, will not. */
const patience = "30 seconds"

/** A client of an event stream. One that does not read is cut off: it connects again, and has missed nothing. */
class Reader implements Listener {
  readonly #response: ServerResponse
  /** For so many seconds, about. */
  #silent = 0

  constructor(response: ServerResponse) {
    this.#response = response
  }

  /** Sent with whatever comes first. */
  begin(headers: Record<string, string>): void {
    this.#response.writeHead(200, headers)
  }

  /**
   * Tells the client that nothing is missed from now on, and to come back a second after it lost the connection, with
   * this number if it has no later one. No blank line: this is no event.
   */
  follows(last: number): void {
    this.#response.write(`retry: 1000\nid: ${last}\n`)
  }

  told({ event, id }: NumberedEvent): void {
    this.#silent = 0
    this.#response.write(`id: ${id}\nevent: ${event.event}\ndata: ${JSON.stringify(event.data)}\n\n`)
    if (this.#response.writableLength > mostUnread) this.#response.destroy()
  }

  get room(): Effect.Effect<void> {
    return this.#hasRoom
      ? Effect.void
      : Effect.sleep("20 millis").pipe(
          Effect.repeat({ until: () => this.#hasRoom }),
          Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.sync(() => void this.#response.destroy()) }),
          Effect.asVoid
        )
  }

  get #hasRoom(): boolean {
    return this.#response.destroyed || this.#response.writableLength <= someUnread
  }

  /** Writes a comment whenever there was nothing else to write, for ever. */
  get keptAlive(): Effect.Effect<never> {
    return Effect.sync(() => {
      if (++this.#silent < silence) return
      this.#silent = 0
      // A reader with a full buffer needs no sign of life.
      if (!this.#response.writableNeedDrain) this.#response.write(": ping\n")
    }).pipe(Effect.delay("1 second"), Effect.forever)
  }

  end(): void {
    this.#response.end()
  }
}
