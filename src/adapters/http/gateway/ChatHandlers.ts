import { Clock, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { type ChatCall, CompleteChat } from "../../../application/completion/CompleteChat.ts"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import { issuesOf } from "../../../domain/shared/Issue.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { CurrentRequest } from "../edge/RequestState.ts"
import { type Answer, completionToWire } from "./ChatWire.ts"
import { EventStreams } from "./EventStreams.ts"
import { CurrentCaller } from "./Gate.ts"
import { GatewayApi } from "./GatewayApi.ts"
import { handled } from "./GatewayEnvelope.ts"

/** What a request body may weigh (decisions 2). */
const bodyLimit = 32 * 1024 * 1024

const decode = Schema.decodeUnknownEffect(ChatRequest, { onExcessProperty: "error", errors: "all" })

export const ChatHandlers = HttpApiBuilder.group(
  GatewayApi,
  "chat",
  Effect.fn(function*(handlers) {
    const chat = yield* CompleteChat
    const streams = yield* EventStreams
    const ids = yield* Ids

    /** Read raw: the framework's own reading has no limit and takes broken UTF-8. */
    const create = Effect.gen(function*() {
      const state = yield* CurrentRequest
      const caller = yield* CurrentCaller
      const body = yield* JsonBody.read(bodyLimit)
      const request = yield* Effect.mapError(decode(body), (error) => new InvalidRequest({ issues: issuesOf(error) }))
      state.model = request.model
      const answer: Answer = {
        id: `chatcmpl-${yield* ids.next}`,
        created: Math.floor((yield* Clock.currentTimeMillis) / 1000),
        model: request.model,
        includeReasoning: request.include_reasoning !== false
      }
      const call: ChatCall = { caller, request, requestId: state.id }
      return request.stream === true
        ? yield* streams.respond(yield* chat.stream(call), answer, request.stream_options?.include_usage === true, state.id)
        : yield* whole(call, answer)
    }).pipe(handled)

    const whole = (call: ChatCall, answer: Answer) =>
      Effect.map(chat.complete(call), ({ completion, ...charged }) =>
        HttpServerResponse.jsonUnsafe(completionToWire(answer, completion, charged)))

    return handlers.handleRaw("createChatCompletion", () => create)
  })
)

