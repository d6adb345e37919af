import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import { IdempotencyKey } from "../../../domain/completion/IdempotencyKey.ts"
import { KeyRequired } from "../KeyRequired.ts"
import { documentedErrors } from "./GatewayEnvelope.ts"

const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** The usage object of section 2.3. `cost` is in USD. */
export const UsageWire = Schema.Struct({
  prompt_tokens: NonNegativeInt,
  completion_tokens: NonNegativeInt,
  total_tokens: NonNegativeInt,
  cost: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  completion_tokens_details: Schema.optionalKey(Schema.Struct({ reasoning_tokens: NonNegativeInt })),
  prompt_tokens_details: Schema.optionalKey(
    Schema.Struct({ cached_tokens: NonNegativeInt, cache_write_tokens: Schema.optionalKey(NonNegativeInt) })
  )
})
export type UsageWire = typeof UsageWire.Type

export const FinishReasonWire = Schema.NullOr(Schema.Literals(["content_filter", "length", "stop", "tool_calls"]))

export const ToolCallWire = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String }),
  index: Schema.optionalKey(NonNegativeInt)
})

/** Section 2.3; `refusal` beside it, as the vendors have it. */
export const ChatCompletionWire = Schema.Struct({
  id: Schema.NonEmptyString,
  object: Schema.Literal("chat.completion"),
  created: NonNegativeInt,
  model: Schema.NonEmptyString,
  service_tier: Schema.optionalKey(Schema.Literals(["default", "priority"])),
  choices: Schema.Array(
    Schema.Struct({
      index: NonNegativeInt,
      finish_reason: FinishReasonWire,
      message: Schema.Struct({
        role: Schema.Literal("assistant"),
        content: Schema.NullOr(Schema.String),
        refusal: Schema.optionalKey(Schema.String),
        reasoning: Schema.optionalKey(Schema.String),
        reasoning_content: Schema.optionalKey(Schema.String),
        tool_calls: Schema.optionalKey(Schema.Array(ToolCallWire))
      })
    })
  ).check(Schema.isMinLength(1)),
  usage: UsageWire
}).annotate({ identifier: "ChatCompletion" })
export type ChatCompletionWire = typeof ChatCompletionWire.Type

export const ChatApi = HttpApiGroup.make("chat")
  .add(
    HttpApiEndpoint.post("createChatCompletion", "/v1/chat/completions", {
      headers: {
        "Idempotency-Key": Schema.optionalKey(
          IdempotencyKey.annotate({
            description:
              "Names this request, so that it is answered once however often it is sent: for 24 hours the same key " +
              "with the same body gets the stored answer again, with the header Idempotent-Replayed, and is not " +
              "charged. While the first still runs: 409, retryable. With another body: 409, not retryable. A request " +
              "that failed frees its key. Answers over 4 MiB are not stored."
          })
        )
      },
      payload: ChatRequest,
      success: [ChatCompletionWire, Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))],
      error: documentedErrors
    }).annotateMerge(OpenApi.annotations({ identifier: "createChatCompletion", summary: "chat completion" }))
  )
  .middleware(KeyRequired)
