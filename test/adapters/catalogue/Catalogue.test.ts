import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem, Layer, Logger, Option, References, Result } from "effect"
import * as Catalogue from "../../../src/adapters/catalogue/Catalogue.ts"
import { providers } from "../../../src/adapters/catalogue/DataSet.ts"
import { parse } from "../../../src/adapters/catalogue/ModelsFile.ts"
import { dataFolder } from "../../../src/adapters/catalogue/PackagedModels.ts"
import { ModelCatalog } from "../../../src/application/ports/vendor/ModelCatalog.ts"

type Providers = Catalogue.CatalogueOptions["providers"]

const openai: Providers[number] = { provider: "openai", upstream: "openai", prefix: "", method: "service" }
const ownOpenai: Providers[number] = { ...openai, method: "vendor-b-api-key" }
const groq: Providers[number] = { provider: "groq", upstream: "groq", prefix: "groq/", method: "service" }

const catalogue = (options: Partial<Omit<Catalogue.CatalogueOptions, "modelsFile">> & { readonly file?: string }) =>
  Catalogue.layer({
    providers: options.providers ?? [],
    echo: options.echo ?? false,
    modelsFile: options.file === undefined ? undefined : Result.getOrThrow(parse(options.file, "models.yml"))
  })

const served = (options: Parameters<typeof catalogue>[0]) =>
  ModelCatalog.pipe(Effect.provide(catalogue(options).pipe(Layer.provide(NodeFileSystem.layer))))

const one = (options: Parameters<typeof catalogue>[0], id: string) =>
  Effect.map(served(options), ({ find }) => Option.getOrThrow(find(id)))

const ids = (options: Parameters<typeof catalogue>[0]) =>
  Effect.map(served(options), ({ entries }) => entries.map(({ model }) => String(model.id)))

