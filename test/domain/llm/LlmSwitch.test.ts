import { Redacted } from "effect"
import { describe, expect, test } from "vitest"
import type { Llm, LlmRequest } from "../../../src/domain/llm/Llm.ts"
import { bindings, judge, type LlmChoice } from "../../../src/domain/llm/LlmSwitch.ts"
import { llm, providers, variables } from "./Samples.ts"

/** What a switch comes to: the choice in short, and its issues as `severity code path`. */
const outcome = (request: LlmRequest, current: Llm, env: Readonly<Record<string, string>>) => {
  const { choice, issues } = judge(request, current, providers, variables(env))
  return {
    choice: choice === undefined ? undefined : short(choice),
    issues: issues.map(({ code, path, severity }) => `${severity} ${code} ${path.join(".")}`)
  }
}

const short = ({ baseURL, key, maxInputTokens, model, provider, router }: LlmChoice) => ({
  is: `${provider.id}/${model} ${router}`,
  key,
  ...(baseURL === undefined ? {} : { baseURL }),
  ...(maxInputTokens === undefined ? {} : { maxInputTokens })
})

const here = "http://127.0.0.1:11434/v1"
const there = "https://models.example.com/v1"
const apiKey = Redacted.make("a new key")
const beta = { BETA_API_KEY: "b" }
/** An agent at an address of its own, with the stored key. */
const atHere = llm({ provider: "anywhere", model: "llama", baseURL: here, apiKey: "local" })

interface Case {
  readonly name: string
  readonly request: LlmRequest
  readonly current?: Llm
  readonly env?: Readonly<Record<string, string>>
  readonly choice?: ReturnType<typeof short>
  readonly issues?: ReadonlyArray<string>
}

