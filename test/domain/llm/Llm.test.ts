import { describe, expect, test } from "vitest"
import { completed, isSameHost, type LlmOverride, originOf, overridden } from "../../../src/domain/llm/Llm.ts"
import { displayNameOf, fileTypesOf } from "../../../src/domain/llm/Provider.ts"
import { llm, providers, variables } from "./Samples.ts"

const here = "http://127.0.0.1:11434/v1"
const there = "https://models.example.com/v1"

describe("what is in force", () => {
  const env = variables({ ALPHA_API_KEY: "stored", ANYWHERE_API_KEY: "local", ANYWHERE_BASE_URL: here })
  const local = { provider: "anywhere", model: "llama" }

  test.each([
    { name: "the agent's own key", given: llm(), apiKey: "the key of alpha" },
    { name: "the stored key for an agent without one", given: llm({ apiKey: "" }), apiKey: "stored" },
    {
      name: "no stored key at an address that is not the provider's",
      given: llm({ apiKey: "", baseURL: there }),
      apiKey: ""
    },
    {
      name: "not even when the file names it",
      given: llm({ apiKey: "stored", baseURL: there }),
      apiKey: ""
    },
    {
      name: "the file's own key at an address of its own",
      given: llm({ apiKey: "own", baseURL: there }),
      apiKey: "own"
    },
    {
      name: "the stored key at the address it is for",
      given: llm({ ...local, apiKey: "", baseURL: here }),
      apiKey: "local"
    },
    {
      name: "not at another one",
      given: llm({ ...local, apiKey: "local", baseURL: there }),
      apiKey: ""
    },
    {
      name: "no key that is stored for another provider",
      given: llm({ ...local, apiKey: "stored", baseURL: there }),
      apiKey: ""
    },
    {
      name: "unless it is stored for this address",
      given: llm({ apiKey: "local", baseURL: here }),
      apiKey: "local"
    },
    {
      name: "nothing of a provider that nobody knows",
      given: llm({ provider: "gamma", apiKey: "" }),
      apiKey: ""
    }
  ])("$name", ({ apiKey, given }) => {
    expect(completed(given, providers, env)).toEqual({ ...given, apiKey })
  })

  test("an address that the file leaves open is the stored one", () => {
    expect(completed(llm({ ...local, apiKey: "" }), providers, env)).toMatchObject({ apiKey: "local", baseURL: here })
  })

  test("a stored key without an address is for any that the agent names", () => {
    const free = variables({ ANYWHERE_API_KEY: "local" })
    expect(completed(llm({ ...local, apiKey: "", baseURL: there }), providers, free).apiKey).toBe("local")
  })
})

describe("a session's own choice", () => {
  const override: LlmOverride = {
    provider: "alpha",
    model: "small",
    router: "external-sdk",
    baseURL: null,
    maxInputTokens: 50,
    keyVariable: null
  }

  test("takes the place of the agent's, and leaves what it says nothing of", () => {
    const agent = llm({ temperature: 0.5, maxOutputTokens: 9, maxInputTokens: 700 })
    expect(overridden(agent, override, variables({}))).toEqual({
      ...agent,
      model: "small",
      router: "external-sdk",
      maxInputTokens: 50
    })
  })

  test.each([
    { name: "the variable's", own: { keyVariable: "BETA_API_KEY" }, agent: llm(), key: "b" },
    { name: "none, where the variable is gone", own: { keyVariable: "GONE_API_KEY" }, agent: llm(), key: "" },
    { name: "the agent's, for the same provider", own: {}, agent: llm(), key: "the key of alpha" },
    { name: "not the agent's, for another provider", own: { provider: "beta" }, agent: llm(), key: "" },
    { name: "not the agent's, for another host", own: { baseURL: there }, agent: llm(), key: "" },
    { name: "not the agent's, once that has gone to another host", own: {}, agent: llm({ baseURL: there }), key: "" }
  ])("has $name key", ({ agent, key, own }) => {
    expect(overridden(agent, { ...override, ...own }, variables({ BETA_API_KEY: "b" })).apiKey).toBe(key)
  })
})

describe("addresses", () => {
  test.each([
    ["http://127.0.0.1:11434/v1", "http://127.0.0.1:11434"],
    ["HTTPS://Models.Example.com:443", "https://models.example.com"],
    ["ftp://example.com", undefined],
    ["https://user@example.com", undefined],
    ["example.com", undefined]
  ])("%s leads to %s", (url, origin) => {
    expect(originOf(url)).toBe(origin)
  })

  test.each([
    [undefined, undefined, true],
    [undefined, there, false],
    [there, "https://models.example.com/other", true],
    [there, "http://models.example.com/v1", false],
    ["nothing", "nothing", false]
  ])("%s and %s: the same host is %s", (a, b, same) => {
    expect(isSameHost(a, b)).toBe(same)
    expect(isSameHost(b, a)).toBe(same)
  })
})

test.each([
  [["text"], undefined, []],
  [["text", "image"], undefined, ["image"]],
  [["text", "image", "file", "audio"], undefined, ["pdf", "audio", "image"]],
  [["text"], { pdf: "seeing", audio: "seeing" }, []],
  [["text", "image"], { pdf: "seeing", audio: "none" }, ["pdf", "image"]],
  [["text"], { pdf: "all", audio: "none" }, ["pdf"]],
  [["text", "image"], { pdf: "none", audio: "seeing" }, ["audio", "image"]]
] as const)("models for %j at a provider that reads %j read %j", (input, reads, types) => {
  expect(fileTypesOf(input, reads)).toEqual(types)
})

test("a model is shown by its display name, one that is not listed by its own", () => {
  const [alpha, , , anywhere] = providers
  expect(displayNameOf(alpha, "large")).toBe("The large")
  expect(displayNameOf(anywhere, "llama")).toBe("llama")
  expect(displayNameOf(undefined, "llama")).toBe("llama")
})
