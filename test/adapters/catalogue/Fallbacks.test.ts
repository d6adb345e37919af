import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Result } from "effect"
import * as Catalogue from "../../../src/adapters/catalogue/Catalogue.ts"
import { parse } from "../../../src/adapters/catalogue/ModelsFile.ts"
import { ModelCatalog } from "../../../src/application/ports/vendor/ModelCatalog.ts"

const providers: Catalogue.CatalogueOptions["providers"] = [
  { provider: "openai", upstream: "openai", prefix: "", method: "service" },
  { provider: "openai", upstream: "openai", prefix: "", method: "vendor-b-api-key" },
  { provider: "anthropic", upstream: "anthropic", prefix: "", method: "vendor-a-api-key" }
]

const upstreams = `upstreams:
  here: { base_url: "http://127.0.0.1:1/v1" }
  there: { base_url: "http://127.0.0.1:2/v1" }
models:
`

/** The routes to the model with this id, or why the file is refused. */
const routes = (models: string, id: string) =>
  Effect.fromResult(parse(upstreams + models, "models.yml")).pipe(
    Effect.flatMap((modelsFile) =>
      Effect.provide(
        Effect.map(ModelCatalog, ({ find }) => Option.getOrThrow(find(id)).routes),
        Catalogue.layer({ providers, modelsFile, echo: false }).pipe(Layer.provide(NodeFileSystem.layer))
      )
    ),
    Effect.result,
    Effect.map(Result.mapError(({ message }) => message.replace("MODELS_FILE ", "")))
  )

describe("the fallbacks of a models file", () => {
  it.effect("are those of a new model, under the names that it has there", () =>
    Effect.gen(function* () {
      const file = `
  - id: m
    upstream: here
    upstream_model: m-here
    fallbacks: [{ upstream: there }, { upstream: openai, upstream_model: gpt-4o }]
    max_input_tokens: 1000
`
      assert.deepStrictEqual(
        yield* routes(file, "m"),
        Result.succeed([
          {
            method: "service",
            upstream: "here",
            upstreamModel: "m-here",
            fallbacks: [
              { upstream: "there", upstreamModel: "m" },
              { upstream: "openai", upstreamModel: "gpt-4o" }
            ]
          }
        ])
      )
    })
  )

  it.effect("are added to a packaged model, for the operator's key only", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* routes(`  - { id: gpt-4o, fallbacks: [{ upstream: there }] }`, "gpt-4o"),
        Result.succeed([
          {
            method: "service",
            upstream: "openai",
            upstreamModel: "gpt-4o",
            fallbacks: [{ upstream: "there", upstreamModel: "gpt-4o" }]
          },
          { method: "vendor-b-api-key", upstream: "openai", upstreamModel: "gpt-4o" }
        ])
      )
    })
  )

  it.effect.each([
    {
      fallbacks: "[{ upstream: here, upstream_model: n }, { upstream: nowhere }]",
      says: "8: model m: fallbacks: Expected a key of upstreams, or a provider that has a key, not nowhere"
    },
    {
      fallbacks: "\n    - upstream: there\n    - upstream: here",
      says: "10: model m: fallbacks: Expected another upstream or upstream_model than before"
    },
    {
      fallbacks: "[{ upstream: there }, { upstream: there }]",
      says: "8: model m: fallbacks: Expected another upstream or upstream_model than before"
    },
    {
      fallbacks: "[there]",
      says: "8: models[0].fallbacks[0]: Expected a list of fallbacks such as { upstream: other }"
    },
    {
      fallbacks: "there",
      says: "8: models[0].fallbacks: Expected a list of fallbacks such as { upstream: other }"
    },
    {
      fallbacks: "[{ upstream: there, model: n }]",
      says: "8: models[0].fallbacks[0].model: Unknown key: remove it or correct its spelling"
    }
  ])("are refused with their line: $says", ({ fallbacks, says }) =>
    Effect.gen(function* () {
      const file = `
  - id: m
    upstream: here
    max_input_tokens: 1000
    fallbacks: ${fallbacks}`.slice(1)
      assert.deepStrictEqual(yield* routes(file, "m"), Result.fail(`models.yml:${says}`))
    })
  )

  it.effect("are refused for a model that the operator has no key for", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* routes(`  - { id: claude-sonnet-4-5, fallbacks: [{ upstream: there }] }`, "claude-sonnet-4-5"),
        Result.fail(
          "models.yml:5: model claude-sonnet-4-5: fallbacks: This model has no upstream with a key of yours that could fail"
        )
      )
    })
  )
})
