import { Schema } from "effect"

/**
 * What the service may answer, written from sections 2.1 to 2.4 of the contract and decisions 2, and not from the
 * service's own schemas. Strict: a field that stands there and not here is an error.
 */
const strict = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.decodeUnknownSync(schema, { onExcessProperty: "error" })

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Positive = Schema.Int.check(Schema.isGreaterThan(0))
const NotNegative = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
const Utc = Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/))
const optional = Schema.optionalKey

const AccessMethod = Schema.Literals(["vendor-a-api-key", "service", "vendor-b-api-key", "vendor-b-chat"])

/** Section 2.1. */
export const modelList = strict(
  Schema.Struct({
    object: Schema.Literal("list"),
    data: Schema.Array(
      Schema.Struct({
        id: Schema.NonEmptyString,
        object: Schema.Literal("model"),
        owned_by: Schema.Literal("service"),
        created: Count,
        access_methods: Schema.NonEmptyArray(AccessMethod),
        capabilities: Schema.Struct({
          input: Schema.Array(Schema.String),
          output: Schema.Array(Schema.String),
          maxInputTokens: Positive,
          reasoning: Schema.Boolean,
          supportsToolCall: Schema.Boolean
        }),
        pricing: Schema.NullOr(
          Schema.Struct({
            inputPerM: NotNegative,
            outputPerM: NotNegative,
            cacheReadPerM: Schema.NullOr(NotNegative),
            cacheWritePerM: Schema.NullOr(NotNegative),
            reasoningPerM: Schema.NullOr(NotNegative),
            contextOver200kPerM: Schema.NullOr(
              Schema.Struct({
                inputTokensAbove: Positive,
                inputPerM: NotNegative,
                outputPerM: NotNegative,
                cacheReadPerM: Schema.NullOr(NotNegative),
                cacheWritePerM: Schema.NullOr(NotNegative)
              })
            )
          })
        )
      })
    )
  })
)

/** Section 2.2. */
export const billingSummary = strict(
  Schema.Struct({
    balance_usd: Schema.Finite,
    last_30_days: Schema.Struct({ since: Utc, total_cost_usd: Schema.Finite, total_usage_events: Count }),
    recent_model_usage: Schema.Array(
      Schema.Struct({
        cost_usd: Schema.Finite,
        input_tokens: Count,
        output_tokens: Count,
        model: Schema.String,
        timestamp: Utc
      })
    )
  })
)

const Usage = Schema.Struct({
  prompt_tokens: Count,
  completion_tokens: Count,
  total_tokens: Count,
  cost: optional(NotNegative),
  completion_tokens_details: optional(Schema.Struct({ reasoning_tokens: Count })),
  prompt_tokens_details: optional(Schema.Struct({ cached_tokens: Count, cache_write_tokens: optional(Count) }))
})
export type Usage = typeof Usage.Type

const FinishReason = Schema.NullOr(Schema.Literals(["content_filter", "length", "stop", "tool_calls"]))

const ServiceTier = Schema.Literals(["default", "priority"])

const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.NonEmptyString, arguments: Schema.String }),
  index: optional(Count)
})

const Message = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.NullOr(Schema.String),
  /** Not in the contract: the whole answer has the refusal where the vendors put it, as the chunks do. */
  refusal: optional(Schema.String),
  reasoning: optional(Schema.String),
  reasoning_content: optional(Schema.String),
  tool_calls: optional(Schema.Array(ToolCall))
})
export type Message = typeof Message.Type

/** Section 2.3. */
export const chatCompletion = strict(
  Schema.Struct({
    id: Schema.NonEmptyString,
    object: Schema.Literal("chat.completion"),
    created: Count,
    model: Schema.NonEmptyString,
    service_tier: optional(ServiceTier),
    choices: Schema.NonEmptyArray(Schema.Struct({ index: Count, finish_reason: FinishReason, message: Message })),
    usage: Usage
  })
)

const Failure = Schema.Struct({
  code: Schema.NonEmptyString,
  message: Schema.String,
  requestId: Schema.NonEmptyString,
  retryable: Schema.Boolean,
  details: optional(Schema.Json)
})

/** Section 2.4. */
export const envelope = strict(Schema.Struct({ error: Failure }))

export const issues = strict(
  Schema.Struct({
    issues: Schema.NonEmptyArray(Schema.Struct({ path: Schema.String, message: Schema.NonEmptyString }))
  })
)

const head = {
  id: Schema.NonEmptyString,
  object: Schema.Literal("chat.completion.chunk"),
  created: Count,
  model: Schema.NonEmptyString
}

const Chunk = Schema.Struct({
  ...head,
  service_tier: optional(ServiceTier),
  choices: Schema.Array(
    Schema.Struct({
      index: Count,
      delta: Schema.Struct({
        role: optional(Schema.Literal("assistant")),
        content: optional(Schema.String),
        reasoning: optional(Schema.String),
        reasoning_content: optional(Schema.String),
        refusal: optional(Schema.String),
        tool_calls: optional(
          Schema.NonEmptyArray(
            Schema.Struct({
              index: Count,
              id: optional(Schema.NonEmptyString),
              type: optional(Schema.Literal("function")),
              function: Schema.Struct({ name: optional(Schema.NonEmptyString), arguments: optional(Schema.String) })
            })
          )
        )
      }),
      finish_reason: FinishReason
    })
  ),
  usage: optional(Schema.NullOr(Usage))
})
export type Chunk = typeof Chunk.Type

/** A chunk of a stream (decisions 2). */
export const chunk = strict(Chunk)

/** The chunk that ends a stream that failed. */
export const errorChunk = strict(
  Schema.Struct({ ...head, error: Failure, choices: Schema.Tuple([]), usage: optional(Schema.Null) })
)