describe("the catalogue", () => {
  it.effect("has the models of the enabled providers, under their prefix", () =>
    Effect.gen(function* () {
      const { entries, find } = yield* served({ providers: [openai, groq] })
      const { model, routes } = Option.getOrThrow(find("groq/openai/gpt-oss-120b"))
      assert.deepStrictEqual(model, {
        id: model.id,
        name: "GPT OSS 120B",
        created: 0,
        accessMethods: ["service"],
        input: ["text"],
        output: ["text"],
        maxInputTokens: 131_072,
        maxOutputTokens: 65_536,
        reasoning: true,
        supportsToolCall: true,
        pricing: {
          input: 150_000_000n,
          output: 600_000_000n,
          cacheRead: 75_000_000n,
          cacheWrite: null,
          reasoning: null,
          longContext: null
        }
      })
      assert.deepStrictEqual(routes, [{ method: "service", upstream: "groq", upstreamModel: "openai/gpt-oss-120b" }])
      assert.isTrue(Option.isSome(find("gpt-4o")))
      assert.isTrue(Option.isNone(find("openai/gpt-oss-120b")))
      for (const entry of entries) assert.strictEqual(Option.getOrThrow(find(entry.model.id)), entry)
    })
  )

  it.effect("has the release date of a dated snapshot and the long-context tier", () =>
    Effect.gen(function* () {
      const { find } = yield* served({ providers: [openai] })
      assert.strictEqual(Option.getOrThrow(find("gpt-4o-2024-08-06")).model.created, Date.UTC(2024, 7, 6) / 1000)
      assert.deepStrictEqual(Option.getOrThrow(find("gpt-5.4")).model.pricing?.longContext, {
        inputTokensAbove: 272_000,
        input: 5_000_000_000n,
        output: 22_500_000_000n,
        cacheRead: 500_000_000n,
        cacheWrite: null
      })
    })
  )

  it.effect("is empty without providers, and has echo when asked", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* served({})).entries, [])
      const { model, routes } = yield* one({ echo: true }, "echo")
      assert.match(model.description ?? "", /no network and no key/)
      assert.deepStrictEqual(
        { ...model, description: "" },
        {
          id: model.id,
          name: "Echo",
          description: "",
          created: 0,
          accessMethods: ["service"],
          input: ["text", "image", "file", "audio"],
          output: ["text"],
          maxInputTokens: 128_000,
          maxOutputTokens: 16_384,
          reasoning: false,
          supportsToolCall: true,
          pricing: { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, reasoning: 0n, longContext: null }
        }
      )
      assert.deepStrictEqual(routes, [{ method: "service", upstream: "echo", upstreamModel: "echo" }])
    })
  )

  it.effect("reads the data of enabled providers only", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const read: Array<string> = []
      const watched = Layer.succeed(FileSystem.FileSystem, {
        ...files,
        readFileString: (path, encoding) => {
          read.push(path)
          return files.readFileString(path, encoding)
        }
      })
      yield* ModelCatalog.pipe(Effect.provide(catalogue({ providers: [groq] }).pipe(Layer.provide(watched))))
      assert.deepStrictEqual(read, [`${dataFolder}groq.json`])
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.effect("gives a model every access method that its provider is configured for", () =>
    Effect.gen(function* () {
      const own: Providers[number] = { ...openai, upstream: "openai-own", method: "vendor-b-api-key" }
      const { model, routes } = yield* one({ providers: [openai, own] }, "gpt-4o")
      assert.deepStrictEqual(model.accessMethods, ["service", "vendor-b-api-key"])
      assert.deepStrictEqual(
        routes.map(({ upstream }) => upstream),
        ["openai", "openai-own"]
      )
    })
  )

  it.effect("has the models of a provider that only organizations' own keys reach", () =>
    Effect.gen(function* () {
      const { model, routes } = yield* one({ providers: [ownOpenai] }, "gpt-4o")
      assert.deepStrictEqual(model.accessMethods, ["vendor-b-api-key"])
      assert.deepStrictEqual(routes, [{ method: "vendor-b-api-key", upstream: "openai", upstreamModel: "gpt-4o" }])
    })
  )

  it.effect("joins the models of a subscription with those of the same vendor's API, once each and in silence", () =>
    Effect.gen(function* () {
      const warnings: Array<unknown> = []
      const log = Logger.layer([Logger.make(({ message }) => warnings.push(message))])
      const chat: Providers[number] = {
        provider: "openai-codex",
        joins: "openai",
        upstream: "openai-chat",
        prefix: "",
        method: "vendor-b-chat"
      }
      const joined = yield* served({ providers: [openai, ownOpenai, chat] }).pipe(Effect.provide(log))
      const { model, routes } = Option.getOrThrow(joined.find("gpt-6.1-sol"))
      assert.deepStrictEqual(model.accessMethods, ["service", "vendor-b-api-key", "vendor-b-chat"])
      assert.deepStrictEqual(
        routes.map(({ upstream, upstreamModel }) => [upstream, upstreamModel]),
        [
          ["openai", "gpt-6.1-sol"],
          ["openai", "gpt-6.1-sol"],
          ["openai-chat", "gpt-6.1-sol"]
        ]
      )
      // The vendor's API describes it: there the context is smaller.
      assert.strictEqual(model.maxInputTokens, 272_000)
      assert.deepStrictEqual(Option.getOrThrow(joined.find("gpt-4o")).model.accessMethods, [
        "service",
        "vendor-b-api-key"
      ])
      const names = joined.entries.map(({ model }) => model.id)
      assert.strictEqual(new Set(names).size, names.length)
      assert.deepStrictEqual(warnings, [])

      // Alone, the subscription's models are all there is.
      const alone = yield* served({ providers: [chat] })
      assert.isAbove(alone.entries.length, 3)
      for (const { model } of alone.entries) assert.deepStrictEqual(model.accessMethods, ["vendor-b-chat"])
      assert.strictEqual(Option.getOrThrow(alone.find("gpt-6.1-sol")).model.maxInputTokens, 500_000)
    })
  )

  it.effect("keeps the first of two models of one id, with a warning", () =>
    Effect.gen(function* () {
      const warnings: Array<unknown> = []
      const log = Logger.layer([Logger.make(({ logLevel, message }) => warnings.push([logLevel, message]))])
      const rival: Providers[number] = { provider: "openrouter", upstream: "openrouter", prefix: "", method: "service" }
      const twice = { providers: [{ ...groq, prefix: "" }, rival] }
      const { routes } = yield* one(twice, "openai/gpt-oss-20b").pipe(Effect.provide(log))
      assert.deepStrictEqual(routes, [{ method: "service", upstream: "groq", upstreamModel: "openai/gpt-oss-20b" }])
      assert.deepInclude(warnings, [
        "Warn",
        [
          "Two providers have a model of the same id: the second one is not served.",
          { id: "openai/gpt-oss-20b", served: "groq", notServed: "openrouter" }
        ]
      ])
      const all = yield* ids(twice).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
      assert.strictEqual(new Set(all).size, all.length)
    })
  )

  it.effect("of all providers is there within 200 ms", () =>
    Effect.gen(function* () {
      const all = providers.map((provider) => ({ ...groq, provider, upstream: provider, prefix: `${provider}/` }))
      const start = performance.now()
      const { entries } = yield* served({ providers: all })
      assert.isBelow(performance.now() - start, 200)
      assert.isAbove(entries.length, 400)
    })
  )
})

