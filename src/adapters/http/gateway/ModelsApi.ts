import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { AccessMethod } from "../../../domain/catalog/AccessMethod.ts"
import { KeyRequired } from "../KeyRequired.ts"
import { documentedErrors } from "./GatewayEnvelope.ts"

const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const PositiveInt = Schema.Int.check(Schema.isGreaterThan(0))

/** USD per million tokens. */
const Price = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const prices = {
  inputPerM: Price,
  outputPerM: Price,
  cacheReadPerM: Schema.NullOr(Price),
  cacheWritePerM: Schema.NullOr(Price)
}

/** Section 2.1. */
export const ModelWire = Schema.Struct({
  id: Schema.NonEmptyString,
  object: Schema.Literal("model"),
  owned_by: Schema.Literal("service"),
  created: NonNegativeInt,
  access_methods: Schema.Array(AccessMethod).check(Schema.isMinLength(1)),
  capabilities: Schema.Struct({
    input: Schema.Array(Schema.String),
    output: Schema.Array(Schema.String),
    maxInputTokens: PositiveInt,
    reasoning: Schema.Boolean,
    supportsToolCall: Schema.Boolean
  }),
  pricing: Schema.NullOr(
    Schema.Struct({
      ...prices,
      reasoningPerM: Schema.NullOr(Price),
      contextOver200kPerM: Schema.NullOr(Schema.Struct({ inputTokensAbove: PositiveInt, ...prices }))
    })
  )
}).annotate({ identifier: "Model" })
export type ModelWire = typeof ModelWire.Type

export const ModelList = Schema.Struct({ object: Schema.Literal("list"), data: Schema.Array(ModelWire) })

export const ModelsApi = HttpApiGroup.make("models")
  .add(
    HttpApiEndpoint.get("listModels", "/v1/models", { success: ModelList, error: documentedErrors }).annotateMerge(
      OpenApi.annotations({ identifier: "listModels", summary: "list models" })
    )
  )
  .middleware(KeyRequired)
