import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Models } from "../../../application/catalog/Models.ts"
import type { Model } from "../../../domain/catalog/Model.ts"
import { type Pricing, rateToUsd } from "../../../domain/catalog/Pricing.ts"
import { GatewayApi } from "./GatewayApi.ts"
import type { ModelWire } from "./ModelsApi.ts"

export const ModelsHandlers = HttpApiBuilder.group(
  GatewayApi,
  "models",
  Effect.fn(function* (handlers) {
    const models = yield* Models
    // The catalogue does not change while the process runs: its answer is made once.
    const list = new TextEncoder().encode(JSON.stringify({ object: "list", data: models.list.map(toWire) }))
    const answer = Effect.succeed(HttpServerResponse.uint8Array(list, { contentType: "application/json" }))
    return handlers.handleAll({ listModels: () => answer })
  })
)

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
