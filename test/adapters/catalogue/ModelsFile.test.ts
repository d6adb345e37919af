import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem, Result } from "effect"
import { parse, read } from "../../../src/adapters/catalogue/ModelsFile.ts"

const parsed = (text: string) => Result.getOrThrow(parse(text, "models.yml"))

const refused = (text: string) =>
  Result.match(parse(text, "models.yml"), {
    onSuccess: (file) => assert.fail(`accepted: ${JSON.stringify(file)}`),
    onFailure: (error) => {
      assert.strictEqual(error._tag, "ModelsFileInvalid")
      assert.notInclude(error.message, "\n")
      return error.message.replace("MODELS_FILE models.yml", "")
    }
  })

describe("a models file", () => {
  it("is read with its defaults and lines", () => {
    const text = `
upstreams:
  local:
    base_url: http://127.0.0.1:11434/v1/
    api_key: LOCAL_KEY
  strict-one:
    base_url: https://models.example/v1
    dialect: openai
models:
  - id: llama-3
    upstream: local
    upstream_model: llama3:8b
    name: Llama 3
    max_input_tokens: 128000
    input: [text, image]
    created: 1700000000
    pricing: { input: 2.5, output: 10, cache_read: 1.25, reasoning: 12, context_over_200k: { input: 5, output: 15 } }

  - id: gpt-4o
    pricing: { input: 0, output: 0 }
hide: [gpt-3.5-turbo, "openrouter/*"]
`
    assert.deepStrictEqual(parsed(text), {
      file: "models.yml",
      upstreams: [
        {
          name: "local",
          baseUrl: "http://127.0.0.1:11434/v1",
          keyVariable: "LOCAL_KEY",
          protocol: "chat",
          dialect: "compatible",
          line: 3
        },
        {
          name: "strict-one",
          baseUrl: "https://models.example/v1",
          keyVariable: undefined,
          protocol: "chat",
          dialect: "openai",
          line: 6
        }
      ],
      models: [
        {
          id: "llama-3",
          upstream: "local",
          upstreamModel: "llama3:8b",
          fields: {
            name: "Llama 3",
            max_input_tokens: 128_000,
            input: ["text", "image"],
            created: 1_700_000_000,
            pricing: {
              input: 2.5,
              output: 10,
              cache_read: 1.25,
              reasoning: 12,
              context_over_200k: { above: 200_000, input: 5, output: 15 }
            }
          },
          line: 10
        },
        {
          id: "gpt-4o",
          upstream: undefined,
          upstreamModel: undefined,
          fields: { pricing: { input: 0, output: 0 } },
          line: 19
        }
      ],
      hide: ["gpt-3.5-turbo", "openrouter/*"]
    })
  })

  it("may be empty", () => {
    for (const text of ["", "# nothing yet\n", "{}"]) {
      assert.deepStrictEqual(parsed(text), { file: "models.yml", upstreams: [], models: [], hide: [] })
    }
  })

  it("may repeat a price by an alias", () => {
    const { models } = parsed(
      "models:\n  - id: a\n    pricing: &p { input: 1, output: 2 }\n  - id: b\n    pricing: *p\n"
    )
    assert.deepStrictEqual(
      models.map(({ fields }) => fields.pricing),
      [
        { input: 1, output: 2 },
        { input: 1, output: 2 }
      ]
    )
  })
})

const model = (line: string) => `models:\n  - id: a\n    ${line}\n`
const price = "Expected a price in USD per million tokens, 0 or more"
const priceList = "Expected a price list such as { input: 2.5, output: 10 }"
const id = "Expected a model id in quotes: 1 to 200 visible ASCII characters without *"
const url = "Expected an http or https address without user, query and fragment"
const unknown = "Unknown key: remove it or correct its spelling"

