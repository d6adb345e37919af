import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Option, Redacted, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as PackagedAgentsLive from "../../src/adapters/agents/PackagedAgentsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { AgentBackups } from "../../src/application/agent/AgentBackups.ts"
import { AgentConfigs } from "../../src/application/agent/AgentConfigs.ts"
import { CurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { AgentNotRunnable, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { EffectiveLlm } from "../../src/application/llm/EffectiveLlm.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { ModelCatalog } from "../../src/application/ports/vendor/ModelCatalog.ts"
import { Providers } from "../../src/application/ports/vendor/Providers.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { agentYaml } from "../adapters/yaml/Reader.ts"
import { account } from "../conformance/Samples.ts"

/** Texts that the agent cannot be started with, what happens then, and what it was brought up to. */
class Stage extends Context.Service<
  Stage,
  {
    readonly refused: Set<string>
    readonly followed: Array<string>
    meanwhile: Effect.Effect<void, never, WorkspaceFiles>
  }
>()("test/Stage") {
  static readonly layer = Layer.sync(Stage, () =>
    Stage.of({ refused: new Set(), followed: [], meanwhile: Effect.void })
  )
}

const Running = Layer.effect(
  RunningAgents,
  Effect.gen(function* () {
    const current = yield* CurrentAgent
    const stage = yield* Stage
    const files = yield* WorkspaceFiles
    return RunningAgents.of({
      of: () => Effect.die("nobody asks"),
      reload: Effect.fnUntraced(function* (workspace) {
        const { text } = yield* current.file(workspace)
        if (stage.refused.has(text)) {
          yield* Effect.provideService(stage.meanwhile, WorkspaceFiles, files)
          return yield* new AgentNotRunnable({ message: "no server answers" })
        }
        stage.followed.push(text)
        return { changes: [], restarted: false }
      }),
      events: Stream.empty
    })
  })
)

/** Commits take a while, so that two saves at once meet. */
const Slow = Layer.effect(
  WorkspaceFiles,
  Effect.map(WorkspaceFiles, (files) =>
    WorkspaceFiles.of({ ...files, commit: (...args) => Effect.andThen(Effect.yieldNow, files.commit(...args)) })
  )
)

const layer = AgentConfigs.layer.pipe(
  Layer.provideMerge(Running),
  Layer.provideMerge(Stage.layer),
  Layer.provideMerge(AgentBackups.layer),
  Layer.provideMerge(Layer.mergeAll(CurrentAgent.layer, EffectiveLlm.layer)),
  Layer.provideMerge(Layer.mergeAll(Environment.layer, PackagedAgentsLive.layer, agentYaml)),
  Layer.provideMerge(Layer.succeed(Providers, { vendors: [] })),
  Layer.provideMerge(Layer.succeed(ModelCatalog, { entries: [], find: () => Option.none() })),
  Layer.provideMerge(Slow),
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provide(NodeServices.layer)
)

const plain = (greeting: string) =>
  `systemPrompt: Help.\ngreeting: ${greeting}\nllm: {provider: service, model: echo}\n`

const file = WorkspacePath.make("agents/default-agent/default-agent.yml")

/** A workspace that was used before. */
const furnished = Effect.gen(function* () {
  const workspace = yield* account()
  yield* Effect.flatMap(AgentConfigs, ({ path }) => path(workspace))
  return workspace
})

const read = Effect.fnUntraced(function* (workspace: OrganizationId, path: WorkspacePath) {
  const found = yield* Effect.flatMap(WorkspaceFiles, (files) => files.read(workspace, path))
  return new TextDecoder().decode(Option.getOrThrow(found).content)
})

/** With its byte order mark. */
const readExactly = Effect.fnUntraced(function* (workspace: OrganizationId) {
  const found = yield* Effect.flatMap(WorkspaceFiles, (files) => files.read(workspace, file))
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Option.getOrThrow(found).content)
})

const put = (workspace: OrganizationId, path: WorkspacePath, text: string) =>
  Effect.flatMap(WorkspaceFiles, (files) =>
    files.commit(workspace, [{ path, content: new TextEncoder().encode(text), basedOn: undefined }])
  )

/** The backups, oldest first. */
const backups = Effect.fnUntraced(function* (workspace: OrganizationId) {
  const files = yield* WorkspaceFiles
  const found = yield* files.list(workspace, WorkspacePath.make("backups/default-agent"))
  return yield* Effect.forEach(found, ({ path }) => Effect.map(read(workspace, path), (text) => ({ path, text })))
})

const save = (workspace: OrganizationId, text: string) =>
  Effect.flatMap(AgentConfigs, (configs) => configs.save(workspace, text))

describe("saving", () => {
  it.effect("keeps the ten newest of what was there before, also within one millisecond", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const original = yield* read(workspace, file)
      for (let at = 0; at < 12; at++) yield* save(workspace, plain(`v${at}`))
      const kept = yield* backups(workspace)
      const texts = [original, ...Array.from({ length: 11 }, (_, at) => plain(`v${at}`))]
      assert.deepStrictEqual(
        kept.map(({ text }) => text),
        texts.slice(-10)
      )
      assert.match(kept[0]?.path ?? "", /^backups\/default-agent\/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z\.yml$/)
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps the order of backups when the clock is set back", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      yield* TestClock.setTime(1_000_000)
      yield* save(workspace, plain("first"))
      yield* save(workspace, plain("second"))
      yield* TestClock.setTime(5_000)
      yield* save(workspace, plain("third"))
      const texts = (yield* backups(workspace)).map(({ text }) => text)
      assert.deepStrictEqual(texts.slice(1), [plain("first"), plain("second")])
    }).pipe(Effect.provide(layer))
  )

  it.effect("puts back what was there when the agent cannot start, byte for byte", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const stage = yield* Stage
      const before = `\ufeff${plain("before")}`
      yield* put(workspace, file, before)
      stage.refused.add(plain("after"))
      const result = yield* Effect.result(save(workspace, plain("after")))
      assert.isTrue(Result.isFailure(result) && result.failure._tag === "AgentNotStarted")
      assert.strictEqual(yield* readExactly(workspace), before)
      // The agent runs by it again.
      assert.strictEqual(stage.followed.at(-1), plain("before"))
    }).pipe(Effect.provide(layer))
  )

  it.effect("leaves alone what somebody else has saved while the agent could not start", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const stage = yield* Stage
      stage.refused.add(plain("mine"))
      stage.meanwhile = Effect.orDie(put(workspace, file, plain("theirs")))
      const result = yield* Effect.result(save(workspace, plain("mine")))
      assert.isTrue(Result.isFailure(result) && result.failure._tag === "AgentNotStarted")
      assert.strictEqual(yield* read(workspace, file), plain("theirs"))
    }).pipe(Effect.provide(layer))
  )

  it.effect("of two at once, one conflicts and nothing of it stays", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const texts = ["a", "b"].map(plain)
      const results = yield* Effect.forEach(texts, (text) => Effect.result(save(workspace, text)), {
        concurrency: "unbounded"
      })
      const won = results.findIndex(Result.isSuccess)
      assert.strictEqual(yield* read(workspace, file), texts[won])
      assert.deepStrictEqual(
        results.filter(Result.isFailure).map(({ failure }) => failure._tag),
        ["WorkspaceConflict"]
      )
      assert.strictEqual((yield* backups(workspace)).length, 1)
    }).pipe(Effect.provide(layer))
  )

  it.effect("names the changed keys, whatever their order and style", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      yield* save(workspace, plain("a"))
      const again = `llm:\n  "model": echo\n  provider: 'service'\ngreeting: "a"\nsystemPrompt: Help.\n`
      assert.deepInclude(yield* save(workspace, again), { changesApplied: [], reloaded: false, restarted: false })
      const more = `${again}sessions: {maxSessions: 100}\n`
      // It is what was in force without saying so.
      assert.deepInclude(yield* save(workspace, more), { changesApplied: ["sessions"], restarted: false })
      const less = more.replace("greeting", "internalTools: []\ntelemetry")
      const wrong = yield* Effect.result(save(workspace, less))
      assert.isTrue(Result.isFailure(wrong) && wrong.failure._tag === "AgentFileInvalid")
    }).pipe(Effect.provide(layer))
  )

  it.effect("of a file with mistakes: what it was is kept, and all keys count as changed", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      yield* put(workspace, file, "llm: [")
      assert.deepInclude(yield* save(workspace, plain("a")), {
        changesApplied: ["systemPrompt", "greeting", "llm"],
        restarted: true
      })
      assert.strictEqual((yield* backups(workspace)).at(-1)?.text, "llm: [")
    }).pipe(Effect.provide(layer))
  )
})

