import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Option, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { NoCurrentAgent } from "../../src/application/agent/CurrentAgent.ts"
import { type McpServers, UnknownMcpServer } from "../../src/application/agent/McpServers.ts"
import { AgentNotRunnable, type RunningAgent, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { HostFiles } from "../../src/application/ports/files/HostFiles.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import {
  type McpConnection,
  McpFailed,
  type McpResource,
  type McpResourceContent
} from "../../src/application/ports/mcp/McpConnector.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { Resources } from "../../src/application/resource/Resources.ts"
import { AgentId } from "../../src/domain/agent/Agent.ts"
import type { AgentConfig, AgentDocument } from "../../src/domain/agent/AgentConfig.ts"
import { effectiveConfig } from "../../src/domain/agent/EffectiveConfig.ts"
import { BlobId } from "../../src/domain/resource/Blob.ts"
import { allows } from "../../src/domain/resource/FileRules.ts"
import { mostRead, readable } from "../../src/domain/resource/ResourceContent.ts"
import { WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../conformance/Samples.ts"

// -- What an agent has ------------------------------------------------------------------------------------------------

const document: AgentDocument = { systemPrompt: "", llm: { provider: "service", model: "echo" } }

const configOf = (
  internalResources: Extract<AgentDocument["internalResources"], ReadonlyArray<unknown>> = []
): AgentConfig => effectiveConfig({ ...document, internalResources: { enabled: true, resources: internalResources } })

const agentOf = (config: AgentConfig, mcp: McpServers = serversOf({})): RunningAgent => ({
  file: {
    id: AgentId.make("helper"),
    name: "Helper",
    path: WorkspacePath.make("agents/helper/helper.yml"),
    text: "",
    version: "1",
    lastModified: 0,
    isDefault: false
  },
  config,
  mcp
})

interface FakeServer {
  readonly resources?: McpConnection["resources"]
  readonly read?: McpConnection["readResource"]
  readonly away?: McpFailed["reason"]
}

const failed = (server: string, reason: McpFailed["reason"]) =>
  new McpFailed({ server, reason, message: `${server}: ${reason}` })

const connectionOf = ({ read, resources }: FakeServer): McpConnection => ({
  tools: Effect.succeed([]),
  callTool: () => Effect.die("not used"),
  resources: resources ?? Effect.succeed([]),
  readResource: read ?? (() => Effect.succeed([])),
  prompts: Effect.succeed([]),
  getPrompt: () => Effect.die("not used"),
  notices: Stream.empty,
  lost: Effect.never
})

const serversOf = (servers: Readonly<Record<string, FakeServer>>): McpServers => ({
  list: Effect.succeed(
    Object.entries(servers).map(([id, { away }]) => ({
      id,
      name: id,
      status: away === undefined ? ("connected" as const) : ("error" as const)
    }))
  ),
  connection: (server) => {
    const found = servers[server]
    if (found === undefined) return Effect.fail(new UnknownMcpServer({ server }))
    return found.away === undefined ? Effect.succeed(connectionOf(found)) : Effect.fail(failed(server, found.away))
  },
  add: () => Effect.die("not used"),
  remove: () => Effect.die("not used"),
  restart: () => Effect.die("not used")
})

// -- The use case over it ---------------------------------------------------------------------------------------------

const hostFiles = new Map([
  ["/srv/docs/a.md", "# a"],
  ["/srv/docs/sub/b.txt", "b"],
  ["/srv/docs/sub/c.bin", "\0"],
  ["/srv/single.json", "{}"]
])

/** A machine with these files. */
const Host = Layer.succeed(HostFiles, {
  list: (root, rules) =>
    Effect.succeed(
      [...hostFiles]
        .flatMap(([path, text]) => {
          const below = path === root ? "" : path.startsWith(`${root}/`) ? path.slice(root.length + 1) : undefined
          return below === undefined ? [] : [{ path: below, size: Buffer.byteLength(text), lastModified: 0 }]
        })
        .filter(({ path }) => allows(rules, root, path))
        .slice(0, rules.maxFiles)
    ),
  read: (root, path, most) =>
    Effect.sync(() =>
      Option.map(Option.fromUndefinedOr(hostFiles.get(path === "" ? root : `${root}/${path}`)), (text) => ({
        bytes: Buffer.from(text).subarray(0, most),
        size: Buffer.byteLength(text),
        lastModified: 0
      }))
    )
})

const resourcesOf = (agent: RunningAgent | NoCurrentAgent | AgentNotRunnable) =>
  Resources.layer.pipe(
    Layer.provide(
      Layer.succeed(RunningAgents, {
        of: () => ("config" in agent ? Effect.succeed(agent) : Effect.fail(agent)),
        reload: () => Effect.die("not used"),
        events: Stream.empty
      })
    ),
    Layer.provide(Host),
    Layer.provideMerge(InMemoryLive.layer)
  )

const using = <A, E>(
  agent: RunningAgent | NoCurrentAgent | AgentNotRunnable,
  test: Effect.Effect<A, E, Layer.Success<ReturnType<typeof resourcesOf>>>
) => Effect.provide(test, resourcesOf(agent))

const save = Effect.fnUntraced(function* (
  workspace: Parameters<WorkspaceFiles["Service"]["commit"]>[0],
  files: Readonly<Record<string, string>>
) {
  yield* (yield* WorkspaceFiles).commit(
    workspace,
    Object.entries(files).map(([path, text]) => ({
      path: WorkspacePath.make(path),
      content: Buffer.from(text),
      basedOn: undefined
    }))
  )
})

const workspaceFiles = {
  ".env": "KEY=1",
  "preferences.yml": "x: 1",
  "agents/helper/helper.yml": "systemPrompt: x",
  "agents/helper/docs/one.md": "# one",
  "agents/helper/docs/.notes/two.md": "# two",
  "agents/helper/docs/deep/deeper/three.md": "# three",
  "agents/other/docs/four.md": "# four"
}

const urisOf = (found: ReadonlyArray<{ readonly uri: string }>) => found.map(({ uri }) => uri)

describe("Resources", () => {
  it.effect("of a workspace's files begin at the agent's directory, and end with the workspace", () =>
    using(
      agentOf(configOf([{ type: "filesystem", paths: ["docs", "/srv/docs"], maxDepth: 2 }])),
      Effect.gen(function* () {
        const workspace = yield* account()
        yield* save(workspace, workspaceFiles)
        const resources = yield* Resources
        const home = yield* (yield* WorkspaceFiles).root(workspace)
        const one = `fs://${home}/agents/helper/docs/one.md`
        const found = yield* resources.list(workspace)
        assert.deepStrictEqual(urisOf(found), [
          one,
          "fs:///srv/docs/a.md",
          "fs:///srv/docs/sub/b.txt",
          "fs:///srv/docs/sub/c.bin"
        ])
        assert.deepStrictEqual(found[1], {
          uri: "fs:///srv/docs/a.md",
          name: "a.md",
          mimeType: "text/markdown",
          source: "internal",
          size: 3,
          lastModified: "1970-01-01T00:00:00.000Z"
        })
        for (const { uri } of found) {
          assert.isTrue(yield* resources.exists(workspace, uri))
          yield* resources.read(workspace, uri)
        }
        assert.deepStrictEqual(readable(yield* resources.read(workspace, one)), {
          contents: [{ uri: one, mimeType: "text/markdown", text: "# one" }],
          _meta: { size: 5 }
        })
      })
    )
  )

  it.effect("are not found by any other spelling, nor outside of roots and rules", () =>
    using(
      agentOf(configOf([{ type: "filesystem", paths: ["docs", "../../../..", "/srv/docs"], maxDepth: 2 }])),
      Effect.gen(function* () {
        const workspace = yield* account()
        const foreign = yield* account()
        yield* save(workspace, workspaceFiles)
        yield* save(foreign, workspaceFiles)
        const resources = yield* Resources
        const home = yield* (yield* WorkspaceFiles).root(workspace)
        const docs = `${home}/agents/helper/docs`
        for (const uri of [
          `fs://${docs}/../docs/one.md`,
          `fs://${docs}/%2e%2e/docs/one.md`,
          `fs://${docs}/./one.md`,
          `fs://${docs}//one.md`,
          `fs://${docs}/one.md/`,
          `fs:${docs}/one.md`,
          `fs:/${docs}/one.md`,
          `FS://${docs}/one.md`,
          `file://${docs}/one.md`,
          `fs://${docs}`,
          `fs://${docs}/.notes/two.md`,
          `fs://${docs}/deep/deeper/three.md`,
          `fs://${home}/agents/other/docs/four.md`,
          `fs://${home}/.env`,
          `fs://${yield* (yield* WorkspaceFiles).root(foreign)}/agents/helper/docs/one.md`,
          "fs:///srv/single.json",
          "fs:///srv/docs/../single.json",
          "fs:///srv/docs/a.md\0",
          "fs:///srv/docs/a.md\n",
          "fs:///",
          "fs://",
          "fs:",
          "",
          "blob:",
          `blob:${"0".repeat(64)}`,
          `blob:${"0".repeat(63)}/`,
          "mcp:",
          "mcp:a:b",
          "http://127.0.0.1/",
          "toString"
        ]) {
          assert.isFalse(yield* resources.exists(workspace, uri), uri)
          const error = yield* Effect.flip(resources.read(workspace, uri))
          assert.strictEqual(error._tag, "ResourceNotFound", uri)
        }
      })
    )
  )

  it.effect("of the whole workspace leave out what is hidden", () =>
    using(
      agentOf(configOf([{ type: "filesystem", paths: ["../.."], maxDepth: 9, includeHidden: true }])),
      Effect.gen(function* () {
        const workspace = yield* account()
        yield* save(workspace, workspaceFiles)
        const resources = yield* Resources
        const home = yield* (yield* WorkspaceFiles).root(workspace)
        assert.deepStrictEqual(
          urisOf(yield* resources.list(workspace)),
          Object.keys(workspaceFiles)
            .filter((path) => !/(?:^|\/)\./.test(path))
            .sort()
            .map((path) => `fs://${home}/${path}`)
        )
      })
    )
  )

  it.effect("below a hidden root, or at a hidden file, are none", () =>
    using(
      agentOf(configOf([{ type: "filesystem", paths: ["docs/.notes", "../../.env"] }])),
      Effect.gen(function* () {
        const workspace = yield* account()
        yield* save(workspace, workspaceFiles)
        const resources = yield* Resources
        const home = yield* (yield* WorkspaceFiles).root(workspace)
        assert.deepStrictEqual(yield* resources.list(workspace), [])
        assert.isFalse(yield* resources.exists(workspace, `fs://${home}/agents/helper/docs/.notes/two.md`))
        assert.isFalse(yield* resources.exists(workspace, `fs://${home}/.env`))
      })
    )
  )

  it.effect("can be single files, are counted over all roots, and told once", () =>
    using(
      agentOf(
        configOf([
          { type: "filesystem", paths: ["docs/one.md", "/srv/single.json", "/srv/docs"], maxFiles: 3 },
          { type: "filesystem", paths: ["/srv"], includeExtensions: [".md", "json"] }
        ])
      ),
      Effect.gen(function* () {
        const workspace = yield* account()
        yield* save(workspace, workspaceFiles)
        const resources = yield* Resources
        const home = yield* (yield* WorkspaceFiles).root(workspace)
        assert.deepStrictEqual(urisOf(yield* resources.list(workspace)), [
          `fs://${home}/agents/helper/docs/one.md`,
          "fs:///srv/single.json",
          "fs:///srv/docs/a.md"
        ])
        // The list is bounded, what may be read is not.
        assert.isTrue(yield* resources.exists(workspace, "fs:///srv/docs/sub/b.txt"))
      })
    )
  )

  it.effect("that are blobs are listed when the agent has them, and read in any case", () =>
    Effect.gen(function* () {
      for (const has of [true, false]) {
        yield* using(
          agentOf(configOf(has ? [{ type: "blob" }] : [])),
          Effect.gen(function* () {
            const workspace = yield* account()
            const foreign = yield* account()
            const blobs = yield* Blobs
            const resources = yield* Resources
            const picture = yield* blobs.put(workspace, "owner", {
              bytes: new Uint8Array([0x89, 0x50, 0x4e, 0x47]),
              mimeType: "image/png",
              filename: "plan.png"
            })
            const uri = `blob:${picture.id}`
            assert.deepStrictEqual(
              yield* resources.list(workspace),
              has
                ? [
                    {
                      uri,
                      name: "plan.png",
                      mimeType: "image/png",
                      source: "internal",
                      size: 4,
                      lastModified: new Date(picture.createdAt).toISOString()
                    }
                  ]
                : []
            )
            assert.deepStrictEqual(readable(yield* resources.read(workspace, uri)), {
              contents: [{ uri, mimeType: "text/plain", text: "[Binary file: plan.png (4 bytes)]" }],
              _meta: { size: 4, isBinary: true, originalMimeType: "image/png" }
            })
            assert.isFalse(yield* resources.exists(foreign, uri))
            assert.isFalse(yield* resources.exists(workspace, `blob:${BlobId.make("0".repeat(64))}`))
          })
        )
      }
    })
  )

  it.effect("of MCP servers have qualified addresses; one that is away is missing, and the log says so", () => {
    const lines: Array<unknown> = []
    const log = Logger.make(({ message }) => void lines.push(message))
    const listing: ReadonlyArray<McpResource> = [{ uri: "demo://a:b/1", name: "One", mimeType: "text/plain", size: 3 }]
    const content: ReadonlyArray<McpResourceContent> = [
      { uri: "demo://a:b/1", text: "eins: ä" },
      { uri: "demo://a:b/2", bytes: new Uint8Array(5), mimeType: "image/png" }
    ]
    const servers = serversOf({
      demo: { resources: Effect.succeed(listing), read: () => Effect.succeed(content) },
      "demo:a": {
        read: (uri) => (uri === "x" ? Effect.succeed(content) : Effect.fail(failed("demo:a", "refused")))
      },
      broken: { away: "closed" },
      slow: { resources: Effect.never },
      odd: { resources: Effect.fail(failed("odd", "protocol")), read: () => Effect.fail(failed("odd", "deadline")) }
    })
    return using(
      agentOf(configOf(), servers),
      Effect.gen(function* () {
        const workspace = yield* account()
        const resources = yield* Resources
        const uri = "mcp:demo:demo://a:b/1"
        const shared = { uri, name: "One", mimeType: "text/plain", source: "mcp", serverName: "demo", size: 3 }
        const listed = yield* Effect.forkChild(resources.list(workspace))
        yield* TestClock.adjust("5 seconds")
        assert.deepStrictEqual(yield* Fiber.join(listed), [
          { ...shared, source: "mcp", metadata: { originalUri: "demo://a:b/1" } }
        ])
        assert.strictEqual(lines.length, 3)
        assert.include(JSON.stringify(lines), "broken: closed")
        assert.deepStrictEqual(yield* resources.ofServer(workspace, "demo"), [
          { ...shared, source: "mcp", originalUri: "demo://a:b/1" }
        ])
        const read = readable(yield* resources.read(workspace, uri))
        assert.deepStrictEqual(read, {
          contents: [
            { uri, mimeType: "text/plain", text: "eins: ä" },
            { uri: "mcp:demo:demo://a:b/2", mimeType: "text/plain", text: "[Binary file: demo://a:b/2 (5 bytes)]" }
          ],
          _meta: { size: 13, isBinary: true, originalMimeType: "image/png" }
        })
        assert.deepStrictEqual(readable(yield* resources.readOfServer(workspace, "demo", "demo://a:b/1")), read)
        assert.isTrue(yield* resources.exists(workspace, uri))
        // Of two names that begin alike the longer one is meant.
        assert.isTrue(yield* resources.exists(workspace, "mcp:demo:a:x"))
        assert.isFalse(yield* resources.exists(workspace, "mcp:demo:a:y"))
        assert.isFalse(yield* resources.exists(workspace, "mcp:odd:x"))
        assert.isFalse(yield* resources.exists(workspace, "mcp:broken:x"))

        const reasons = (effect: Effect.Effect<unknown, { readonly _tag: string }>) =>
          Effect.map(Effect.flip(effect), ({ _tag }) => _tag)
        assert.strictEqual(yield* reasons(resources.read(workspace, "mcp:demo:a:y")), "ResourceNotFound")
        assert.strictEqual(yield* reasons(resources.read(workspace, "mcp:nobody:x")), "ResourceNotFound")
        assert.strictEqual(yield* reasons(resources.read(workspace, "mcp:odd:x")), "McpFailed")
        assert.strictEqual(yield* reasons(resources.read(workspace, "mcp:broken:x")), "McpFailed")
        assert.strictEqual(yield* reasons(resources.ofServer(workspace, "nobody")), "UnknownMcpServer")
        assert.strictEqual(yield* reasons(resources.ofServer(workspace, "broken")), "McpFailed")
        assert.strictEqual(yield* reasons(resources.readOfServer(workspace, "nobody", "x")), "UnknownMcpServer")
        assert.strictEqual(yield* reasons(resources.readOfServer(workspace, "demo:a", "y")), "ResourceNotFound")
      })
    ).pipe(Effect.provide(Logger.layer([log])))
  })

  it.effect("are only blobs by their addresses while no agent can run", () =>
    Effect.gen(function* () {
      for (const error of [new NoCurrentAgent(), new AgentNotRunnable({ message: "It has mistakes." })]) {
        yield* using(
          error,
          Effect.gen(function* () {
            const workspace = yield* account()
            const resources = yield* Resources
            const { id } = yield* (yield* Blobs).put(workspace, "owner", {
              bytes: Buffer.from("note"),
              mimeType: "text/plain"
            })
            assert.deepStrictEqual(yield* resources.list(workspace), [])
            assert.isTrue(yield* resources.exists(workspace, `blob:${id}`))
            assert.isFalse(yield* resources.exists(workspace, "fs:///srv/docs/a.md"))
            assert.isFalse(yield* resources.exists(workspace, "mcp:demo:x"))
            const unknown = yield* Effect.flip(resources.ofServer(workspace, "demo"))
            assert.strictEqual(unknown._tag, "UnknownMcpServer")
          })
        )
      }
    })
  )

  it.effect("of more than 10 MB give their beginning, without half a letter at its end", () => {
    hostFiles.set("/srv/docs/large.txt", `x${"ä".repeat(mostRead)}`)
    return using(
      agentOf(configOf([{ type: "filesystem", paths: ["/srv/docs"] }])),
      Effect.gen(function* () {
        const workspace = yield* account()
        const { _meta, contents } = readable(yield* (yield* Resources).read(workspace, "fs:///srv/docs/large.txt"))
        assert.strictEqual(contents[0]?.text, `x${"ä".repeat(mostRead / 2 - 1)}`)
        assert.deepStrictEqual(_meta, { size: 2 * mostRead + 1, isTruncated: true })
      })
    ).pipe(Effect.ensuring(Effect.sync(() => hostFiles.delete("/srv/docs/large.txt"))))
  })
})
