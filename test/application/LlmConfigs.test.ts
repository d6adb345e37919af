import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Option, Redacted, Stream } from "effect"
import * as PackagedAgentsLive from "../../src/adapters/agents/PackagedAgentsLive.ts"
import * as ProvidersLive from "../../src/adapters/catalogue/ProvidersLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import * as AgentYamlLive from "../../src/adapters/yaml/AgentYamlLive.ts"
import { AgentBackups } from "../../src/application/agent/AgentBackups.ts"
import { AgentConfigs } from "../../src/application/agent/AgentConfigs.ts"
import { CurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { AgentNotRunnable, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { Models } from "../../src/application/catalog/Models.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { EffectiveLlm } from "../../src/application/llm/EffectiveLlm.ts"
import { LlmCatalog } from "../../src/application/llm/LlmCatalog.ts"
import { LlmConfigs } from "../../src/application/llm/LlmConfigs.ts"
import { AgentYaml } from "../../src/application/ports/files/AgentYaml.ts"
import { Egress, ForbiddenAddress } from "../../src/application/ports/runtime/Egress.ts"
import { SessionLlms } from "../../src/application/ports/storage/SessionLlms.ts"
import { type CatalogEntry, ModelCatalog } from "../../src/application/ports/vendor/ModelCatalog.ts"
import { free } from "../../src/domain/catalog/Pricing.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import { ModelId, type OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "../conformance/Samples.ts"

const served = (id: string, upstream: string): CatalogEntry => ({
  model: {
    id: ModelId.make(id),
    name: `Served ${id}`,
    created: 0,
    accessMethods: ["service"],
    input: ["text", "image"],
    output: ["text"],
    maxInputTokens: 1_000,
    maxOutputTokens: 10,
    reasoning: false,
    supportsToolCall: false,
    pricing: free
  },
  routes: [{ method: "service", upstream, upstreamModel: id }]
})

/** The last one is the default of the first vendor, OpenAI. */
const entries = [served("echo", "echo"), served("gpt-4o", "openai"), served("gpt-6.1-terra", "openai")]

/** Whether agents start. */
class Stage extends Context.Service<Stage, { works: boolean }>()("test/Stage") {}

const Running = Layer.effect(
  RunningAgents,
  Effect.map(Stage, (stage) =>
    RunningAgents.of({
      of: () => Effect.die("nobody asks"),
      reload: () =>
        Effect.suspend(() =>
          stage.works
            ? Effect.succeed({ changes: ["llm"], restarted: true })
            : Effect.fail(new AgentNotRunnable({ message: "no server answers" }))
        ),
      events: Stream.empty
    })
  )
)

const layer = LlmConfigs.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(AgentConfigs.layer, LlmCatalog.layer)),
  Layer.provideMerge(Layer.mergeAll(EffectiveLlm.layer, AgentBackups.layer)),
  Layer.provideMerge(Running),
  Layer.provideMerge(Models.layer),
  Layer.provideMerge(ProviderKeyRing.layer),
  Layer.provideMerge(CurrentAgent.layer),
  Layer.provideMerge(Layer.mergeAll(Environment.layer, PackagedAgentsLive.layer, AgentYamlLive.layer)),
  Layer.provideMerge(ProvidersLive.layer),
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.sync(Stage, () => ({ works: true })),
      Layer.succeed(ModelCatalog, {
        entries,
        find: (id) => Option.fromUndefinedOr(entries.find(({ model }) => model.id === id))
      }),
      Layer.succeed(Egress, {
        check: (url) => (url.includes("inside") ? Effect.fail(new ForbiddenAddress({ host: "inside" })) : Effect.void),
        fetch: () => Promise.reject(new Error("nobody calls")),
        resolve: () => Promise.reject(new Error("nobody calls"))
      })
    )
  ),
  Layer.provide(NodeServices.layer)
)

const session = SessionId.make("tea-time")

