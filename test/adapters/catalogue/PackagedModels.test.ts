import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem, Schema } from "effect"
import { dataset, providers } from "../../../src/adapters/catalogue/DataSet.ts"
import { modelOf } from "../../../src/adapters/catalogue/ModelFields.ts"
import { dataFolder, load } from "../../../src/adapters/catalogue/PackagedModels.ts"
import { Model } from "../../../src/domain/catalog/Model.ts"

describe("the packaged models", () => {
  it.effect("are there for every provider and no other, with their source", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      assert.deepStrictEqual(
        (yield* files.readDirectory(dataFolder)).sort(),
        providers.map((provider) => `${provider}.json`).sort()
      )
      for (const provider of providers) {
        const file = yield* load(provider)
        assert.deepStrictEqual(file.dataset, dataset)
        assert.strictEqual(file.provider, provider)
      }
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.effect("are models of the domain, each with a price, once each and in the order of their ids", () =>
    Effect.gen(function* () {
      for (const provider of providers) {
        const { models } = yield* load(provider)
        const ids = models.map(({ id }) => id)
        assert.deepStrictEqual(ids, [...new Set(ids)].sort())
        for (const { id, ...fields } of models) {
          const model = modelOf(id, fields, ["service"])
          yield* Schema.decodeUnknownEffect(Model)(model, { onExcessProperty: "error" })
          assert.isNotNull(model.pricing, id)
          assert.isAtMost(model.maxOutputTokens, model.maxInputTokens, id)
          if (!id.endsWith(":free")) assert.isTrue(model.pricing !== null && model.pricing.output > 0n, id)
        }
      }
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.effect("stand one to a line", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const text = yield* files.readFileString(`${dataFolder}openai.json`)
      const { models } = yield* load("openai")
      assert.strictEqual(text.split("\n").filter((line) => line.includes(`"id":`)).length, models.length)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})
