import { assert, describe, it } from "@effect/vitest"
import { Deferred, type Duration, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { type McpConnection, McpConnector, McpFailed } from "../../src/application/ports/mcp/McpConnector.ts"
import type { McpServerConfig } from "../../src/domain/agent/AgentConfig.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { agentFiles, documentWith, fileOf } from "./AgentFiles.ts"

const workspace = OrganizationId.make("o")
const other = OrganizationId.make("p")

const server = (command: string): McpServerConfig => ({ type: "stdio", command })
const strict = (command: string): McpServerConfig => ({ ...server(command), connectionMode: "strict" })

const failed = (server: string) => new McpFailed({ server, reason: "unreachable", message: `${server} is away` })

/** Servers that behave as their command says: `well`, `broken`, `hangs`. */
const fakeServers = () => {
  const log: Array<string> = []
  let called: Duration.Input = 0
  const open = new Map<string, Deferred.Deferred<McpFailed>>()
  const layer = Layer.succeed(McpConnector, {
    connect: Effect.fnUntraced(function* (name, config) {
      const command = config.type === "stdio" ? config.command : config.url
      log.push(`try ${name}`)
      if (command === "broken") return yield* failed(name)
      if (command === "hangs") return yield* Effect.delay(Effect.fail(failed(name)), config.timeout)
      const lost = yield* Deferred.make<McpFailed>()
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          log.push(`open ${name}`)
          open.set(name, lost)
        }),
        () => Effect.sync(() => void log.push(`close ${name}`))
      )
      const connection: McpConnection = {
        tools: Effect.succeed([{ name: "tool", description: "", inputSchema: {}, isIdempotent: false }]),
        callTool: () => Effect.delay(Effect.succeed({ isError: false, content: [] }), called),
        resources: Effect.succeed([]),
        readResource: () => Effect.succeed([]),
        prompts: Effect.succeed([]),
        getPrompt: () => Effect.succeed({ text: "", resources: [] }),
        notices: Stream.make("tools" as const),
        lost: Deferred.await(lost)
      }
      return connection
    })
  })
  return {
    layer,
    /** What happened since it was last asked for. */
    happened: () => log.splice(0),
    /** How long calls of tools take. */
    callFor: (duration: Duration.Input) => {
      called = duration
    },
    lose: (name: string) => {
      const lost = open.get(name)
      return lost === undefined ? Effect.void : Deferred.succeed(lost, failed(name))
    }
  }
}

const set = (servers: Readonly<Record<string, McpServerConfig>>, more: object = {}) => {
  const files = agentFiles(fileOf(documentWith(servers, more)))
  const fakes = fakeServers()
  return { ...files, ...fakes, layer: Layer.provide(files.layer, fakes.layer) }
}

/** Lets what is forked run. */
const settle = TestClock.adjust(10)

describe("an agent", () => {
  it.effect("starts once for all who ask for it, one for each workspace", () => {
    const { happened, layer } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const running = yield* Effect.all([agents.of(workspace), agents.of(workspace), agents.of(other)], {
        concurrency: "unbounded"
      })
      assert.strictEqual(running[0], running[1])
      assert.notStrictEqual(running[0], running[2])
      yield* running[0].mcp.connection("a")
      yield* running[2].mcp.connection("a")
      assert.deepStrictEqual(happened().toSorted(), ["open a", "open a", "try a", "try a"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not wait for lenient servers, but for strict ones", () => {
    const { layer, put } = set({ lenient: server("hangs") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      assert.deepStrictEqual(
        (yield* mcp.list).map(({ name, status }) => [name, status]),
        [["lenient", "error"]]
      )
      put(fileOf(documentWith({ strict: strict("hangs") })))
      const starting = yield* Effect.forkChild(Effect.flip(agents.of(other)))
      yield* TestClock.adjust(29_000)
      assert.isUndefined(starting.pollUnsafe())
      yield* TestClock.adjust(2_000)
      assert.strictEqual((yield* Fiber.join(starting))._tag, "AgentNotRunnable")
    }).pipe(Effect.provide(layer))
  })

  it.effect("that cannot start keeps those who wait no longer than one start", () => {
    const { happened, layer } = set({ strict: strict("hangs") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const waiting = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 20 }), () => Effect.flip(agents.of(workspace)), {
          concurrency: "unbounded"
        })
      )
      yield* TestClock.adjust(30_001)
      assert.lengthOf(yield* Fiber.join(waiting), 20)
      assert.deepStrictEqual(happened(), ["try strict"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("with mistakes in its file says where they are, and runs when they are mended", () => {
    const { layer, put } = set({})
    put({ ...fileOf({}), text: "{}" })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      assert.match((yield* Effect.flip(agents.of(workspace))).message, /Line 1, llm: Expected a model/)
      put(fileOf(documentWith({})))
      yield* agents.of(workspace)
      put(undefined)
      assert.strictEqual((yield* Effect.flip(agents.reload(workspace)))._tag, "NoCurrentAgent")
      assert.strictEqual((yield* Effect.flip(agents.of(workspace)))._tag, "NoCurrentAgent")
    }).pipe(Effect.provide(layer))
  })

  it.effect("that nobody asks for is stopped after ten minutes, unless a server was added to it", () => {
    const { happened, layer } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      yield* (yield* agents.of(other)).mcp.add("b", server("well"))
      yield* mcp.connection("a")
      happened()
      yield* TestClock.adjust("9 minutes")
      yield* agents.of(workspace)
      yield* TestClock.adjust("9 minutes")
      assert.deepStrictEqual(happened(), [])
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual(happened(), ["close a"])
      yield* agents.of(workspace)
      yield* settle
      assert.deepStrictEqual(happened(), ["try a", "open a"])
    }).pipe(Effect.provide(layer))
  })
})