describe("a models file is refused, with its line and what to change, for", () => {
  const cases: Readonly<Record<string, readonly [text: string, message: string]>> = {
    "an unknown section": ["hide: []\nmodel: []", `:2: model: ${unknown}`],
    "an unknown key of a model": [model("max_tokens: 5"), `:3: models[0].max_tokens: ${unknown}`],
    "an unknown key of a price": [
      model("pricing:\n      input: 1\n      output: 1\n      cached: 1"),
      `:6: models[0].pricing.cached: ${unknown}`
    ],
    "a missing price": [model("pricing: { input: 1 }"), ":3: models[0].pricing.output: This key is required"],
    "a negative price": [model("pricing: { input: -1, output: 1 }"), `:3: models[0].pricing.input: ${price}`],
    "an infinite price": [model("pricing: { input: .inf, output: 1 }"), `:3: models[0].pricing.input: ${price}`],
    "a price that is no number": [
      model("pricing: { input: .nan, output: 1 }"),
      `:3: models[0].pricing.input: ${price}`
    ],
    "a price in words": [model("pricing: { input: 1 USD, output: 1 }"), `:3: models[0].pricing.input: ${price}`],
    "a price left empty": [model("pricing:"), `:3: models[0].pricing: ${priceList}`],
    "a fault behind an alias": [
      model("pricing: &p { input: 1, output: x }\n  - id: b\n    pricing: *p"),
      `:3: models[0].pricing.output: ${price}`
    ],
    "a limit of zero": [
      model("max_input_tokens: 0"),
      ":3: models[0].max_input_tokens: Expected a whole number of tokens, 1 or more"
    ],
    "half a token": [
      model("max_output_tokens: 1.5"),
      ":3: models[0].max_output_tokens: Expected a whole number of tokens, 1 or more"
    ],
    "no modality": [model("input: []"), ":3: models[0].input: Expected at least one modality"],
    "a modality twice": [model("output: [text, text]"), ":3: models[0].output: Expected every modality once"],
    "an unknown modality": [
      model("input:\n      - text\n      - smell"),
      `:5: models[0].input[1]: Expected "text" | "image" | "file" | "audio" | "video"`
    ],
    "yes for true": [model("tools: yes"), ":3: models[0].tools: Expected true or false"],
    "a date for seconds": [
      model("created: 2026-01-01"),
      ":3: models[0].created: Expected a time in whole seconds since 1970"
    ],
    "an id that is a number": ["models:\n  - id: 4", `:2: models[0].id: ${id}`],
    "an id with a wildcard": ["models:\n  - id: 'a*'", `:2: models[0].id: ${id}`],
    "a model without an id": ["models:\n  - name: A", ":2: models[0].id: This key is required"],
    "two models of one id": [
      "models:\n  - id: a\n  - id: b\n  - id: a",
      ":4: models[2].id: This id stands above already: remove one of the two"
    ],
    "a name of an upstream in upper case": [
      "upstreams:\n  Local:\n    base_url: http://x",
      ":2: upstreams.Local: Expected a name of lower-case letters, digits and -"
    ],
    "an upstream without an address": [
      "upstreams:\n  local:\n    api_key: KEY",
      ":2: upstreams.local.base_url: This key is required"
    ],
    "an address of another scheme": ["upstreams:\n  a:\n    base_url: ftp://x", `:3: upstreams.a.base_url: ${url}`],
    "an address with a query": ["upstreams:\n  a:\n    base_url: http://x/v1?k=1", `:3: upstreams.a.base_url: ${url}`],
    "no dialect of ours": [
      "upstreams:\n  a:\n    base_url: http://x\n    dialect: french",
      `:4: upstreams.a.dialect: Expected "compatible" | "openai"`
    ],
    "no protocol of ours": [
      "upstreams:\n  a:\n    base_url: http://x\n    protocol: grpc",
      `:4: upstreams.a.protocol: Expected "chat" | "responses" | "anthropic"`
    ],
    "a dialect of a protocol that has none": [
      "upstreams:\n  a:\n    base_url: http://x\n    protocol: responses\n    dialect: openai",
      ":5: upstreams.a.dialect: Only the protocol chat has dialects: remove this key"
    ],
    "a pattern with a space": [
      "hide:\n  - a\n  - b c",
      ":3: hide[1]: Expected a model id in quotes, in which * stands for any characters"
    ],
    "a repeated key": ["models: []\nhide: []\nmodels: []", ":3: remove this key, it stands above already"],
    "a second document": ["hide: []\n---\nhide: []", ":2: remove this second document"],
    "a key that is a list": ["? [a]\n: b", ":1: use plain text as a key"],
    "an unknown tag": ["hide: !secret []", ":1: Unresolved tag: !secret"],
    "an alias of nothing": ["hide: []\nmodels: *m", ":2: define the anchor of this alias above it"],
    "a bracket left open": [
      "hide: [a\nmodels: []",
      ":2: Flow sequence in block collection must be sufficiently indented and end with a ]"
    ],
    "a prototype": ["models:\n  - id: a\n    __proto__: { tools: true }", `:3: models[0].__proto__: ${unknown}`],
    "text that is no mapping": ["hello", ":1: Expected the keys upstreams, models and hide"]
  }
  for (const [name, [text, message]] of Object.entries(cases)) {
    it(name, () => assert.strictEqual(refused(text), message))
  }

  it("a key in the place of its variable, without repeating it", () => {
    const message = refused("upstreams:\n  a:\n    base_url: https://x\n    api_key: gsk_canary0123")
    assert.strictEqual(
      message,
      ":4: upstreams.a.api_key: Expected the name of an environment variable in upper case, not the key itself"
    )
    assert.notInclude(refused("upstreams:\n  a:\n    base_url: https://user:canary@x"), "canary")
    assert.notInclude(refused("upstreams:\n  a:\n    base_url: https://x\n    dialect: canary"), "canary")
  })
})

