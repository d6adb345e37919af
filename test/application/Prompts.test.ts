import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Logger, Option, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { NoCurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { type McpServers, UnknownMcpServer } from "../../src/application/agent/McpServers.ts"
import { AgentNotRunnable, type RunningAgent, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { type McpConnection, McpFailed, type McpPrompt } from "../../src/application/ports/mcp/McpConnector.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { CustomPrompts } from "../../src/application/ports/storage/CustomPrompts.ts"
import { Prompts } from "../../src/application/prompt/Prompts.ts"
import { AgentId } from "../../src/domain/agent/Agent.ts"
import type { AgentDocument } from "../../src/domain/agent/AgentConfig.ts"
import { effectiveConfig } from "../../src/domain/agent/EffectiveConfig.ts"
import { NewPrompt } from "../../src/domain/prompt/Prompt.ts"
import { blobUri } from "../../src/domain/resource/Blob.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../conformance/Samples.ts"

// -- What an agent has ------------------------------------------------------------------------------------------------

interface FakeServer {
  readonly prompts?: McpConnection["prompts"]
  readonly get?: McpConnection["getPrompt"]
}

const failed = (reason: McpFailed["reason"]) => new McpFailed({ server: "s", reason, message: `it is ${reason}` })

const serversOf = (servers: Readonly<Record<string, FakeServer>>): McpServers => ({
  list: Effect.succeed(Object.keys(servers).map((id) => ({ id, name: id, status: "connected" as const }))),
  connection: (server) => {
    const found = servers[server]
    if (found === undefined) return Effect.fail(new UnknownMcpServer({ server }))
    return Effect.succeed({
      tools: Effect.succeed([]),
      callTool: () => Effect.die("not used"),
      resources: Effect.succeed([]),
      readResource: () => Effect.die("not used"),
      prompts: found.prompts ?? Effect.succeed([]),
      getPrompt: found.get ?? (() => Effect.die("not used")),
      notices: Stream.empty,
      lost: Effect.never
    })
  },
  add: () => Effect.die("not used"),
  remove: () => Effect.die("not used"),
  restart: () => Effect.die("not used")
})

const agentOf = (
  starterPrompts: NonNullable<AgentDocument["starterPrompts"]>,
  servers: Readonly<Record<string, FakeServer>> = {}
): RunningAgent => ({
  file: {
    id: AgentId.make("helper"),
    name: "Helper",
    path: WorkspacePath.make("agents/helper/helper.yml"),
    text: "",
    version: "1",
    lastModified: 0,
    isDefault: false
  },
  config: effectiveConfig({ systemPrompt: "", llm: { provider: "service", model: "echo" }, starterPrompts }),
  mcp: serversOf(servers)
})

const prompt = (name: string, fields: Partial<McpPrompt> = {}): McpPrompt => ({
  name,
  description: "",
  arguments: [],
  ...fields
})

// -- The use case over it ---------------------------------------------------------------------------------------------

type Agent = RunningAgent | NoCurrentAgent | AgentNotRunnable

const promptsOf = (agent: Agent, logged: Array<string> = [], stores: typeof InMemoryLive.layer = InMemoryLive.layer) =>
  Prompts.layer.pipe(
    Layer.provide(
      Layer.succeed(RunningAgents, {
        of: () => ("config" in agent ? Effect.succeed(agent) : Effect.fail(agent)),
        reload: () => Effect.die("not used"),
        events: Stream.empty
      })
    ),
    Layer.provideMerge(stores),
    Layer.provide(IdsLive.layer),
    Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))]))
  )

/** The stores, of which one takes no prompts. */
const Failing = Layer.effect(
  CustomPrompts,
  Effect.map(CustomPrompts, (store) => CustomPrompts.of({ ...store, insert: () => Effect.die(new Error("away")) }))
).pipe(Layer.provideMerge(InMemoryLive.layer))

/** One that goes away after it has stored a prompt, before it says so. */
const Forgetful = Layer.effect(
  CustomPrompts,
  Effect.map(CustomPrompts, (store) =>
    CustomPrompts.of({
      ...store,
      insert: (...given) => Effect.andThen(store.insert(...given), Effect.die(new Error("away")))
    })
  )
).pipe(Layer.provideMerge(InMemoryLive.layer))

const newPrompt = (fields: Readonly<Record<string, unknown>> = {}) =>
  Schema.decodeUnknownSync(NewPrompt)({ name: "mine", content: "Hello", ...fields })

const resource = { base64: "aGk=", mimeType: "text/plain", filename: "hi.txt" }

const none = new Map<string, string>()

