import { Schema } from "effect"
import { AccessMethod } from "../catalog/AccessMethod.ts"
import { ChatMessage } from "./ChatMessage.ts"

const PositiveInt = Schema.Int.check(Schema.isGreaterThan(0))

export const Tool = Schema.Struct({
  type: Schema.Literal("function"),
  function: Schema.Struct({
    name: Schema.NonEmptyString,
    description: Schema.optionalKey(Schema.String),
    parameters: Schema.optionalKey(Schema.JsonObject)
  })
})
export type Tool = typeof Tool.Type

export const ToolChoice = Schema.Union([
  Schema.Literals(["auto", "none", "required"]),
  Schema.Struct({ type: Schema.Literal("function"), function: Schema.Struct({ name: Schema.NonEmptyString }) })
])
export type ToolChoice = typeof ToolChoice.Type

export const ResponseFormat = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text") }),
  Schema.Struct({ type: Schema.Literal("json_object") }),
  Schema.Struct({
    type: Schema.Literal("json_schema"),
    json_schema: Schema.Struct({
      name: Schema.NonEmptyString,
      schema: Schema.JsonObject,
      description: Schema.optionalKey(Schema.String),
      strict: Schema.optionalKey(Schema.Literal(true))
    })
  })
])
export type ResponseFormat = typeof ResponseFormat.Type

/** What a caller asks of a model: the request body of section 4.1, field by field. Unknown fields are errors. */
export const ChatRequest = Schema.Struct({
  model: Schema.NonEmptyString,
  messages: Schema.Array(ChatMessage).check(Schema.isMinLength(1)),
  access_method: Schema.optionalKey(AccessMethod),
  stream: Schema.optionalKey(Schema.Boolean),
  stream_options: Schema.optionalKey(Schema.Struct({ include_usage: Schema.optionalKey(Schema.Boolean) })),
  temperature: Schema.optionalKey(Schema.Finite),
  top_p: Schema.optionalKey(Schema.Finite),
  frequency_penalty: Schema.optionalKey(Schema.Finite),
  presence_penalty: Schema.optionalKey(Schema.Finite),
  max_tokens: Schema.optionalKey(PositiveInt),
  max_completion_tokens: Schema.optionalKey(PositiveInt),
  seed: Schema.optionalKey(Schema.Int),
  stop: Schema.optionalKey(
    Schema.Union([Schema.NonEmptyString, Schema.Array(Schema.NonEmptyString).check(Schema.isMinLength(1))])
  ),
  service_tier: Schema.optionalKey(Schema.Literals(["auto", "default", "fast", "priority"])),
  verbosity: Schema.optionalKey(Schema.Literals(["low", "medium", "high"])),
  include_reasoning: Schema.optionalKey(Schema.Boolean),
  reasoning: Schema.optionalKey(Schema.JsonObject),
  reasoning_effort: Schema.optionalKey(Schema.NonEmptyString),
  usage: Schema.optionalKey(Schema.JsonObject),
  prompt_cache_key: Schema.optionalKey(Schema.String),
  user: Schema.optionalKey(Schema.String),
  parallel_tool_calls: Schema.optionalKey(Schema.Boolean),
  tools: Schema.optionalKey(Schema.Array(Tool)),
  tool_choice: Schema.optionalKey(ToolChoice),
  response_format: Schema.optionalKey(ResponseFormat)
}).check(
  Schema.makeFilter(({ max_completion_tokens, max_tokens }) =>
    max_tokens === undefined || max_completion_tokens === undefined || max_tokens === max_completion_tokens
      ? undefined
      : {
          path: ["max_completion_tokens"],
          issue: "Expected the same value as max_tokens, or only one of the two"
        }
  )
)
export type ChatRequest = typeof ChatRequest.Type

/** The most output tokens that the caller wants, if it said so. */
export const outputLimit = (request: Pick<ChatRequest, "max_completion_tokens" | "max_tokens">): number | undefined =>
  request.max_completion_tokens ?? request.max_tokens
