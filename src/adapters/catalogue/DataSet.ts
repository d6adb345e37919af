import { Schema } from "effect"
import { rateFromUsd, rateToUsd } from "../../domain/catalog/Pricing.ts"
import type { PriceList } from "./ModelFields.ts"
import type { PackagedModel } from "./PackagedModels.ts"

/**
 * The data set that the packaged models come from. Its chat models all call tools and answer in text; it has no release
 * dates and no prices for reasoning (which cost as output).
 */
export const dataset = { name: "@earendil-works/pi-ai", version: "1.5.2", licence: "MIT" }

/**
 * Those of its providers that speak a wire format of this service. `openai-codex` is what OpenAI's chat subscriptions
 * reach.
 */
export const providers = [
  "anthropic",
  "cerebras",
  "deepseek",
  "fireworks",
  "google",
  "groq",
  "minimax",
  "mistral",
  "moonshotai",
  "openai",
  "openai-codex",
  "openrouter",
  "together",
  "xai",
  "zai"
] as const

/** Models that their vendor serves by another interface only: Responses, Interactions, batches. */
const otherInterface: Readonly<Record<string, RegExp>> = {
  openai: /-pro$|-codex/,
  google: /^deep-research|computer-use/,
  openrouter: /:batch$/
}

const Rates = { input: Schema.Finite, output: Schema.Finite, cacheRead: Schema.Finite, cacheWrite: Schema.Finite }

const ChatModel = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  reasoning: Schema.Boolean,
  input: Schema.Array(Schema.Literals(["text", "image"])),
  contextWindow: Schema.Int,
  maxTokens: Schema.Int,
  cost: Schema.Struct({
    ...Rates,
    tiers: Schema.optionalKey(Schema.Array(Schema.Struct({ inputTokensAbove: Schema.Int, ...Rates })))
  })
})
type ChatModel = typeof ChatModel.Type

const Other = Schema.Struct({ id: Schema.String, type: Schema.Literals(["classifier", "image"]) })

/** A file of the data set: models by interface and key. */
export const SourceFile = Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Union([Other, ChatModel])))
export type SourceFile = typeof SourceFile.Type

export interface Selection {
  readonly models: ReadonlyArray<PackagedModel>
  readonly leftOut: ReadonlyArray<{ readonly id: string; readonly why: string }>
}

/** The models that can be served and billed, in the order of their ids, and why the others cannot. */
export const select = (provider: string, source: SourceFile): Selection => {
  const models = new Map<string, PackagedModel>()
  const leftOut: Array<{ id: string; why: string }> = []
  for (const model of Object.values(source).flatMap((byKey) => Object.values(byKey))) {
    const why = obstacle(provider, model)
    if (why === undefined && "cost" in model) models.set(model.id, packaged(provider, model))
    else leftOut.push({ id: model.id, why: why ?? "no price" })
  }
  return { models: [...models.values()].sort((a, b) => (a.id < b.id ? -1 : 1)), leftOut }
}

const obstacle = (provider: string, model: ChatModel | typeof Other.Type): string | undefined => {
  if (!("cost" in model)) return "not a chat model"
  if (otherInterface[provider]?.test(model.id) === true) return "another interface only"
  // A zero stands for an unknown price too, and a guess would be the operator's loss.
  if (model.cost.input === 0 && model.cost.output === 0 && !model.id.endsWith(":free")) return "no price"
  if ((model.cost.tiers ?? []).length > 1) return "more price tiers than the contract's one"
  return undefined
}

const packaged = (provider: string, model: ChatModel): PackagedModel => {
  const created = dateIn(model.id)
  return {
    id: model.id,
    name: model.name,
    ...(created === undefined ? {} : { created }),
    max_input_tokens: model.contextWindow,
    max_output_tokens: Math.min(model.maxTokens, model.contextWindow),
    input: model.input,
    output: ["text"],
    reasoning: model.reasoning,
    tools: true,
    // OpenRouter lists only the storage fee of Google's cache writes, which comes on top of the input price.
    pricing: prices(model.cost, provider === "openrouter" && /^~?google\//.test(model.id))
  }
}

const prices = ({ tiers, ...base }: ChatModel["cost"], writeFeeOnTop: boolean): PriceList => {
  const tier = tiers?.[0]
  return {
    ...rates(base, writeFeeOnTop),
    ...(tier === undefined
      ? {}
      : { context_over_200k: { above: tier.inputTokensAbove, ...rates(tier, writeFeeOnTop) } })
  }
}

/** A zero beside a price means that the vendor has no such price: then it is charged as input. */
const rates = ({ cacheRead, cacheWrite, input, output }: Schema.Struct.Type<typeof Rates>, writeFeeOnTop: boolean) => ({
  input: exact(input),
  output: exact(output),
  ...(cacheRead > 0 ? { cache_read: exact(cacheRead) } : {}),
  ...(cacheWrite > 0 ? { cache_write: exact(writeFeeOnTop ? input + cacheWrite : cacheWrite) } : {})
})

/** Without the dust of floating-point arithmetic. */
const exact = (price: number): number => rateToUsd(rateFromUsd(price))

/** The release date that a snapshot's id ends with, such as `-2024-08-06` or `-20251001`, in epoch seconds. */
const dateIn = (id: string): number | undefined => {
  const [, year, month, day] = /-(20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$/.exec(id) ?? []
  return year === undefined ? undefined : Date.parse(`${year}-${month}-${day}T00:00:00Z`) / 1000
}
