import { Effect } from "effect"
import { Command } from "effect/cli"
import { isService, ModelCatalog } from "../../application/ports/vendor/ModelCatalog.ts"
import type { Model } from "../../domain/catalog/Model.ts"
import { type Pricing, ratesFor, rateToUsd } from "../../domain/catalog/Pricing.ts"
import type { Opened } from "./Options.ts"
import { print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"

const rate = (value: bigint | null): number | null => (value === null ? null : rateToUsd(value))

const tierToJson = ({ cacheRead, cacheWrite, input, output }: Omit<Pricing, "longContext" | "reasoning">) => ({
  inputPerM: rate(input),
  outputPerM: rate(output),
  cacheReadPerM: rate(cacheRead),
  cacheWritePerM: rate(cacheWrite)
})

const pricingToJson = ({ longContext, reasoning, ...rates }: Pricing) => ({
  ...tierToJson(rates),
  reasoningPerM: rate(reasoning),
  contextOver200kPerM:
    longContext === null ? null : { inputTokensAbove: longContext.inputTokensAbove, ...tierToJson(longContext) }
})

/** Names as in section 2.1 of the contract, and the output limit. */
const toJson = (model: Model) => ({
  id: model.id,
  name: model.name,
  access_methods: model.accessMethods,
  capabilities: {
    input: model.input,
    output: model.output,
    maxInputTokens: model.maxInputTokens,
    maxOutputTokens: model.maxOutputTokens,
    reasoning: model.reasoning,
    supportsToolCall: model.supportsToolCall
  },
  pricing: model.pricing === null ? null : pricingToJson(model.pricing)
})

const price = (model: Model, kind: "cacheRead" | "cacheWrite" | "input" | "output"): string =>
  model.pricing === null ? "-" : `${rateToUsd(ratesFor(model.pricing, 0)[kind])}`

const longContext = ({ pricing }: Model): string =>
  pricing === null || pricing.longContext === null
    ? ""
    : `${rateToUsd(pricing.longContext.input)} in, ${rateToUsd(pricing.longContext.output)} out above ` +
      pricing.longContext.inputTokensAbove

export const models = (models: Opened<ModelCatalog>) =>
  Command.make(
    "models",
    { json: Parameters.json },
    Effect.fnUntraced(function* ({ json }) {
      const { entries } = yield* ModelCatalog
      // What an organization can use with its own keys beside these, `GET /v1/models` tells it.
      const list = entries.filter(({ routes }) => routes.some(isService)).map(({ model }) => model)
      const text = table(
        list,
        [
          { header: "model", cell: ({ id }) => id },
          { header: "access methods", cell: ({ accessMethods }) => accessMethods.join(", ") },
          { header: "max input", cell: ({ maxInputTokens }) => `${maxInputTokens}`, align: "right" },
          { header: "max output", cell: ({ maxOutputTokens }) => `${maxOutputTokens}`, align: "right" },
          { header: "input", cell: (model) => price(model, "input"), align: "right" },
          { header: "output", cell: (model) => price(model, "output"), align: "right" },
          { header: "cache read", cell: (model) => price(model, "cacheRead"), align: "right" },
          { header: "cache write", cell: (model) => price(model, "cacheWrite"), align: "right" },
          { header: "long context", cell: longContext }
        ],
        "This deployment serves no model."
      )
      yield* print(json, list.map(toJson), `${text}\n\nPrices in USD per million tokens.`)
    })
  ).pipe(
    Command.withDescription("List the models that this deployment serves, with their prices"),
    Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --json` }]),
    Command.provide(models)
  )