const cases: ReadonlyArray<Case> = [
  // What the request leaves open
  {
    name: "a model of the provider in force",
    request: { model: "small" },
    choice: { is: "alpha/small in-built", key: "kept" }
  },
  {
    name: "a model that one other provider lists",
    request: { model: "tiny" },
    env: beta,
    choice: { is: "beta/tiny in-built", key: "stored" }
  },
  {
    name: "a model that the provider in force lists like another",
    request: { model: "both" },
    choice: { is: "alpha/both in-built", key: "kept" }
  },
  {
    name: "a model that only the gateway lists stays unknown",
    request: { model: "echo" },
    issues: ["error unknown_model model"]
  },
  {
    name: "a model that several others list",
    request: { model: "both" },
    current: llm({ provider: "service", model: "echo", apiKey: "" }),
    issues: ["error unknown_model model"]
  },
  {
    name: "any model, of a provider that takes any",
    request: { model: "tiny" },
    current: llm({ provider: "broker", model: "listed" }),
    choice: { is: "broker/tiny in-built", key: "kept" }
  },
  {
    name: "a provider alone: its default model",
    request: { provider: "beta" },
    env: beta,
    choice: { is: "beta/tiny in-built", key: "stored" }
  },
  {
    name: "the provider in force alone: its model",
    request: { provider: "alpha" },
    current: llm({ model: "small" }),
    choice: { is: "alpha/small in-built", key: "kept" }
  },
  {
    name: "a router alone",
    request: { router: "external-sdk" },
    choice: { is: "alpha/large external-sdk", key: "kept" }
  },
  {
    name: "the router in force where the other provider has it",
    request: { provider: "beta" },
    current: llm({ router: "external-sdk" }),
    env: beta,
    choice: { is: "beta/tiny external-sdk", key: "stored" }
  },
  {
    name: "the other provider's router where it has not",
    request: { provider: "service" },
    current: llm({ router: "external-sdk" }),
    choice: { is: "service/tiny in-built", key: "none" }
  },
  { name: "a key alone", request: { apiKey }, choice: { is: "alpha/large in-built", key: "given" } },
  {
    name: "a limit alone",
    request: { maxInputTokens: 1_000 },
    choice: { is: "alpha/large in-built", key: "kept", maxInputTokens: 1_000 }
  },
  {
    name: "the limit in force, where the other model takes it",
    request: { model: "small" },
    current: llm({ maxInputTokens: 100 }),
    choice: { is: "alpha/small in-built", key: "kept", maxInputTokens: 100 }
  },
  {
    name: "no limit, where the other model takes less than the one in force",
    request: { model: "small" },
    current: llm({ maxInputTokens: 101 }),
    choice: { is: "alpha/small in-built", key: "kept" },
    issues: ["warning max_input_tokens_exceeded maxInputTokens"]
  },

  // Each code
  {
    name: "a provider that does not exist",
    request: { provider: "gamma" },
    issues: ["error unknown_provider provider"]
  },
  {
    name: "an agent's provider that does not exist",
    request: { model: "large" },
    current: llm({ provider: "gamma" }),
    issues: ["error unknown_provider provider"]
  },
  { name: "a model that nobody lists", request: { model: "huge" }, issues: ["error unknown_model model"] },
  {
    name: "another provider's model",
    request: { provider: "beta", model: "large" },
    env: beta,
    issues: ["error unknown_model model"]
  },
  {
    name: "a provider without a default model",
    request: { provider: "anywhere", baseURL: here },
    issues: ["error unknown_model model"]
  },
  {
    name: "a router that the provider has not",
    request: { provider: "service", router: "external-sdk" },
    issues: ["error router_not_supported router"]
  },
  { name: "another provider without a key", request: { provider: "beta" }, issues: ["error missing_api_key apiKey"] },
  {
    name: "another provider with an empty variable",
    request: { provider: "beta" },
    env: { BETA_API_KEY: "" },
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "the provider in force without a key",
    request: { model: "small" },
    current: llm({ apiKey: "" }),
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "an address for a provider that has its own",
    request: { baseURL: there },
    issues: ["error base_url_not_supported baseURL"]
  },
  ...["file:///etc/passwd", "not an address", "https://user:secret@example.com", ""].map((baseURL) => ({
    name: `the address ${JSON.stringify(baseURL)}`,
    request: { provider: "anywhere", model: "llama", baseURL },
    issues: ["error base_url_not_supported baseURL"]
  })),
  {
    name: "no address for a provider that needs one",
    request: { provider: "anywhere", model: "llama" },
    issues: ["error base_url_required baseURL"]
  },
  {
    name: "a limit beyond the model's",
    request: { maxInputTokens: 1_001 },
    issues: ["error max_input_tokens_exceeded maxInputTokens"]
  },
  {
    name: "any limit for a model that is not listed",
    request: { maxInputTokens: 10_000_000 },
    current: llm({ provider: "broker", model: "other" }),
    choice: { is: "broker/other in-built", key: "kept", maxInputTokens: 10_000_000 }
  },
  {
    name: "everything wrong at once",
    request: { provider: "service", model: "huge", router: "external-sdk", baseURL: there },
    issues: ["error unknown_model model", "error router_not_supported router", "error base_url_not_supported baseURL"]
  },
  {
    name: "key and limit wrong at once",
    request: { provider: "beta", baseURL: there, maxInputTokens: 11 },
    issues: [
      "error base_url_not_supported baseURL",
      "error missing_api_key apiKey",
      "error max_input_tokens_exceeded maxInputTokens"
    ]
  },

  // Keys and hosts
  {
    name: "no key at an address that needs none",
    request: { provider: "anywhere", model: "llama", baseURL: here },
    choice: { is: "anywhere/llama in-built", key: "none", baseURL: here }
  },
  {
    name: "the stored key at the first address",
    request: { provider: "anywhere", model: "llama", baseURL: here },
    env: { ANYWHERE_API_KEY: "local" },
    choice: { is: "anywhere/llama in-built", key: "stored", baseURL: here }
  },
  {
    name: "the stored key at its address, which need not be said",
    request: { provider: "anywhere", model: "llama" },
    env: { ANYWHERE_API_KEY: "local", ANYWHERE_BASE_URL: here },
    choice: { is: "anywhere/llama in-built", key: "stored", baseURL: here }
  },
  {
    name: "the stored key at another address",
    request: { provider: "anywhere", model: "llama", baseURL: there },
    env: { ANYWHERE_API_KEY: "local", ANYWHERE_BASE_URL: here },
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "the key in force at another address",
    request: { baseURL: there },
    current: atHere,
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "the stored key in force at another address",
    request: { baseURL: there },
    current: atHere,
    env: { ANYWHERE_API_KEY: "local" },
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "the key in force at another path of its host",
    request: { baseURL: "http://127.0.0.1:11434/v2" },
    current: atHere,
    choice: { is: "anywhere/llama in-built", key: "kept", baseURL: "http://127.0.0.1:11434/v2" }
  },
  {
    name: "the key in force at another port",
    request: { baseURL: "http://127.0.0.1:11435/v1" },
    current: atHere,
    issues: ["error missing_api_key apiKey"]
  },
  {
    name: "another address with a key for it",
    request: { baseURL: there, apiKey },
    current: atHere,
    choice: { is: "anywhere/llama in-built", key: "given", baseURL: there }
  },
  {
    name: "the stored key at the address it is for, while the agent has another",
    request: { baseURL: there },
    current: atHere,
    env: { ANYWHERE_API_KEY: "remote", ANYWHERE_BASE_URL: there },
    choice: { is: "anywhere/llama in-built", key: "stored", baseURL: there }
  },
  {
    name: "the address in force does not follow to another provider",
    request: { provider: "beta" },
    current: atHere,
    env: beta,
    choice: { is: "beta/tiny in-built", key: "stored" }
  },
  {
    name: "an address of the user's own stays with its provider and key",
    request: { model: "small" },
    current: llm({ baseURL: there }),
    choice: { is: "alpha/small in-built", key: "kept", baseURL: there }
  }
]

