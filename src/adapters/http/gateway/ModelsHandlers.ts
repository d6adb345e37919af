import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { Models } from "../../../application/catalog/Models.ts"
import type { Model } from "../../../domain/catalog/Model.ts"
import { type Pricing, rateToUsd } from "../../../domain/catalog/Pricing.ts"
import type { Handler } from "./Gate.ts"
import type { ModelWire } from "./ModelsApi.ts"

export const ModelsHandlers = Effect.gen(function* () {
  const models = yield* Models
  // The catalogue does not change while the process runs: the answer of each list is made once.
  const answers = new WeakMap<ReadonlyArray<Model>, HttpServerResponse.HttpServerResponse>()

  const answerOf = (list: ReadonlyArray<Model>): HttpServerResponse.HttpServerResponse => {
    const known = answers.get(list)
    if (known !== undefined) return known
    const made = HttpServerResponse.uint8Array(
      encoder.encode(JSON.stringify({ object: "list", data: list.map(toWire) })),
      { contentType: "application/json" }
    )
    answers.set(list, made)
    return made
  }

  const listModels: Handler = ({ caller }) => Effect.map(models.list(caller.organizationId), answerOf)
  return listModels
})

const encoder = new TextEncoder()

const toWire = (model: Model): ModelWire => ({
  id: model.id,
  object: "model",
  owned_by: "service",
  created: model.created,
  access_methods: model.accessMethods,
  capabilities: {
    input: model.input,
    output: model.output,
    maxInputTokens: model.maxInputTokens,
    reasoning: model.reasoning,
    supportsToolCall: model.supportsToolCall
  },
  pricing: model.pricing === null ? null : pricingToWire(model.pricing)
})

const pricingToWire = (pricing: Pricing): NonNullable<ModelWire["pricing"]> => ({
  ...pricesToWire(pricing),
  reasoningPerM: orNull(pricing.reasoning),
  contextOver200kPerM:
    pricing.longContext === null
      ? null
      : { inputTokensAbove: pricing.longContext.inputTokensAbove, ...pricesToWire(pricing.longContext) }
})

const pricesToWire = (rates: Pick<Pricing, "input" | "output" | "cacheRead" | "cacheWrite">) => ({
  inputPerM: rateToUsd(rates.input),
  outputPerM: rateToUsd(rates.output),
  cacheReadPerM: orNull(rates.cacheRead),
  cacheWritePerM: orNull(rates.cacheWrite)
})

const orNull = (rate: bigint | null): number | null => (rate === null ? null : rateToUsd(rate))