const local = "upstreams:\n  local:\n    base_url: http://127.0.0.1:11434/v1\nmodels:\n"

describe("the operator's models file", () => {
  it.effect("adds a model with its defaults, free without a price", () =>
    Effect.gen(function* () {
      const { model, routes } = yield* one(
        { file: `${local}  - { id: llama-3, upstream: local, max_input_tokens: 8192 }` },
        "llama-3"
      )
      assert.deepStrictEqual(model, {
        id: model.id,
        name: "llama-3",
        created: 0,
        accessMethods: ["service"],
        input: ["text"],
        output: ["text"],
        maxInputTokens: 8192,
        maxOutputTokens: 4096,
        reasoning: false,
        supportsToolCall: true,
        pricing: null
      })
      assert.deepStrictEqual(routes, [{ method: "service", upstream: "local", upstreamModel: "llama-3" }])
    })
  )

  it.effect("adds a model of a built-in upstream, with all that it says", () =>
    Effect.gen(function* () {
      const file = `models:
  - id: ours
    upstream: openai
    upstream_model: ft:gpt-4o:ours
    name: Ours
    description: Fine-tuned
    max_input_tokens: 1000
    max_output_tokens: 10
    input: [text, audio]
    output: [text, audio]
    reasoning: true
    tools: false
    created: 1700000000
    pricing:
      input: 2.5
      output: 10
      cache_read: 1.25
      cache_write: 3
      reasoning: 12
      context_over_200k: { above: 300000, input: 5, output: 15, cache_read: 2.5, cache_write: 6 }
`
      const { model, routes } = yield* one({ providers: [openai], file }, "ours")
      assert.deepStrictEqual(model, {
        id: model.id,
        name: "Ours",
        description: "Fine-tuned",
        created: 1_700_000_000,
        accessMethods: ["service"],
        input: ["text", "audio"],
        output: ["text", "audio"],
        maxInputTokens: 1000,
        maxOutputTokens: 10,
        reasoning: true,
        supportsToolCall: false,
        pricing: {
          input: 2_500_000_000n,
          output: 10_000_000_000n,
          cacheRead: 1_250_000_000n,
          cacheWrite: 3_000_000_000n,
          reasoning: 12_000_000_000n,
          longContext: {
            inputTokensAbove: 300_000,
            input: 5_000_000_000n,
            output: 15_000_000_000n,
            cacheRead: 2_500_000_000n,
            cacheWrite: 6_000_000_000n
          }
        }
      })
      assert.deepStrictEqual(routes, [{ method: "service", upstream: "openai", upstreamModel: "ft:gpt-4o:ours" }])
    })
  )

  it.effect("overrides what it names of a packaged model and keeps the rest", () =>
    Effect.gen(function* () {
      const before = yield* one({ providers: [openai] }, "gpt-4o")
      const file = "models:\n  - { id: gpt-4o, max_output_tokens: 7, pricing: { input: 1, output: 2 } }"
      const after = yield* one({ providers: [openai], file }, "gpt-4o")
      assert.deepStrictEqual(after, {
        routes: before.routes,
        model: {
          ...before.model,
          maxOutputTokens: 7,
          pricing: {
            input: 1_000_000_000n,
            output: 2_000_000_000n,
            cacheRead: null,
            cacheWrite: null,
            reasoning: null,
            longContext: null
          }
        }
      })
    })
  )

  it.effect("moves the operator's own way to a model, and no other, to another upstream", () =>
    Effect.gen(function* () {
      const own: Providers[number] = { ...openai, upstream: "openai-own", method: "vendor-b-api-key" }
      const file = `${local}  - { id: gpt-4o, upstream: local }\n  - { id: gpt-4.1, upstream_model: gpt-4.1-eu }`
      const catalog = yield* served({ providers: [openai, own], file })
      assert.deepStrictEqual(Option.getOrThrow(catalog.find("gpt-4o")).routes, [
        { method: "service", upstream: "local", upstreamModel: "gpt-4o" },
        { method: "vendor-b-api-key", upstream: "openai-own", upstreamModel: "gpt-4o" }
      ])
      assert.deepStrictEqual(Option.getOrThrow(catalog.find("gpt-4.1")).routes, [
        { method: "service", upstream: "openai", upstreamModel: "gpt-4.1-eu" },
        { method: "vendor-b-api-key", upstream: "openai-own", upstreamModel: "gpt-4.1-eu" }
      ])
    })
  )

  it.effect("hides models by id and by wildcard, its own too", () =>
    Effect.gen(function* () {
      const added =
        `${local}  - { id: a.b, upstream: local, max_input_tokens: 1 }\n` +
        "  - { id: axb, upstream: local, max_input_tokens: 1 }\n"
      const left = (hide: string) => ids({ echo: true, providers: [groq], file: `${added}hide: ${hide}` })
      const groqModels = (yield* left("[]")).filter((id) => id.startsWith("groq/"))
      assert.isAbove(groqModels.length, 3)
      assert.deepStrictEqual(yield* left(`["groq/*"]`), ["echo", "a.b", "axb"])
      assert.deepStrictEqual(yield* left(`["*/*", echo]`), ["a.b", "axb"])
      assert.deepStrictEqual(yield* left(`["*"]`), [])
      assert.deepStrictEqual(yield* left("[a.b]"), [...groqModels, "echo", "axb"])
      assert.deepStrictEqual(yield* left(`["a*b", "groq/*"]`), ["echo"])
      assert.deepStrictEqual(yield* left(`["*gpt-oss*0b"]`), [
        ...groqModels.filter((id) => !id.includes("gpt-oss")),
        "echo",
        "a.b",
        "axb"
      ])
      assert.deepStrictEqual(yield* left(`["ax*xb"]`), [...groqModels, "echo", "a.b", "axb"])
    })
  )

  const refused = (options: Parameters<typeof catalogue>[0]) =>
    Effect.map(Effect.flip(served(options)), ({ message }) => message)

  it.effect("is refused, with the line, when a new model lacks what it must have", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* refused({ providers: [openai], file: "models:\n  - id: gpt-4o\n  - id: nova" }),
        "MODELS_FILE models.yml:3: model nova: upstream: This key is required for a new model"
      )
      assert.strictEqual(
        yield* refused({ file: `${local}  - id: nova\n    upstream: local` }),
        "MODELS_FILE models.yml:5: model nova: max_input_tokens: This key is required for a new model"
      )
    })
  )

  it.effect("is refused, with the line, when an upstream is unknown or has a built-in name", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* refused({ providers: [openai], file: "models:\n  - id: gpt-4o\n    upstream: lokal" }),
        "MODELS_FILE models.yml:2: model gpt-4o: upstream: Expected a key of upstreams, or openai, echo"
      )
      assert.strictEqual(
        yield* refused({ providers: [openai], file: "upstreams:\n  openai:\n    base_url: http://x" }),
        "MODELS_FILE models.yml:2: upstreams.openai: Expected another name, this one is built in"
      )
    })
  )

  it.effect("sends no request of the operator's to an upstream that only own keys reach, nor own keys elsewhere", () =>
    Effect.gen(function* () {
      assert.strictEqual(
        yield* refused({ providers: [ownOpenai], file: "models:\n  - id: gpt-4o\n    upstream: openai" }),
        "MODELS_FILE models.yml:2: model gpt-4o: upstream: Expected a key of upstreams, or echo"
      )
      assert.strictEqual(
        yield* refused({ providers: [ownOpenai], file: "upstreams:\n  openai:\n    base_url: http://x" }),
        "MODELS_FILE models.yml:2: upstreams.openai: Expected another name, this one is built in"
      )
      const elsewhere = { providers: [ownOpenai], file: `${local}  - id: gpt-4o\n    upstream: local` }
      assert.deepStrictEqual((yield* one(elsewhere, "gpt-4o")).routes, [
        { method: "service", upstream: "local", upstreamModel: "gpt-4o" },
        { method: "vendor-b-api-key", upstream: "openai", upstreamModel: "gpt-4o" }
      ])
    })
  )
})