describe("a switch", () => {
  test.each(cases)("$name", ({ choice, current = llm(), env = {}, issues = [], request }) => {
    expect(outcome(request, current, env)).toEqual({ choice, issues })
  })

  test("says what is wrong in words and with its context, never with a key", () => {
    const canary = Redacted.make("sk-canary")
    const { issues } = judge({ provider: "beta", model: "huge", apiKey: canary }, llm(), providers, variables({}))
    expect(issues).toEqual([
      {
        code: "unknown_model",
        message: 'BETA has no model "huge". GET /api/llm/catalog?provider=beta lists its models.',
        severity: "error",
        path: ["model"],
        context: { provider: "beta", model: "huge" }
      }
    ])
  })
})

describe("the addresses that keys are stored for", () => {
  const boundBy = (request: LlmRequest, current: Llm, env: Readonly<Record<string, string>>) => {
    const { choice } = judge(request, current, providers, variables(env))
    return choice === undefined ? undefined : Object.fromEntries(bindings(choice, current, providers, variables(env)))
  }

  test.each([
    {
      name: "a key that is given",
      request: { baseURL: there, apiKey },
      current: atHere,
      env: {},
      bound: { ANYWHERE_BASE_URL: there }
    },
    {
      name: "a stored key that is for no address yet",
      request: { provider: "anywhere", model: "llama", baseURL: here },
      current: llm(),
      env: { ANYWHERE_API_KEY: "local" },
      bound: { ANYWHERE_BASE_URL: here }
    },
    {
      name: "a stored key that was in force, by the way",
      request: { provider: "beta" },
      current: atHere,
      env: { ...beta, ANYWHERE_API_KEY: "local" },
      bound: { ANYWHERE_BASE_URL: here }
    },
    { name: "no key of the user's own file", request: { model: "other" }, current: atHere, env: {}, bound: {} },
    {
      name: "no key without an address",
      request: { provider: "beta", apiKey },
      current: llm(),
      env: {},
      bound: {}
    }
  ])("$name", ({ bound, current, env, request }) => {
    expect(boundBy(request, current, env)).toEqual(bound)
  })
})