/** A workspace whose agent has this `llm` section, between comments. */
const workspaceWith = Effect.fnUntraced(function* (llm: string) {
  const workspace = yield* account()
  const agents = yield* CurrentAgent
  const text = `# mine\nsystemPrompt: Be kind. # always\nllm:\n${llm.replace(/^/gmu, "  ")}\ngreeting: Hello\n`
  yield* agents.replace(workspace, yield* agents.file(workspace), text)
  return workspace
})

/** What the file's `llm` section says now. */
const sectionOf = Effect.fnUntraced(function* (workspace: OrganizationId) {
  const { text } = yield* (yield* CurrentAgent).file(workspace)
  assert.include(text, "# mine\nsystemPrompt: Be kind. # always\n")
  assert.include(text, "\ngreeting: Hello\n")
  const { errors, valid } = (yield* AgentYaml).read(text, new Map())
  assert.deepStrictEqual(errors, [])
  return valid?.document.llm
})

const variablesOf = Effect.fnUntraced(function* (workspace: OrganizationId) {
  const variables = yield* (yield* Environment).variables(workspace)
  return Object.fromEntries([...variables].map(([name, value]) => [name, Redacted.value(value)]))
})

describe("LLM configurations", () => {
  it.effect("writes only what changes: variables, quotes and comments stay", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const workspace = yield* workspaceWith("provider: openai\nmodel: 'gpt-4o' # cheap\napiKey: ${MY_API_KEY}")
      yield* (yield* Environment).set(workspace, new Map([["MY_API_KEY", Redacted.make("mine")]]))
      yield* configs.switch(workspace, { router: "external-sdk", maxInputTokens: 5_000 }, undefined)
      const { text } = yield* (yield* CurrentAgent).file(workspace)
      assert.include(text, "  provider: openai\n  model: 'gpt-4o' # cheap\n  apiKey: ${MY_API_KEY}\n")
      assert.deepStrictEqual(yield* sectionOf(workspace), {
        provider: "openai",
        model: "gpt-4o",
        apiKey: "${MY_API_KEY}",
        router: "external-sdk",
        maxInputTokens: 5_000
      })
    }).pipe(Effect.provide(layer))
  )

  it.effect("saves a key and lets the file name its variable; another provider's key goes", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const workspace = yield* workspaceWith("provider: openai\nmodel: gpt-4o\napiKey: sk-canary")
      yield* configs.switch(workspace, { provider: "groq", apiKey: Redacted.make("gsk-canary") }, undefined)
      assert.deepStrictEqual(yield* variablesOf(workspace), { GROQ_API_KEY: "gsk-canary" })
      assert.deepStrictEqual(yield* sectionOf(workspace), {
        provider: "groq",
        model: "openai/gpt-oss-120b",
        apiKey: "$GROQ_API_KEY"
      })
      yield* configs.switch(workspace, { provider: "service" }, undefined)
      assert.deepStrictEqual(yield* sectionOf(workspace), { provider: "service", model: "gpt-6.1-terra" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("changes neither file nor keys when the agent cannot start with the choice", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const workspace = yield* workspaceWith("provider: service\nmodel: echo")
      const variables = new Map([["GROQ_API_KEY", Redacted.make("before")]])
      yield* (yield* Environment).set(workspace, variables)
      const before = (yield* (yield* CurrentAgent).file(workspace)).text
      const stage = yield* Stage
      stage.works = false
      for (const provider of ["groq", "xai"]) {
        const request = { provider, apiKey: Redacted.make("new") }
        const error = yield* Effect.flip(configs.switch(workspace, request, undefined))
        assert.strictEqual(error._tag, "AgentNotStarted")
      }
      assert.strictEqual((yield* (yield* CurrentAgent).file(workspace)).text, before)
      assert.deepStrictEqual(yield* variablesOf(workspace), { GROQ_API_KEY: "before" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("tells a forbidden address with all else that is wrong", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const workspace = yield* workspaceWith("provider: service\nmodel: echo")
      const request = { provider: "openai-compatible", baseURL: "http://inside/v1" }
      const error = yield* Effect.flip(configs.switch(workspace, request, undefined))
      assert.strictEqual(error._tag, "LlmNotUsable")
      assert.deepStrictEqual(error._tag === "LlmNotUsable" ? error.issues.map(({ code }) => code) : [], [
        "unknown_model",
        "base_url_not_supported"
      ])
    }).pipe(Effect.provide(layer))
  )

  it.effect("binds a key to the host that it is given for", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const effective = yield* EffectiveLlm
      const workspace = yield* workspaceWith("provider: service\nmodel: echo")
      const there = { provider: "openai-compatible", model: "llama", baseURL: "https://there/v1" }
      yield* configs.switch(workspace, { ...there, apiKey: Redacted.make("key-for-there") }, undefined)
      assert.deepStrictEqual(yield* variablesOf(workspace), {
        OPENAI_COMPATIBLE_API_KEY: "key-for-there",
        OPENAI_COMPATIBLE_BASE_URL: "https://there/v1"
      })
      // A file that comes from elsewhere does not get it either.
      const { valid } = (yield* AgentYaml).read(
        "systemPrompt: x\nllm: {provider: openai-compatible, model: m, baseURL: https://evil/v1, apiKey: $OPENAI_COMPATIBLE_API_KEY}",
        new Map([["OPENAI_COMPATIBLE_API_KEY", "key-for-there"]])
      )
      assert.isDefined(valid)
      if (valid === undefined) return
      assert.strictEqual(valid.config.llm.apiKey, "key-for-there")
      assert.strictEqual((yield* effective.of(workspace, valid.config.llm, undefined)).apiKey, "")
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps a session's choice without any key, and the agent's key where that is for the same host", () =>
    Effect.gen(function* () {
      const configs = yield* LlmConfigs
      const effective = yield* EffectiveLlm
      const sessions = yield* SessionLlms
      const yaml = yield* AgentYaml
      const workspace = yield* workspaceWith("provider: openai\nmodel: gpt-4o\napiKey: sk-raw\ntemperature: 0.5")
      const agentLlm = Effect.gen(function* () {
        const { text } = yield* (yield* CurrentAgent).file(workspace)
        const { valid } = yaml.read(text, new Map())
        return valid === undefined ? yield* Effect.die("not valid") : valid.config.llm
      })
      yield* configs.switch(workspace, { model: "gpt-4.1" }, session)
      const own = yield* sessions.find(workspace, session)
      assert.deepStrictEqual(
        own,
        Option.some({
          provider: "openai",
          model: "gpt-4.1",
          router: "in-built" as const,
          baseURL: null,
          maxInputTokens: null,
          keyVariable: null
        })
      )
      const chosen = yield* effective.of(workspace, yield* agentLlm, session)
      assert.deepStrictEqual([chosen.model, chosen.apiKey, chosen.temperature], ["gpt-4.1", "sk-raw", 0.5])

      yield* configs.switch(workspace, { provider: "groq", apiKey: Redacted.make("gsk") }, session)
      const other = yield* effective.of(workspace, yield* agentLlm, session)
      assert.deepStrictEqual([other.provider, other.apiKey], ["groq", "gsk"])
      assert.strictEqual((yield* agentLlm).provider, "openai")
      assert.deepStrictEqual(yield* configs.current(workspace, session), {
        provider: "groq",
        model: "openai/gpt-oss-120b",
        displayName: "GPT OSS 120B"
      })
    }).pipe(Effect.provide(layer))
  )

  it.effect("has the gateway's models with a default, and what their vendors' models read", () =>
    Effect.gen(function* () {
      const workspace = yield* account()
      const [service] = yield* (yield* LlmCatalog).list(workspace, { providers: ["service"] })
      assert.deepStrictEqual(
        service?.models.map(({ fileTypes, isDefault, name }) => [name, isDefault, ...fileTypes]),
        [
          ["echo", false, "image"],
          ["gpt-4o", false, "pdf", "image"],
          ["gpt-6.1-terra", true, "pdf", "image"]
        ]
      )
      assert.strictEqual(service?.hasKey, true)
    }).pipe(Effect.provide(layer))
  )
})