describe("Prompts", () => {
  it.effect("has the user's own, the packaged ones, the agent's and those of its servers", () =>
    Effect.gen(function* () {
      const [prompts, mine] = [yield* Prompts, yield* account()]
      yield* prompts.create(mine, newPrompt({ title: "Mine", description: "D" }))
      const list = yield* prompts.list(mine)
      assert.deepStrictEqual(
        new Set(list.map(({ source }) => source)),
        new Set(["custom", "builtin", "starter", "mcp"])
      )
      assert.deepInclude(list, { name: "mine", title: "Mine", description: "D", arguments: [], source: "custom" })
      assert.deepInclude(list, { name: "begin", title: "Begin", description: "", arguments: [], source: "starter" })
      assert.deepInclude(list, { name: "files--read", description: "R", arguments: [{ name: "p" }], source: "mcp" })
      for (const each of list) assert.deepStrictEqual(yield* prompts.find(mine, each.name), each)
      assert.strictEqual((yield* Effect.flip(prompts.find(mine, "nothing")))._tag, "PromptNotFound")
    }).pipe(
      Effect.provide(
        promptsOf(
          agentOf([{ id: "begin", title: "Begin", prompt: "Begin!" }], {
            files: { prompts: Effect.succeed([prompt("read", { description: "R", arguments: [{ name: "p" }] })]) }
          })
        )
      )
    )
  )

  it.effect("means the first source of two of one name, and refuses a name that any source has", () =>
    Effect.gen(function* () {
      const [prompts, mine] = [yield* Prompts, yield* account()]
      for (const name of ["begin", "summarize", "s--p"]) {
        const refused = yield* Effect.flip(prompts.create(mine, newPrompt({ name, resource })))
        assert.deepInclude(refused, { _tag: "PromptExists", name })
      }
      assert.deepStrictEqual(yield* (yield* Blobs).list(mine), [])
      assert.deepInclude(yield* prompts.find(mine, "summarize"), { source: "builtin" })
      // One that was there before the agent had its like.
      yield* (yield* CustomPrompts).insert(mine, {
        id: "1",
        prompt: { name: "begin", description: "", arguments: [], source: "custom" },
        text: "older",
        resource: undefined
      })
      assert.deepInclude(yield* prompts.find(mine, "begin"), { source: "custom" })
      const named = (yield* prompts.list(mine)).filter(({ name }) => name === "begin")
      assert.deepStrictEqual(
        named.map(({ source }) => source),
        ["custom"]
      )
      yield* prompts.remove(mine, "begin")
      assert.deepInclude(yield* prompts.find(mine, "begin"), { source: "starter" })
    }).pipe(
      Effect.provide(
        promptsOf(
          agentOf(
            [
              { id: "begin", prompt: "Begin!" },
              { id: "summarize", prompt: "not this one" }
            ],
            { s: { prompts: Effect.succeed([prompt("p")]) } }
          )
        )
      )
    )
  )

  it.effect("resolves an agent's and a server's prompts", () => {
    const asked: Array<unknown> = []
    const get: McpConnection["getPrompt"] = (name, args) =>
      Effect.sync(() => {
        asked.push([name, args])
        return { text: "from the server", resources: ["file:///a"] }
      })
    const declared = [{ name: "p", required: true }, { name: "q" }]
    return Effect.gen(function* () {
      const [prompts, mine] = [yield* Prompts, yield* account()]
      assert.deepStrictEqual(yield* prompts.resolve(mine, "begin", new Map([["who", "me"]]), "now"), {
        text: "Begin with me!\n\nnow",
        resources: []
      })
      assert.deepStrictEqual(yield* prompts.resolve(mine, "s--p", new Map([["p", "1"]]), "now"), {
        text: "from the server\n\nnow",
        resources: ["mcp:s:file:///a"]
      })
      assert.deepStrictEqual(asked, [["p", { p: "1" }]])
      const missing = yield* Effect.flip(prompts.resolve(mine, "s--p", none, ""))
      assert.deepInclude(missing, { _tag: "MissingArguments", names: ["p"] })
      assert.deepInclude(yield* Effect.flip(prompts.resolve(mine, "s--bad", none, "")), { _tag: "McpFailed" })
      assert.lengthOf(asked, 1)
    }).pipe(
      Effect.provide(
        promptsOf(
          agentOf([{ id: "begin", prompt: "Begin with {{who}}!" }], {
            s: {
              prompts: Effect.succeed([prompt("p", { arguments: declared }), prompt("bad")]),
              get: (name, args) => (name === "bad" ? Effect.fail(failed("deadline")) : get(name, args))
            }
          })
        )
      )
    )
  })

  it.effect("leaves out what an agent has that cannot run, and says so in the log", () =>
    Effect.gen(function* () {
      for (const agent of [new NoCurrentAgent(), new AgentNotRunnable({ message: "mistakes" })]) {
        const logged: Array<string> = []
        yield* Effect.gen(function* () {
          const [prompts, mine] = [yield* Prompts, yield* account()]
          const sources = new Set((yield* prompts.list(mine)).map(({ source }) => source))
          assert.deepStrictEqual(sources, new Set(["builtin"]))
          yield* prompts.create(mine, newPrompt())
          assert.deepInclude(yield* prompts.resolve(mine, "mine", none, ""), { text: "Hello" })
        }).pipe(Effect.provide(promptsOf(agent, logged)))
        assert.include(logged.join("\n"), agent.message)
      }
    })
  )

  it.effect("leaves out servers that fail or do not answer, and has the others'", () => {
    const logged: Array<string> = []
    return Effect.gen(function* () {
      const [prompts, mine] = [yield* Prompts, yield* account()]
      const listing = yield* Effect.forkChild(prompts.list(mine))
      yield* TestClock.adjust("5 seconds")
      const list = yield* Fiber.join(listing)
      assert.deepStrictEqual(
        list.filter(({ source }) => source === "mcp").map(({ name }) => name),
        ["good--p"]
      )
      assert.include(logged.join("\n"), "broken")
      assert.include(logged.join("\n"), "hanging")
    }).pipe(
      Effect.provide(
        promptsOf(
          agentOf([], {
            broken: { prompts: Effect.fail(failed("protocol")) },
            hanging: { prompts: Effect.never },
            good: { prompts: Effect.succeed([prompt("p")]) }
          }),
          logged
        )
      )
    )
  })

  it.effect("keeps a prompt's resource as long as the prompt, and for it alone", () =>
    Effect.gen(function* () {
      const [prompts, blobs] = [yield* Prompts, yield* Blobs]
      const [mine, foreign] = [yield* account(), yield* account()]
      yield* prompts.create(mine, newPrompt({ resource }))
      const [blob] = yield* blobs.list(mine)
      assert.deepInclude(blob, { mimeType: "text/plain", filename: "hi.txt", size: 2 })
      const uri = blob === undefined ? "" : blobUri(blob.id)
      assert.deepStrictEqual(yield* prompts.resolve(mine, "mine", none, ""), { text: "Hello", resources: [uri] })
      yield* prompts.create(mine, newPrompt({ name: "other", resource }))
      assert.strictEqual((yield* Effect.flip(prompts.remove(foreign, "mine")))._tag, "PromptNotFound")
      yield* prompts.remove(mine, "mine")
      assert.lengthOf(yield* blobs.list(mine), 1)
      yield* prompts.remove(mine, "other")
      assert.lengthOf(yield* blobs.list(mine), 0)
      assert.strictEqual((yield* Effect.flip(prompts.remove(mine, "other")))._tag, "PromptNotFound")
    }).pipe(Effect.provide(promptsOf(agentOf([]))))
  )

  it.effect("lets go of the resource of a prompt that could not be stored, and not of its rival's", () =>
    Effect.gen(function* () {
      const [prompts, blobs, mine] = [yield* Prompts, yield* Blobs, yield* account()]
      const tries = Array.from({ length: 10 }, () => Effect.exit(prompts.create(mine, newPrompt({ resource }))))
      const exits = yield* Effect.all(tries, { concurrency: "unbounded" })
      assert.strictEqual(exits.filter(Exit.isSuccess).length, 1)
      for (const exit of exits.filter(Exit.isFailure)) {
        assert.strictEqual(Option.getOrThrow(Cause.findErrorOption(exit.cause))._tag, "PromptExists")
      }
      assert.lengthOf(yield* blobs.list(mine), 1)
      yield* prompts.remove(mine, "mine")
      assert.lengthOf(yield* blobs.list(mine), 0)
    }).pipe(Effect.provide(promptsOf(agentOf([]))))
  )

  it.effect("lets go of the resource when the store fails", () =>
    Effect.gen(function* () {
      const [prompts, blobs, mine] = [yield* Prompts, yield* Blobs, yield* account()]
      const exit = yield* Effect.exit(prompts.create(mine, newPrompt({ resource })))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.lengthOf(yield* blobs.list(mine), 0)
    }).pipe(Effect.provide(promptsOf(agentOf([]), [], Failing)))
  )

  it.effect("keeps the resource of a prompt that is there although the store failed", () =>
    Effect.gen(function* () {
      const [prompts, blobs, mine] = [yield* Prompts, yield* Blobs, yield* account()]
      assert.isTrue(Exit.isFailure(yield* Effect.exit(prompts.create(mine, newPrompt({ resource })))))
      const [blob] = yield* blobs.list(mine)
      const { resources } = yield* prompts.resolve(mine, "mine", none, "")
      assert.deepStrictEqual(resources, blob === undefined ? [] : [blobUri(blob.id)])
      assert.lengthOf(resources, 1)
    }).pipe(Effect.provide(promptsOf(agentOf([]), [], Forgetful)))
  )

  it.effect("deletes nothing but custom prompts", () =>
    Effect.gen(function* () {
      const [prompts, mine] = [yield* Prompts, yield* account()]
      for (const [name, source] of [
        ["summarize", "builtin"],
        ["begin", "starter"],
        ["s--p", "mcp"]
      ] as const) {
        const refused = yield* Effect.flip(prompts.remove(mine, name))
        assert.deepInclude(refused, { _tag: "PromptNotCustom", name, source })
      }
    }).pipe(
      Effect.provide(
        promptsOf(agentOf([{ id: "begin", prompt: "x" }], { s: { prompts: Effect.succeed([prompt("p")]) } }))
      )
    )
  )
})