describe("editing", () => {
  it.effect("changes single values, with a backup, and refuses what is no configuration then", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const configs = yield* AgentConfigs
      const text = `# mine\n${plain("a")}`
      yield* save(workspace, text)
      const saved = yield* configs.edit(workspace, [{ path: ["greeting"], value: "b" }])
      assert.deepStrictEqual(saved.changesApplied, ["greeting"])
      assert.strictEqual(yield* read(workspace, file), text.replace("greeting: a", "greeting: b"))
      assert.strictEqual((yield* backups(workspace)).at(-1)?.text, text)
      const wrong = yield* Effect.result(configs.edit(workspace, [{ path: ["llm", "router"], value: "magic" }]))
      assert.isTrue(Result.isFailure(wrong) && wrong.failure._tag === "AgentFileInvalid")
    }).pipe(Effect.provide(layer))
  )
})

describe("a file that does not load", () => {
  const prepared = Effect.fnUntraced(function* (broken: string, ...kept: ReadonlyArray<string>) {
    const workspace = yield* account()
    yield* Effect.flatMap(CurrentAgent, (current) => current.file(workspace))
    yield* put(workspace, file, broken)
    for (const [at, text] of kept.entries()) {
      yield* put(workspace, WorkspacePath.make(`backups/default-agent/2020-01-01T00-00-0${at}.000Z.yml`), text)
    }
    return workspace
  })

  it.effect("gives way to the newest backup that does, and is kept itself", () =>
    Effect.gen(function* () {
      const workspace = yield* prepared("llm: [", plain("older"), plain("newer"), "greeting: [")
      const configs = yield* AgentConfigs
      assert.strictEqual((yield* configs.config(workspace)).yaml, plain("newer"))
      const unfit = (yield* backups(workspace)).filter(({ path }) => path.endsWith(".unfit.yml"))
      assert.deepStrictEqual(
        unfit.map(({ text }) => text),
        ["llm: ["]
      )
    }).pipe(Effect.provide(layer))
  )

  it.effect("stays when no backup loads", () =>
    Effect.gen(function* () {
      const workspace = yield* prepared("llm: [", "greeting: [")
      assert.strictEqual((yield* (yield* AgentConfigs).config(workspace)).yaml, "llm: [")
    }).pipe(Effect.provide(layer))
  )

  it.effect("stays once the workspace is in use: only a start puts backups back", () =>
    Effect.gen(function* () {
      const workspace = yield* prepared(plain("sound"), plain("older"))
      const configs = yield* AgentConfigs
      yield* configs.path(workspace)
      yield* put(workspace, file, "llm: [")
      assert.strictEqual((yield* configs.config(workspace)).yaml, "llm: [")
    }).pipe(Effect.provide(layer))
  )

  it.effect("is one with mistakes, not one whose model is gone from the catalogue", () =>
    Effect.gen(function* () {
      const gone = "systemPrompt: a\nllm: {provider: openai, model: gone}\n"
      const workspace = yield* prepared(gone, plain("older"))
      assert.strictEqual((yield* (yield* AgentConfigs).config(workspace)).yaml, gone)
    }).pipe(Effect.provide(layer))
  )
})

