import { assert, describe, it } from "@effect/vitest"
import { select, type SourceFile } from "../../../src/adapters/catalogue/DataSet.ts"

type Source = SourceFile[string][string]

const model = (id: string, changes: { readonly [key: string]: unknown } = {}) =>
  ({
    id,
    name: id,
    reasoning: false,
    input: ["text"],
    contextWindow: 1000,
    maxTokens: 100,
    cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
    ...changes
  }) as Source

const selected = (provider: string, ...models: ReadonlyArray<Source>) =>
  select(provider, { chat: Object.fromEntries(models.map((model) => [model.id, model])) })

const priced = (provider: string, id: string, cost: { readonly [key: string]: unknown }) =>
  selected(provider, model(id, { cost })).models[0]?.pricing

describe("selecting from the data set", () => {
  it("leaves out what cannot be served or billed", () => {
    const free = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }
    const tier = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }
    const { leftOut, models } = selected(
      "openai",
      model("good"),
      { id: "judge", type: "classifier" },
      model("o1-pro"),
      model("gpt-5.3-codex-spark"),
      model("unpriced", { cost: free }),
      model("gift:free", { cost: free }),
      model("steps", {
        cost: {
          ...tier,
          tiers: [
            { ...tier, inputTokensAbove: 1 },
            { ...tier, inputTokensAbove: 2 }
          ]
        }
      })
    )
    assert.deepStrictEqual(
      models.map(({ id }) => id),
      ["gift:free", "good"]
    )
    assert.deepStrictEqual(leftOut, [
      { id: "judge", why: "not a chat model" },
      { id: "o1-pro", why: "another interface only" },
      { id: "gpt-5.3-codex-spark", why: "another interface only" },
      { id: "unpriced", why: "no price" },
      { id: "steps", why: "more price tiers than the contract's one" }
    ])
  })

  it("takes a zero beside a price for no price, so that it is charged as input", () => {
    assert.deepStrictEqual(priced("openai", "a", { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }), {
      input: 1,
      output: 2
    })
  })

  it("keeps the long-context tier and drops the dust of floating-point arithmetic", () => {
    const cost = { input: 0.1 + 0.2, output: 2, cacheRead: 0.03, cacheWrite: 0.375 }
    const tier = { inputTokensAbove: 200_000, input: 2, output: 4, cacheRead: 0, cacheWrite: 5 }
    assert.deepStrictEqual(priced("openai", "a", { ...cost, tiers: [tier] }), {
      input: 0.3,
      output: 2,
      cache_read: 0.03,
      cache_write: 0.375,
      context_over_200k: { above: 200_000, input: 2, output: 4, cache_write: 5 }
    })
  })

  it("adds OpenRouter's fee for Google's cache writes to the input price", () => {
    const cost = { input: 1.25, output: 10, cacheRead: 0, cacheWrite: 0.375 }
    assert.strictEqual(priced("openrouter", "google/gemini-2.5-pro", cost)?.cache_write, 1.625)
    assert.strictEqual(priced("openrouter", "minimax/minimax-m2.7", cost)?.cache_write, 0.375)
  })

  it("reads the release date off the id of a snapshot", () => {
    const { models } = selected(
      "openai",
      model("a-2024-08-06"),
      model("b-20251001"),
      model("c-2024-13-01"),
      model("d-2507")
    )
    assert.deepStrictEqual(
      models.map(({ created }) => created),
      [Date.UTC(2024, 7, 6) / 1000, Date.UTC(2025, 9, 1) / 1000, undefined, undefined]
    )
  })

  it("never promises more output than the context holds", () => {
    assert.strictEqual(selected("mistral", model("a", { maxTokens: 5000 })).models[0]?.max_output_tokens, 1000)
  })
})
