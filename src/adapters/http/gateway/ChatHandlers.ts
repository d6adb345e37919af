import { Clock, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { type ChatCall, CompleteChat } from "../../../application/completion/CompleteChat.ts"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import { requestIssues } from "../../../domain/completion/RequestIssues.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { type Answer, completionToWire } from "./ChatWire.ts"
import { EventStreams } from "./EventStreams.ts"
import { CurrentCaller } from "./Gate.ts"
import { GatewayApi } from "./GatewayApi.ts"
import { handled } from "./GatewayEnvelope.ts"

/** What a request body may weigh (decisions 2). */
const bodyLimit = 32 * 1024 * 1024

/**
 * A body up to so many bytes is told everything that is wrong with it, a longer one the first thing: a few megabytes of
 * nothing but mistakes would take seconds and gigabytes to describe.
 */
const describedWhole = 32 * 1024

const decode = ({ bytes, value }: JsonBody.JsonBody): Effect.Effect<ChatRequest, InvalidRequest> =>
  Effect.mapError(
    decodeUnknown(value, { onExcessProperty: "error", errors: bytes > describedWhole ? "first" : "all" }),
    (error) => new InvalidRequest({ issues: requestIssues(error, value) })
  )

const decodeUnknown = Schema.decodeUnknownEffect(ChatRequest)

export const ChatHandlers = HttpApiBuilder.group(
  GatewayApi,
  "chat",
  Effect.fn(function* (handlers) {
    const chat = yield* CompleteChat
    const streams = yield* EventStreams
    const ids = yield* Ids

    /** Read raw: the framework's own reading has no limit and takes broken UTF-8. */
    const create = Effect.gen(function* () {
      const state = yield* CurrentRequest
      const caller = yield* CurrentCaller
      const body = yield* JsonBody.read(bodyLimit)
      const request = yield* decode(body)
      state.model = request.model
      const answer: Answer = {
        id: `chatcmpl-${yield* ids.next}`,
        created: Math.floor((yield* Clock.currentTimeMillis) / 1000),
        model: request.model,
        includeReasoning: request.include_reasoning !== false
      }
      const call: ChatCall = { caller, request, requestId: state.id }
      return request.stream === true
        ? yield* streams.respond(
            yield* chat.stream(call),
            answer,
            request.stream_options?.include_usage === true,
            state.id
          )
        : yield* whole(call, answer)
    }).pipe(handled)

    const whole = (call: ChatCall, answer: Answer) =>
      Effect.map(chat.complete(call), ({ completion, ...charged }) =>
        HttpServerResponse.jsonUnsafe(completionToWire(answer, completion, charged))
      )

    return handlers.handleRaw("createChatCompletion", () => create)
  })
)