describe("the export", () => {
  it.effect("resolves addresses of .env and shows none of its keys, however short", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      const variables = {
        OPENAI_API_KEY: "k1",
        A_TOKEN: "canary-0815",
        LOCAL_BASE_URL: "http://u:canary@127.0.0.1:1/v1"
      }
      yield* Effect.flatMap(Environment, (environment) =>
        environment.set(
          workspace,
          new Map(Object.entries(variables).map(([name, value]) => [name, Redacted.make(value)]))
        )
      )
      yield* save(
        workspace,
        "systemPrompt: say $OPENAI_API_KEY or canary-0815\n" +
          "llm: {provider: openai-compatible, model: m, baseURL: $LOCAL_BASE_URL}\n" +
          "mcpServers: {a: {type: stdio, command: x, args: [$OPENAI_API_KEY, 'a${A_TOKEN}b']}}\n"
      )
      const text = yield* (yield* AgentConfigs).export(workspace, undefined)
      assert.notInclude(text, "canary")
      assert.notInclude(text, "k1")
      assert.include(text, "baseURL: http://[REDACTED]@127.0.0.1:1/v1\n")
      assert.include(text, "say [REDACTED] or [REDACTED]")
      assert.include(text, "a[REDACTED]b")
    }).pipe(Effect.provide(layer))
  )

  it.effect("of a file with mistakes fails", () =>
    Effect.gen(function* () {
      const workspace = yield* furnished
      yield* put(workspace, file, "llm: [")
      const result = yield* Effect.result((yield* AgentConfigs).export(workspace, undefined))
      assert.isTrue(Result.isFailure(result) && result.failure._tag === "AgentFileInvalid")
    }).pipe(Effect.provide(layer))
  )
})
