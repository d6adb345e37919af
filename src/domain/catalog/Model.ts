import { Schema } from "effect"
import { ModelId } from "../shared/Ids.ts"
import { AccessMethod } from "./AccessMethod.ts"
import { Pricing } from "./Pricing.ts"

export const Modality = Schema.Literals(["text", "image", "file", "audio", "video"])
export type Modality = typeof Modality.Type

const PositiveInt = Schema.Int.check(Schema.isGreaterThan(0))

/** A language model that this deployment can serve. `created` is epoch seconds. */
export const Model = Schema.Struct({
  id: ModelId,
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  created: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  accessMethods: Schema.NonEmptyArray(AccessMethod),
  input: Schema.Array(Modality),
  output: Schema.Array(Modality),
  maxInputTokens: PositiveInt,
  maxOutputTokens: PositiveInt,
  reasoning: Schema.Boolean,
  supportsToolCall: Schema.Boolean,
  /** Null: the operator gave no price, so nothing is charged. */
  pricing: Schema.NullOr(Pricing)
})
export type Model = typeof Model.Type
