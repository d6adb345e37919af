import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { calcPrice } from "@pydantic/genai-prices"
import { Effect } from "effect"
import { pricingOf } from "../../../src/adapters/catalogue/ModelFields.ts"
import { load, type PackagedModel } from "../../../src/adapters/catalogue/PackagedModels.ts"
import { costOf } from "../../../src/domain/billing/Cost.ts"
import { inputTokens, outputTokens, type Usage } from "../../../src/domain/billing/Usage.ts"

/**
 * What a usage costs here against what a second, independent data set with its own arithmetic says. Resellers
 * (OpenRouter) are left out: their prices move from day to day, so that two sets of different days always differ.
 */
const oracleName = {
  anthropic: "anthropic",
  cerebras: "cerebras",
  deepseek: "deepseek",
  fireworks: "fireworks",
  google: "google",
  groq: "groq",
  minimax: "minimax",
  mistral: "mistral",
  moonshotai: "moonshotai",
  openai: "openai",
  xai: "x-ai",
  zai: "zai"
} as const
type Provider = keyof typeof oracleName

/** DeepSeek is cheaper by night; our data set, like the contract, has one price, that of the day. */
const timestamp = new Date("2026-11-10T03:30:00Z")

/** Where the two data sets disagree, and who is right. An entry that no longer differs must go. */
const differences: Readonly<Record<string, string>> = {
  "anthropic/claude-sonnet-5-5": "The oracle does not know it and takes Sonnet 5, with its dearer cache reads.",
  "groq/openai/gpt-oss-safeguard-20b": "The oracle does not know it and takes gpt-oss-120b.",
  "mistral/codestral-latest": "The oracle has no price for cache reads.",
  "mistral/magistral-medium-latest": "The oracle has no price for cache reads.",
  "mistral/mistral-large-latest": "The oracle has the price of Mistral Large 2.",
  "mistral/mistral-medium-3.5": "Our data set has no price for cache reads: they are charged as input.",
  "mistral/mistral-small-latest": "The oracle has the price of Mistral Small 3.2.",
  "mistral/open-mistral-nemo": "The oracle has no price for cache reads.",
  "mistral/pixtral-12b": "The oracle has no price for cache reads.",
  "zai/glm-5.3-flash": "The oracle has the launch promotion that ended on 2026-09-09."
}

const usage = (input: number, output: number, more: Partial<Usage> = {}): Usage => ({
  input,
  output,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
  ...more
})

/**
 * Sizes from one token to the whole context. Around a threshold one token to either side, not on it: the oracle starts
 * some tiers at the threshold itself, the contract (2.1) above it.
 */
const usagesOf = ({ max_input_tokens: most, pricing }: PackagedModel): ReadonlyArray<Usage> => {
  const threshold = pricing?.context_over_200k?.above ?? 200_000
  const dearWrites = pricing?.cache_write !== undefined
  return [
    usage(1, 1),
    usage(1000, 100),
    usage(1000, 300, { cacheRead: 5000 }),
    usage(900, 300, { cacheRead: 4000, cacheWrite: dearWrites ? 2000 : 0, reasoning: 1000 }),
    usage(99_991, 7919),
    usage(threshold - 1, 5000, { reasoning: 77 }),
    usage(threshold + 1, 5000, { reasoning: 77 }),
    usage(threshold - 6000, 10, { cacheRead: 9000, cacheWrite: dearWrites ? 33 : 0 }),
    usage(most - 20, 1, { cacheRead: 10 })
  ].filter((usage) => inputTokens(usage) <= (pricing?.context_over_200k === undefined ? most : Infinity))
}

/** Nano-USD, or undefined where the oracle does not know the model. */
const oracle = (provider: Provider, id: string, usage: Usage): number | undefined => {
  const price = calcPrice(
    {
      input_tokens: inputTokens(usage),
      cache_read_tokens: usage.cacheRead,
      cache_write_tokens: usage.cacheWrite,
      output_tokens: outputTokens(usage)
    },
    id,
    { providerId: oracleName[provider], timestamp }
  )
  return price === null ? undefined : price.total_price * 1e9
}

const compare = (provider: Provider, model: PackagedModel) => {
  const pricing = model.pricing === undefined ? null : pricingOf(model.pricing)
  const known = usagesOf(model).flatMap((usage) => {
    const expected = oracle(provider, model.id, usage)
    return expected === undefined ? [] : [{ usage, expected, actual: Number(costOf(pricing, usage)) }]
  })
  return {
    compared: known.length,
    // Ours is rounded up to the nano-USD, the oracle's is a float of about sixteen digits.
    wrong: known.filter(
      ({ actual, expected }) => Math.abs(actual - expected) > 1 + Math.abs(expected) * Number.EPSILON * 4
    )
  }
}

const modelsOf = (provider: Provider) =>
  load(provider).pipe(
    Effect.map(({ models }) => models),
    Effect.provide(NodeFileSystem.layer)
  )

describe("costs against an independent price list", () => {
  for (const provider of Object.keys(oracleName) as ReadonlyArray<Provider>) {
    it.effect(provider, () =>
      Effect.gen(function* () {
        for (const model of yield* modelsOf(provider)) {
          const { wrong } = compare(provider, model)
          const explained = differences[`${provider}/${model.id}`]
          if (explained === undefined) assert.deepStrictEqual(wrong, [], model.id)
          else assert.isNotEmpty(wrong, `${model.id} differs no longer: remove "${explained}"`)
        }
      })
    )
  }

  it.effect("compares most of what is packaged", () =>
    Effect.gen(function* () {
      const models = { all: 0, compared: 0, withTier: 0 }
      for (const provider of Object.keys(oracleName) as ReadonlyArray<Provider>) {
        for (const model of yield* modelsOf(provider)) {
          models.all++
          if (compare(provider, model).compared === 0) continue
          models.compared++
          if (model.pricing?.context_over_200k !== undefined) models.withTier++
        }
      }
      assert.isAtLeast(models.compared, 100)
      assert.isAtLeast(models.compared / models.all, 0.6)
      assert.isAtLeast(models.withTier, 10)
    })
  )
})
