import { Clock, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { type ChatCall, CompleteChat } from "../../../application/completion/CompleteChat.ts"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import { requestIssues } from "../../../domain/completion/RequestIssues.ts"
import * as JsonBody from "../edge/JsonBody.ts"
import { type Answer, completionToWire } from "./ChatWire.ts"
import { EventStreams, type Recorder } from "./EventStreams.ts"
import type { Admitted, Handler } from "./Gate.ts"
import { idempotency, keyed, recorded } from "./Idempotency.ts"
import { outletOf } from "./Outlet.ts"

type Completed = Effect.Success<ReturnType<CompleteChat["Service"]["complete"]>>
type Events = Effect.Success<ReturnType<CompleteChat["Service"]["stream"]>>

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

const toWire = (answer: Answer, { completion, ...charged }: Completed) => completionToWire(answer, completion, charged)

export const ChatHandlers = Effect.gen(function* () {
  const chat = yield* CompleteChat
  const streams = yield* EventStreams
  const ids = yield* Ids
  const answerOnce = yield* idempotency

  const respond = (events: Events, call: ChatCall, answer: Answer, { request, state }: Admitted, recorder?: Recorder) =>
    streams.respond(
      events,
      answer,
      call.request.stream_options?.include_usage === true,
      outletOf(request),
      state,
      recorder
    )

  const createChatCompletion: Handler = Effect.fnUntraced(function* (admitted) {
    const { caller, policy, source, state } = admitted
    const header = source.headers["idempotency-key"]
    const key = header === undefined ? undefined : yield* keyed(header)
    const request = yield* decode(yield* JsonBody.read(bodyLimit, admitted, key?.body))
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
    if (key !== undefined) {
      return yield* answerOnce(key, admitted, request.stream === true, (recording) =>
        request.stream === true
          ? Effect.flatMap(chat.stream(call), (events) => respond(events, call, answer, admitted, recording))
          : Effect.flatMap(chat.complete(call), (completed) => recorded(recording, toWire(answer, completed)))
      )
    }
    if (request.stream === true) return yield* respond(yield* chat.stream(call), call, answer, admitted)
    return HttpServerResponse.jsonUnsafe(toWire(answer, yield* chat.complete(call)))
  })
  return createChatCompletion
})