describe("an agent that somebody still has when it is stopped", () => {
  it.effect("is started again when its tools are called", () => {
    const { happened, layer } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      yield* mcp.connection("a")
      yield* TestClock.adjust("12 minutes")
      assert.deepStrictEqual(happened(), ["try a", "open a", "close a"])
      yield* mcp.connection("a")
      assert.deepStrictEqual(happened(), ["try a", "open a"])
      assert.strictEqual((yield* Effect.flip(mcp.connection("b")))._tag, "UnknownMcpServer")
    }).pipe(Effect.provide(layer))
  })

  it.effect("calls no tools of another one that takes its place", () => {
    const { layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      put(fileOf(documentWith({ a: server("well") }), "next"))
      yield* agents.reload(workspace)
      assert.match((yield* Effect.flip(mcp.connection("a"))).message, /another one was switched to/)
      put(undefined)
      yield* Effect.flip(agents.reload(workspace))
      assert.strictEqual((yield* Effect.flip(mcp.connection("a")))._tag, "McpFailed")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is not stopped while a call runs, however long", () => {
    const { callFor, happened, layer } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const connection = yield* (yield* agents.of(workspace)).mcp.connection("a")
      happened()
      callFor("20 minutes")
      const calling = yield* Effect.forkChild(connection.callTool("tool", {}))
      yield* TestClock.adjust("19 minutes")
      assert.deepStrictEqual(happened(), [])
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(calling)
      yield* TestClock.adjust("9 minutes")
      assert.deepStrictEqual(happened(), [])
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(happened(), ["close a"])
    }).pipe(Effect.provide(layer))
  })
})