describe("a hostile models file is refused in time", () => {
  const within = (text: string, message: string) => {
    const start = performance.now()
    assert.strictEqual(refused(text), message)
    assert.isBelow(performance.now() - start, 3000)
  }

  it("with an alias bomb", () => {
    const levels = ["a", "b", "c", "d", "e", "f", "g", "h"]
    const bomb = levels.map((name, index) => {
      const item = index === 0 ? "x" : `*${levels[index - 1]}`
      return `${name}: &${name} [${Array.from({ length: 9 }, () => item).join(", ")}]`
    })
    within(bomb.join("\n"), ": use fewer aliases")
  })

  it("with an alias of itself", () => {
    within("models: &m\n  - id: a\n    pricing: *m", `:3: models[0].pricing: ${priceList}`)
  })

  it("with deep nesting", () => {
    within(`${"[".repeat(32_000)}${"]".repeat(32_000)}`, ":1: use less nesting")
    within("- ".repeat(32_000), ":1: use less nesting")
  })

  it("with thousands of keys", () => {
    within(Array.from({ length: 9000 }, (_, index) => `k${index}:`).join("\n"), `:1: k0: ${unknown}`)
  })

  it("above 64 KB, and read at 64 KB", () => {
    const comment = `#${"é".repeat(32_767)}x`
    assert.strictEqual(Buffer.byteLength(comment), 65_536)
    assert.deepStrictEqual(parsed(comment).models, [])
    within(`${comment}x`, ": make it smaller, at most 64 KB")
  })
})

describe("reading the models file", () => {
  const written = Effect.fnUntraced(function* (content: Uint8Array) {
    const files = yield* FileSystem.FileSystem
    const file = yield* files.makeTempFileScoped()
    yield* files.writeFile(file, content)
    return file
  })
  const bytes = (text: string) => new TextEncoder().encode(text)

  it.effect("gives its content", () =>
    Effect.gen(function* () {
      const file = yield* written(bytes("hide: [a]"))
      assert.deepStrictEqual(yield* read(file), { file, upstreams: [], models: [], hide: ["a"] })
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.effect("names the file that cannot be used", () =>
    Effect.gen(function* () {
      const absent = yield* Effect.flip(read("/nowhere/models.yml"))
      assert.strictEqual(absent.message, "MODELS_FILE /nowhere/models.yml: name a file that can be read")
      assert.strictEqual((yield* Effect.flip(read("/"))).message, "MODELS_FILE /: name a file that can be read")
      const large = yield* written(new Uint8Array(65_537).fill(35))
      assert.strictEqual(
        (yield* Effect.flip(read(large))).message,
        `MODELS_FILE ${large}: make it smaller, at most 64 KB`
      )
      const latin = yield* written(new Uint8Array([35, 0xe9]))
      assert.strictEqual((yield* Effect.flip(read(latin))).message, `MODELS_FILE ${latin}: save it as UTF-8`)
      const wrong = yield* written(bytes("models: 1"))
      assert.strictEqual((yield* Effect.flip(read(wrong))).message, `MODELS_FILE ${wrong}:1: models: Expected a list`)
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})
