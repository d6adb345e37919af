import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { listedProviders } from "../../../src/adapters/catalogue/ProviderList.ts"
import * as ProvidersLive from "../../../src/adapters/catalogue/ProvidersLive.ts"
import { drivers } from "../../../src/adapters/vendors/drivers/Drivers.ts"
import { KnownModels } from "../../../src/application/ports/vendor/KnownModels.ts"
import { Providers } from "../../../src/application/ports/vendor/Providers.ts"

const fileTypes = Effect.fnUntraced(function* (provider: string, model: string) {
  const { vendors } = yield* Providers
  return vendors.find(({ id }) => id === provider)?.models.find(({ name }) => name === model)?.fileTypes
})

describe("the providers of agents", () => {
  layer(Layer.provide(ProvidersLive.layer, NodeFileSystem.layer))((it) => {
    it.effect("are those that have a driver, with its variables, and any compatible server", () =>
      Effect.gen(function* () {
        const { vendors } = yield* Providers
        const compatible = vendors.filter(({ takesBaseURL }) => takesBaseURL)
        assert.deepStrictEqual(
          compatible.map(({ id }) => id),
          ["openai-compatible"]
        )
        const variables = ({
          id,
          keyVariable,
          baseUrlVariable
        }: Record<"id" | "keyVariable" | "baseUrlVariable", string | undefined>) =>
          `${id}: ${keyVariable}, ${baseUrlVariable}`
        assert.deepStrictEqual(
          vendors
            .filter(({ takesBaseURL }) => !takesBaseURL)
            .map(variables)
            .sort(),
          drivers.map(variables).sort()
        )
      })
    )

    it.effect("have one default model each, which is packaged", () =>
      Effect.gen(function* () {
        const { vendors } = yield* Providers
        for (const { defaultModel, id } of listedProviders) {
          const models = vendors.find((vendor) => vendor.id === id)?.models ?? []
          assert.deepStrictEqual(
            models.filter(({ isDefault }) => isDefault).map(({ name }) => name),
            [defaultModel]
          )
        }
      })
    )

    it.effect("show their models with names, limits and the files that they read", () =>
      Effect.gen(function* () {
        const { vendors } = yield* Providers
        for (const { id, models } of vendors) {
          for (const { displayName, maxInputTokens, name } of models) {
            assert.isNotEmpty(displayName, `${id}/${name}`)
            assert.isAbove(maxInputTokens, 0, `${id}/${name}`)
          }
        }
        assert.deepStrictEqual(yield* fileTypes("openai", "gpt-4o"), ["pdf", "image"])
        assert.deepStrictEqual(yield* fileTypes("openai", "gpt-4"), [])
        assert.deepStrictEqual(yield* fileTypes("anthropic", "claude-sonnet-4-5"), ["pdf", "image"])
        assert.deepStrictEqual(yield* fileTypes("google", "gemini-2.5-pro"), ["audio", "image"])
        assert.deepStrictEqual(yield* fileTypes("groq", "llama-3.1-8b-instant"), [])
      })
    )

    it.effect("are known to agents' files, with models where not any will do", () =>
      Effect.gen(function* () {
        const { providers } = yield* KnownModels
        const { vendors } = yield* Providers
        assert.deepStrictEqual([...providers.keys()], [...vendors.map(({ id }) => id), "service"])
        assert.deepStrictEqual(
          [...providers].flatMap(([id, { models }]) => (models === undefined ? [id] : [])),
          ["openrouter", "openai-compatible", "service"]
        )
        assert.deepStrictEqual(
          [...providers].flatMap(([id, { keyVariable }]) => (keyVariable === undefined ? [id] : [])),
          ["openai-compatible", "service"]
        )
        assert.deepStrictEqual(providers.get("openai")?.models?.get("gpt-4"), { maxInputTokens: 8_192 })
      })
    )
  })
})