describe("a reload", () => {
  it.effect("touches only the servers that changed", () => {
    const { happened, layer, put } = set({ same: server("well"), changed: server("well"), gone: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      yield* agents.of(workspace)
      yield* settle
      happened()
      const changed: McpServerConfig = { type: "stdio", command: "well", args: ["x"] }
      put(fileOf(documentWith({ same: server("well"), changed, new: server("well") })))
      assert.deepStrictEqual(yield* agents.reload(workspace), { changes: ["mcpServers"], restarted: true })
      yield* settle
      assert.deepStrictEqual(happened().toSorted(), [
        "close changed",
        "close gone",
        "open changed",
        "open new",
        "try changed",
        "try new"
      ])
      assert.deepStrictEqual(yield* agents.reload(workspace), { changes: [], restarted: false })
      assert.deepStrictEqual(happened(), [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("takes over what the agent only reads as it runs", () => {
    const { happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      yield* agents.of(workspace)
      yield* settle
      happened()
      put(fileOf(documentWith({ a: server("well") }, { greeting: "Hello" })))
      assert.deepStrictEqual(yield* agents.reload(workspace), { changes: ["greeting"], restarted: false })
      assert.strictEqual((yield* agents.of(workspace)).config.greeting, "Hello")
      const llm = { provider: "openai", model: "other" }
      put(fileOf(documentWith({ a: server("well") }, { greeting: "Hello", llm })))
      assert.deepStrictEqual(yield* agents.reload(workspace), { changes: ["llm"], restarted: true })
      assert.deepStrictEqual(happened(), [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("that needs a server which cannot be connected changes nothing", () => {
    const { happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const before = yield* agents.of(workspace)
      yield* settle
      happened()
      put(fileOf(documentWith({ a: strict("broken"), b: server("well") })))
      assert.strictEqual((yield* Effect.flip(agents.reload(workspace)))._tag, "AgentNotRunnable")
      assert.strictEqual(yield* agents.of(workspace), before)
      yield* before.mcp.connection("a")
      assert.notInclude(happened(), "close a")
      assert.deepStrictEqual(
        (yield* before.mcp.list).map(({ id }) => id),
        ["a"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("keeps a server that was added, and takes one that was added and then written down for the same", () => {
    const { happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      yield* mcp.add("added", server("well"))
      yield* mcp.add("kept", server("well"))
      yield* settle
      happened()
      put(fileOf(documentWith({ a: server("well"), kept: server("well") })))
      yield* agents.reload(workspace)
      assert.deepStrictEqual(happened(), [])
      assert.deepStrictEqual(
        (yield* mcp.list).map(({ id }) => id),
        ["a", "added", "kept"]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("to another agent starts that one before the one before ends", () => {
    const { happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      yield* agents.of(workspace)
      yield* settle
      happened()
      put(fileOf(documentWith({ b: strict("well") }), "another"))
      const { restarted } = yield* agents.reload(workspace)
      assert.isTrue(restarted)
      assert.deepStrictEqual(happened(), ["try b", "open b", "close a"])
      assert.strictEqual((yield* agents.of(workspace)).file.id, "another")
    }).pipe(Effect.provide(layer))
  })

  it.effect("comes by itself when files change, and mistakes in them change nothing", () => {
    const { announce, happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const before = yield* agents.of(workspace)
      yield* settle
      happened()
      put({ ...fileOf({}), text: "{}" })
      yield* announce(workspace)
      yield* settle
      assert.strictEqual(yield* agents.of(workspace), before)
      put(fileOf(documentWith({ b: server("well") })))
      for (let time = 0; time < 50; time++) yield* announce(workspace)
      yield* announce(other)
      yield* settle
      assert.deepStrictEqual(happened().toSorted(), ["close a", "open b", "try b"])
    }).pipe(Effect.provide(layer))
  })
})

describe("a server", () => {
  it.effect("that is lost is connected again after a while, and others do not notice", () => {
    const { happened, layer, lose } = set({ a: server("well"), b: server("well") })
    return Effect.gen(function* () {
      const { mcp } = yield* (yield* RunningAgents).of(workspace)
      yield* settle
      happened()
      yield* lose("a")
      yield* settle
      const [a, b] = yield* mcp.list
      assert.deepStrictEqual(a, { id: "a", name: "a", status: "error", error: "a is away" })
      assert.strictEqual(b?.status, "connected")
      assert.strictEqual((yield* Effect.flip(mcp.connection("a")))._tag, "McpFailed")
      yield* TestClock.adjust(1_500)
      yield* mcp.connection("a")
      assert.deepStrictEqual(happened(), ["close a", "try a", "open a"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("that stays away is tried less and less often, at least once in 75 seconds", () => {
    const { happened, layer } = set({ a: server("broken") })
    return Effect.gen(function* () {
      yield* (yield* RunningAgents).of(workspace)
      yield* TestClock.adjust("2 minutes")
      const first = happened().length
      assert.isAtLeast(first, 6)
      assert.isAtMost(first, 9)
      yield* TestClock.adjust("5 minutes")
      const later = happened().length
      assert.isAtLeast(later, 3)
      assert.isAtMost(later, 8)
    }).pipe(Effect.provide(layer))
  })

  it.effect("that is restarted answers those who wait, and is removed for good", () => {
    const { happened, layer, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const { mcp } = yield* agents.of(workspace)
      yield* settle
      happened()
      yield* mcp.restart("a")
      assert.deepStrictEqual(happened(), ["close a", "try a", "open a"])
      yield* mcp.remove("a")
      assert.deepStrictEqual(happened(), ["close a"])
      put(fileOf(documentWith({ a: server("well") }, { greeting: "Hello" })))
      yield* agents.reload(workspace)
      for (const use of [mcp.connection("a"), mcp.restart("a"), mcp.remove("a")]) {
        assert.strictEqual((yield* Effect.flip(use))._tag, "UnknownMcpServer")
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("that cannot be added leaves the one of its name as it is, and there are at most 64", () => {
    const { happened, layer } = set({ a: server("well") })
    return Effect.gen(function* () {
      const { mcp } = yield* (yield* RunningAgents).of(workspace)
      yield* settle
      yield* Effect.flip(mcp.add("a", server("broken")))
      yield* mcp.connection("a")
      assert.notInclude(happened(), "close a")
      for (let more = 1; more < 64; more++) yield* mcp.add(`n${more}`, server("well"))
      assert.match((yield* Effect.flip(mcp.add("one-too-many", server("well")))).message, /at most 64/)
      yield* mcp.add("n1", server("well"))
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells what happens to it", () => {
    const { layer, lose, put } = set({ a: server("well") })
    return Effect.gen(function* () {
      const agents = yield* RunningAgents
      const told: Array<object> = []
      yield* Effect.forkChild(Stream.runForEach(agents.events, (event) => Effect.sync(() => void told.push(event))))
      yield* settle
      yield* agents.of(workspace)
      yield* settle
      yield* lose("a")
      yield* settle
      put(fileOf(documentWith({})))
      yield* agents.reload(workspace)
      yield* settle
      const resources = { _tag: "ResourcesChanged", serverName: "a" }
      const expected = [
        { _tag: "McpServerConnected", name: "a", success: true },
        { _tag: "ToolsUpdated", tools: ["tool"], source: "a" },
        { ...resources, action: "server_connected" },
        { _tag: "ToolsUpdated", tools: ["tool"], source: "a" },
        { _tag: "McpServerConnected", name: "a", success: false, error: "a is away" },
        { _tag: "ToolsUpdated", tools: [], source: "a" },
        { ...resources, action: "server_removed" },
        { _tag: "AgentRestarted", agentId: "agent", changesApplied: ["mcpServers"] }
      ]
      assert.deepStrictEqual(
        told,
        expected.map((event) => ({ workspace, ...event }))
      )
    }).pipe(Effect.provide(layer))
  })
})
