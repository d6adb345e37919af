import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { readdir } from "node:fs/promises"
import * as PackagedAgentsLive from "../../../src/adapters/agents/PackagedAgentsLive.ts"
import * as ProvidersLive from "../../../src/adapters/catalogue/ProvidersLive.ts"
import * as AgentYamlLive from "../../../src/adapters/yaml/AgentYamlLive.ts"
import { AgentYaml } from "../../../src/application/ports/files/AgentYaml.ts"
import { PackagedAgents } from "../../../src/application/ports/files/PackagedAgents.ts"
import { type CatalogEntry, ModelCatalog } from "../../../src/application/ports/vendor/ModelCatalog.ts"
import type { AccessMethod } from "../../../src/domain/catalog/AccessMethod.ts"
import { Model } from "../../../src/domain/catalog/Model.ts"
import { ModelId } from "../../../src/domain/shared/Ids.ts"

const served = (id: string, { method = "service", tools = true }: { method?: AccessMethod; tools?: boolean } = {}) =>
  ({
    model: Model.make({
      id: ModelId.make(id),
      name: id,
      created: 0,
      accessMethods: [method],
      input: ["text"],
      output: ["text"],
      maxInputTokens: 1_000,
      maxOutputTokens: 1_000,
      reasoning: false,
      supportsToolCall: tools,
      pricing: null
    }),
    routes: [{ method, upstream: "upstream", upstreamModel: id }]
  }) satisfies CatalogEntry

const packagedWith = (entries: ReadonlyArray<CatalogEntry>) =>
  Layer.mergeAll(PackagedAgentsLive.layer, AgentYamlLive.layer).pipe(
    Layer.provide(Layer.succeed(ModelCatalog, { entries, find: () => Option.none() })),
    Layer.provide(ProvidersLive.layer),
    Layer.provide(NodeServices.layer)
  )

const agents = Effect.flatMap(PackagedAgents, ({ list }) => list)

const modelsNamed = Effect.gen(function* () {
  const yaml = yield* AgentYaml
  return (yield* agents).map(({ files, main }) => yaml.read(textOf(files.get(main)), new Map()).valid?.config.llm.model)
})

const textOf = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes)

describe("the packaged agents", () => {
  it.effect("are those that are promised, the one of new workspaces first, each with all of its directory", () =>
    Effect.gen(function* () {
      const list = yield* agents
      assert.deepStrictEqual(
        list.map(({ agent }) => agent.id as string),
        ["default-agent", "coding-agent", "research-agent", "writing-agent"]
      )
      const folders = yield* Effect.promise(() => readdir(PackagedAgentsLive.packagedFolder))
      assert.sameMembers(folders, [...list.map(({ agent }) => agent.id as string), "registry.json"])
      for (const { agent, files, main } of list) {
        const names = yield* Effect.promise(() => readdir(`${PackagedAgentsLive.packagedFolder}${agent.id}`))
        assert.sameMembers([...files.keys()], names)
        assert.isTrue(files.has(main))
        assert.strictEqual(agent.type, "builtin")
      }
    }).pipe(Effect.provide(packagedWith([])))
  )

  it.effect("are sound, need no key and start nothing else", () =>
    Effect.gen(function* () {
      const yaml = yield* AgentYaml
      for (const { agent, files, main } of yield* agents) {
        const { errors, valid, warnings } = yaml.read(textOf(files.get(main)), new Map())
        assert.deepStrictEqual({ id: agent.id, errors, warnings }, { id: agent.id, errors: [], warnings: [] })
        const config = valid?.config ?? assert.fail(`${agent.id} is not valid`)
        assert.deepInclude(config.agentCard, { name: agent.name, description: agent.description })
        assert.strictEqual(config.llm.provider, "service")
        assert.strictEqual(config.mcpServers.size, 0)
        assert.match(config.greeting ?? "", /\S/)
        assert.isAtLeast(config.contributors.length, 4)
        assert.isAtLeast(config.starterPrompts.length, 3)
        assert.strictEqual(config.toolConfirmation.mode, "event-based")
        assert.deepStrictEqual(config.filesystemResources, [])
      }
    }).pipe(Effect.provide(packagedWith([])))
  )

  it.effect("name echo where nothing else is served, or nothing that can use tools", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual([...new Set(yield* modelsNamed)], ["echo"])
    }).pipe(
      Effect.provide(
        packagedWith([
          served("echo"),
          served("mute", { tools: false }),
          served("theirs", { method: "vendor-b-api-key" })
        ])
      )
    )
  )

  it.effect("name a model that this deployment serves, whatever it is called", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual([...new Set(yield* modelsNamed)], ['own/model: "7" #1'])
    }).pipe(Effect.provide(packagedWith([served("echo"), served('own/model: "7" #1'), served("another")])))
  )

  it.effect("name a provider's default model before any other", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual([...new Set(yield* modelsNamed)], ["openrouter/claude-sonnet-5-5"])
    }).pipe(Effect.provide(packagedWith([served("first"), served("openrouter/claude-sonnet-5-5")])))
  )
})
