import { Effect, Schema, Struct } from "effect"
import { Modality, type Model } from "../../domain/catalog/Model.ts"
import { type Pricing, rateFromUsd } from "../../domain/catalog/Pricing.ts"
import { ModelId } from "../../domain/shared/Ids.ts"

const price = { message: "Expected a price in USD per million tokens, 0 or more" }

/** USD per million tokens, as price lists print it; at most 1 USD a token. */
const Price = Schema.Number.annotate(price).check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }, price))

const limit = { message: "Expected a whole number of tokens, 1 or more" }
const TokenLimit = Schema.Number.annotate(limit).check(Schema.isInt(limit), Schema.isGreaterThan(0, limit))

const seconds = { message: "Expected a time in whole seconds since 1970" }
const EpochSeconds = Schema.Number.annotate(seconds).check(
  Schema.isInt(seconds),
  Schema.isGreaterThanOrEqualTo(0, seconds)
)

const YesNo = Schema.Boolean.annotate({ message: "Expected true or false" })

const rates = {
  input: Price,
  output: Price,
  cache_read: Schema.optionalKey(Price),
  cache_write: Schema.optionalKey(Price)
}

const priceList = { message: "Expected a price list such as { input: 2.5, output: 10 }" }

/** What a model costs, in the form that people write. Only `input` and `output` must be there. */
export const PriceList = Schema.Struct({
  ...rates,
  reasoning: Schema.optionalKey(Price),
  context_over_200k: Schema.optionalKey(
    Schema.Struct({
      above: TokenLimit.pipe(Schema.withDecodingDefaultKey(Effect.succeed(200_000))),
      ...rates
    }).annotate(priceList)
  )
}).annotate(priceList)
export type PriceList = typeof PriceList.Type

export const pricingOf = ({ context_over_200k: tier, ...list }: PriceList): Pricing => ({
  ...ratesOf(list),
  reasoning: optionalRate(list.reasoning),
  longContext: tier === undefined ? null : { inputTokensAbove: tier.above, ...ratesOf(tier) }
})

const ratesOf = (list: Schema.Struct.Type<typeof rates>) => ({
  input: rateFromUsd(list.input),
  output: rateFromUsd(list.output),
  cacheRead: optionalRate(list.cache_read),
  cacheWrite: optionalRate(list.cache_write)
})

const optionalRate = (price: number | undefined): bigint | null => (price === undefined ? null : rateFromUsd(price))

const Modalities = Schema.Array(Modality)
  .annotate({ message: "Expected a list of modalities" })
  .check(
    Schema.isMinLength(1, { message: "Expected at least one modality" }),
    Schema.isUnique({ message: "Expected every modality once" })
  )

const id = { message: "Expected a model id in quotes: 1 to 200 visible ASCII characters without *" }

/** The id of a model. `*` is the wildcard of `hide`. */
export const CatalogId = Schema.String.annotate(id).check(Schema.isPattern(/^[!-)+-~]{1,200}$/, id))

/** What is to be said about a model, by the packaged data set and by the operator's file alike. */
export const modelFields = {
  name: Schema.NonEmptyString,
  description: Schema.NonEmptyString,
  max_input_tokens: TokenLimit,
  max_output_tokens: TokenLimit,
  input: Modalities,
  output: Modalities,
  reasoning: YesNo,
  tools: YesNo,
  created: EpochSeconds,
  pricing: PriceList
}

/** Any of the fields. */
export const SomeModelFields = Schema.Struct(modelFields).mapFields(Struct.map(Schema.optionalKey))

/** Enough to list and serve a model. Without `pricing` nothing is charged, without `created` its date is not known. */
export const ModelFields = Schema.Struct({
  ...modelFields,
  description: Schema.optionalKey(modelFields.description),
  created: Schema.optionalKey(modelFields.created),
  pricing: Schema.optionalKey(modelFields.pricing)
})
export type ModelFields = typeof ModelFields.Type

export const modelOf = (id: string, fields: ModelFields, accessMethods: Model["accessMethods"]): Model => ({
  id: ModelId.make(id),
  name: fields.name,
  ...(fields.description === undefined ? {} : { description: fields.description }),
  created: fields.created ?? 0,
  accessMethods,
  input: fields.input,
  output: fields.output,
  maxInputTokens: fields.max_input_tokens,
  maxOutputTokens: fields.max_output_tokens,
  reasoning: fields.reasoning,
  supportsToolCall: fields.tools,
  pricing: fields.pricing === undefined ? null : pricingOf(fields.pricing)
})
