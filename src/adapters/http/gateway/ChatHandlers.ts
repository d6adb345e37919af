import { Clock, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { type ChatCall, CompleteChat } from "../../../application/completion/CompleteChat.ts"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import { requestIssues } from "../../../domain/completion/RequestIssues.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { type Answer, completionToWire } from "./ChatWire.ts"
import { EventStreams, outletOf } from "./EventStreams.ts"
import type { Handler } from "./Gate.ts"

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

export const ChatHandlers = Effect.gen(function* () {
  const chat = yield* CompleteChat
  const streams = yield* EventStreams
  const ids = yield* Ids

  const createChatCompletion: Handler = Effect.fnUntraced(function* (admitted) {
    const { caller, policy, state } = admitted
    const request = yield* decode(yield* JsonBody.read(bodyLimit, admitted))
    state.model = request.model
    const answer: Answer = {
      id: `chatcmpl-${yield* ids.next}`,
      created: Math.floor((yield* Clock.currentTimeMillis) / 1000),
      model: request.model,
      includeReasoning: request.include_reasoning !== false
    }
    const call: ChatCall = {
      caller,
      request,
      requestId: state.id,
      rate: { policy, decided: (decision) => void (state.rate = decision) }
    }
    if (request.stream === true) {
      return yield* streams.respond(
        yield* chat.stream(call),
        answer,
        request.stream_options?.include_usage === true,
        outletOf(admitted.request),
        state
      )
    }
    const { completion, ...charged } = yield* chat.complete(call)
    return HttpServerResponse.jsonUnsafe(completionToWire(answer, completion, charged))
  })
  return createChatCompletion
})
