import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import type { AgentTool, ToolCallContext } from "../../src/application/conversation/AgentTool.ts"
import { AgentTools } from "../../src/application/conversation/AgentTools.ts"
import { blobOwner } from "../../src/application/conversation/SessionsOfWorkspace.ts"
import type { McpConnection, McpElicitor, McpToolResult } from "../../src/application/ports/mcp/McpConnector.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { MemoryStore } from "../../src/application/ports/storage/MemoryStore.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { Search } from "../../src/application/search/Search.ts"
import { BlobId, largestBlob } from "../../src/domain/resource/Blob.ts"
import { submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"
import { agentWith, around, callIn, failed, type ServerAtHand, session, toolOf } from "./AgentsAtHand.ts"

const png = Buffer.concat([Buffer.from([0x89]), Buffer.from("PNG\r\n\x1a\n"), Buffer.alloc(20)])

/** The tools of an agent, in a workspace that is there. */
const having = (
  names: ReadonlyArray<string>,
  servers: Readonly<Record<string, ServerAtHand>> = {},
  files: ReadonlyMap<string, string> = new Map()
) => {
  const resources = { enabled: true, resources: [{ type: "filesystem" as const, paths: ["/srv"] }] }
  const agent = agentWith({ internalTools: names, internalResources: resources }, servers)
  const { layer, log } = around(agent, files)
  const tools = Effect.gen(function* () {
    const workspace = yield* account()
    const all = yield* (yield* AgentTools).of(workspace, agent)
    const run = (name: string, args: Parameters<AgentTool["run"]>[0], call: ToolCallContext = callIn(workspace)) =>
      Effect.flatMap(Effect.fromNullishOr(all.find((tool) => tool.name === name)), (tool) => tool.run(args, call))
    return { workspace, all, run }
  })
  const Live = AgentTools.layer.pipe(Layer.provide(Search.layer), Layer.provideMerge(layer))
  return { tools, log, provided: Effect.provide(Live) }
}

const answering = (result: Partial<McpToolResult>): Partial<McpConnection> => ({
  tools: Effect.succeed([toolOf("do")]),
  callTool: () => Effect.succeed({ isError: false, content: [], ...result })
})

describe("tools of MCP servers", () => {
  it.effect("are called by their server and their own name, with their schema and whether they may be repeated", () => {
    const inputSchema = { type: "object", properties: { path: { type: "string" } }, required: ["path"] }
    const { provided, tools } = having([], {
      files: {
        tools: Effect.succeed([
          toolOf("read", { inputSchema, isIdempotent: true }),
          toolOf("write", { inputSchema: {} })
        ])
      },
      internal: { tools: Effect.succeed([toolOf("save_memory")]) }
    })
    return Effect.gen(function* () {
      const { all } = yield* tools
      assert.deepStrictEqual(
        all.map(({ isIdempotent, name, parameters, policyNames }) => ({ isIdempotent, name, parameters, policyNames })),
        [
          {
            name: "files--read",
            policyNames: ["files--read", "mcp--files--read"],
            parameters: inputSchema,
            isIdempotent: true
          },
          {
            name: "files--write",
            policyNames: ["files--write", "mcp--files--write"],
            // Vendors want to be told of the fields of an object, even if there are none.
            parameters: { type: "object", properties: {} },
            isIdempotent: false
          },
          {
            name: "internal--save_memory",
            // What is allowed to the service's own tool is not allowed to this one.
            policyNames: ["mcp--internal--save_memory"],
            parameters: { type: "object", properties: {} },
            isIdempotent: false
          }
        ]
      )
    }).pipe(provided)
  })

  it.effect("have names that vendors take, each its own, whatever others are there", () => {
    const long = "x".repeat(80)
    const named = [toolOf("a.b"), toolOf("a b"), toolOf(long), toolOf(`${long}y`), toolOf("ä"), toolOf("plain")]
    const both = having([], {
      s: { tools: Effect.succeed(named) },
      "s--a": { tools: Effect.succeed([toolOf("c")]) },
      t: { tools: Effect.succeed(named) }
    })
    const alone = having([], { t: { tools: Effect.succeed(named) } })
    return Effect.gen(function* () {
      const all = (yield* Effect.provide(both.tools, Layer.empty).pipe(both.provided)).all
      const names = all.map(({ name }) => name)
      assert.strictEqual(new Set(names).size, names.length)
      for (const name of names) assert.match(name, /^[A-Za-z0-9_-]{1,64}$/u)
      assert.include(names, "s--plain")
      assert.include(names, "s--a--c")
      const { all: fewer } = yield* alone.tools.pipe(alone.provided)
      assert.deepStrictEqual(
        fewer.map(({ name }) => name),
        names.filter((name) => name.startsWith("t--"))
      )
      assert.deepStrictEqual(all[0]?.policyNames, ["s--a.b", "mcp--s--a.b"])
    })
  })

  it.effect("that two servers would call alike are two", () => {
    const { provided, tools } = having([], {
      a: { tools: Effect.succeed([toolOf("b--c")]) },
      "a--b": { tools: Effect.succeed([toolOf("c")]) }
    })
    return Effect.gen(function* () {
      const names = (yield* tools).all.map(({ name }) => name)
      assert.strictEqual(new Set(names).size, 2)
      for (const name of names) assert.match(name, /^a--b--c_[a-z0-9]+$/u)
    }).pipe(provided)
  })

  it.effect("of servers that are away or slow are missing after five seconds, and the log says so", () => {
    const { log, provided, tools } = having([], {
      away: "unreachable",
      slow: "slow",
      silent: { tools: Effect.never },
      well: {
        tools: Effect.succeed([toolOf("do"), toolOf("huge", { inputSchema: { description: "x".repeat(70_000) } })])
      }
    })
    return Effect.gen(function* () {
      const waiting = yield* Effect.forkChild(tools)
      yield* TestClock.adjust(4_900)
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust(200)
      const { all } = yield* Fiber.join(waiting)
      assert.deepStrictEqual(
        all.map(({ name }) => name),
        ["well--do"]
      )
      for (const about of ["away: unreachable", '"server":"slow"', '"server":"silent"', '"tool":"huge"']) {
        assert.isTrue(
          log.some((line) => line.includes(about)),
          about
        )
      }
    }).pipe(provided)
  })

  it.effect("tell the model and listeners what they answered; bytes are blobs of the session", () => {
    const { provided, tools } = having([], {
      s: answering({
        content: [
          { type: "text", text: "two files" },
          { type: "image", data: png.toString("base64"), mimeType: "image/png" },
          { type: "audio", data: Buffer.from("sound").toString("base64"), mimeType: "audio/ogg" },
          { type: "resource", resource: { uri: "file:///a.md", mimeType: "text/markdown", text: "# a" } },
          {
            type: "resource",
            resource: {
              uri: "file:///a.pdf",
              mimeType: "application/pdf",
              blob: Buffer.from("%PDF-1.7").toString("base64")
            }
          },
          { type: "resource_link", uri: "file:///b.md", name: "b", description: "the other one" },
          { type: "image", data: "no base64!", mimeType: "image/png" },
          { type: "audio", data: "QUJD", mimeType: "\u0000" },
          { type: "hologram", depth: 3 }
        ]
      })
    })
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      const outcome = yield* run("s--do", {})
      const blobs = yield* Blobs
      const kept = yield* blobs.list(workspace)
      const image = `blob:${kept.find(({ mimeType }) => mimeType === "image/png")?.id ?? ""}`
      const sound = `blob:${kept.find(({ mimeType }) => mimeType === "audio/ogg")?.id ?? ""}`
      const unknown = `blob:${kept.find(({ mimeType }) => mimeType === "application/octet-stream")?.id ?? ""}`
      const pdf = `blob:${kept.find(({ mimeType }) => mimeType === "application/pdf")?.id ?? ""}`
      assert.isTrue(outcome.success)
      assert.strictEqual(
        outcome.text,
        [
          "two files",
          `[Image (image/png): ${image}]`,
          `[Audio (audio/ogg): ${sound}]`,
          "Resource file:///a.md:\n# a",
          `[Resource file:///a.pdf (application/pdf): ${pdf}]`,
          "[Resource b: mcp:s:file:///b.md] the other one",
          "[Image (image/png): it could not be kept]",
          `[Audio (\u0000): ${unknown}]`,
          '{"type":"hologram","depth":3}'
        ].join("\n")
      )
      assert.deepStrictEqual(outcome.media, [
        { type: "image", image, mimeType: "image/png" },
        { type: "file", data: pdf, mimeType: "application/pdf" }
      ])
      assert.deepStrictEqual(outcome.content[1], { type: "image", data: image, mimeType: "image/png" })
      assert.strictEqual(JSON.stringify(outcome.content).includes(png.toString("base64")), false)
      assert.strictEqual(kept.length, 4)
      yield* blobs.release(workspace, blobOwner(session))
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
    }).pipe(provided)
  })

  it.effect("answer with no more than a model and listeners can bear", () => {
    const { provided, tools } = having([], {
      long: answering({ content: [{ type: "text", text: "x".repeat(300_000) }] }),
      many: answering({
        content: Array.from({ length: 150 }, (_, index) => ({ type: "text", text: `part ${index}` }))
      }),
      large: answering({
        content: [{ type: "image", data: Buffer.alloc(largestBlob + 1).toString("base64"), mimeType: "image/png" }]
      }),
      structured: answering({ structuredContent: { degrees: 20 } }),
      silent: answering({}),
      broken: answering({ isError: true })
    })
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      const long = yield* run("long--do", {})
      assert.isBelow(long.text.length, 200_200)
      assert.match(long.text, /first 200000 of 300000 characters/u)
      assert.isBelow(JSON.stringify(long.content).length, 21_000)
      const many = yield* run("many--do", {})
      assert.match(many.text, /part 99\n\[50 more parts were left out\.\]$/u)
      assert.match((yield* run("large--do", {})).text, /could not be kept/u)
      assert.deepStrictEqual(yield* (yield* Blobs).list(workspace), [])
      const structured = yield* run("structured--do", {})
      assert.strictEqual(structured.text, '{"degrees":20}')
      assert.deepStrictEqual(structured.meta, { structuredContent: { degrees: 20 } })
      assert.deepStrictEqual((yield* run("silent--do", {})).text, "The tool answered nothing.")
      const broken = yield* run("broken--do", {})
      assert.isFalse(broken.success)
      assert.match(broken.text, /did not say why/u)
    }).pipe(provided)
  })

  it.effect("that fail, and servers that are gone, are told to the model", () => {
    const { provided, tools } = having([], {
      s: { tools: Effect.succeed([toolOf("do")]), callTool: () => Effect.fail(failed("s", "deadline")) }
    })
    return Effect.gen(function* () {
      const { run } = yield* tools
      const outcome = yield* run("s--do", {})
      assert.isFalse(outcome.success)
      assert.strictEqual(outcome.text, "s: deadline")
    }).pipe(provided)
  })

  it.effect("ask a person in the session of the call, and are told what they said", () => {
    const asked: Array<unknown> = []
    const answers: Array<unknown> = []
    const asking = (elicitor: McpElicitor | undefined) =>
      Effect.gen(function* () {
        assert.strictEqual(elicitor?.whom, session)
        const form = { message: "Which?", schema: { type: "object" } }
        answers.push(yield* elicitor?.ask(form) ?? Effect.undefined)
        return { isError: false, content: [] }
      })
    const { provided, tools } = having([], {
      s: { tools: Effect.succeed([toolOf("do")]), callTool: (_name, _args, elicitor) => asking(elicitor) }
    })
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      for (const answer of [
        { status: "approved" as const, formData: { which: "that" } },
        { status: "denied" as const },
        { status: "cancelled" as const }
      ]) {
        yield* run(
          "s--do",
          {},
          callIn(workspace, (form) => Effect.sync(() => (asked.push(form), answer)))
        )
      }
      assert.deepStrictEqual(asked[0], { message: "Which?", schema: { type: "object" }, serverName: "s" })
      assert.deepStrictEqual(answers, [
        { action: "accept", content: { which: "that" } },
        { action: "decline" },
        { action: "cancel" }
      ])
    }).pipe(provided)
  })
})

const all = ["search_history", "save_memory", "search_memory", "read_resource", "ask_user"]

describe("internal tools", () => {
  it.effect("are those that the agent lists, each once; of others the log says that there are none", () => {
    const { log, provided, tools } = having(["ask_user", "fly", "ask_user", "search_memory"])
    return Effect.gen(function* () {
      const { all } = yield* tools
      assert.deepStrictEqual(
        all.map(({ asksItself, isIdempotent, name, policyNames }) => ({ asksItself, isIdempotent, name, policyNames })),
        [
          { name: "ask_user", policyNames: ["ask_user", "internal--ask_user"], asksItself: true, isIdempotent: true },
          {
            name: "search_memory",
            policyNames: ["search_memory", "internal--search_memory"],
            asksItself: false,
            isIdempotent: true
          }
        ]
      )
      assert.isTrue(log.some((line) => line.includes('"tool":"fly"')))
    }).pipe(provided)
  })

  it.effect("say what they take in a schema of an object without further fields", () => {
    const { provided, tools } = having(all)
    return Effect.gen(function* () {
      for (const { description, name, parameters } of (yield* tools).all) {
        assert.strictEqual(parameters["type"], "object", name)
        assert.strictEqual(parameters["additionalProperties"], false, name)
        assert.isAbove(description.length, 20, name)
        assert.notInclude(JSON.stringify(parameters), "$ref", name)
      }
    }).pipe(provided)
  })

  it.effect("tell the model what to change in its arguments", () => {
    const { provided, tools } = having(all)
    return Effect.gen(function* () {
      const { run } = yield* tools
      for (const [name, args, expected] of [
        ["search_history", {}, "- query: "],
        ["search_history", { query: "x", limit: 99 }, "- limit: "],
        ["save_memory", { content: "" }, "- content: "],
        ["save_memory", { content: "x", tags: Array.from({ length: 11 }, (_, index) => `${index}`) }, "- tags: "],
        ["search_memory", { tags: "one" }, "- tags: "],
        ["read_resource", { uri: 1 }, "- uri: "],
        ["ask_user", { question: "x", options: ["one"] }, "- options: "]
      ] as const) {
        const outcome = yield* run(name, args)
        assert.isFalse(outcome.success, name)
        assert.include(outcome.text, expected)
      }
    }).pipe(provided)
  })

  it.effect("find what was said in this workspace", () => {
    const { provided, tools } = having(all)
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      const foreign = yield* account()
      const journal = yield* TurnJournal
      for (const place of [workspace, foreign])
        yield* journal.submit(turnIn(place, session), submission("The falcon flies at noon"))
      const outcome = yield* run("search_history", { query: "FALCON", limit: 5 })
      assert.isTrue(outcome.success)
      assert.match(outcome.text, /^Found messages: 1\.\n- this conversation, user, \S+: "The falcon flies at noon"$/u)
      assert.match((yield* run("search_history", { query: "eagle" })).text, /No message has "eagle"/u)
      assert.match((yield* run("search_history", { query: "falcon", role: "assistant" })).text, /No message/u)
    }).pipe(provided)
  })

  it.effect("save a memory of a call once, however often it is run, and find it by its words", () => {
    const { provided, tools } = having(all)
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      const args = { content: "Ann likes tea, not coffee.", tags: [" drinks ", "drinks"] }
      const first = yield* run("save_memory", args)
      assert.deepStrictEqual(yield* run("save_memory", args), first)
      yield* run("save_memory", { content: "Bob likes coffee." }, callIn(workspace, undefined, "call-2"))
      const store = yield* MemoryStore
      const kept = yield* store.list(
        workspace,
        { tags: [], source: "system", pinned: undefined },
        { limit: 10, offset: 0 }
      )
      assert.deepStrictEqual(
        kept.map(({ content, tags }) => ({ content, tags })).toSorted((a, b) => a.content.localeCompare(b.content)),
        [
          { content: "Ann likes tea, not coffee.", tags: ["drinks"] },
          { content: "Bob likes coffee.", tags: [] }
        ]
      )
      const found = yield* run("search_memory", { query: "coffee, and TEA?" })
      assert.match(
        found.text,
        /^Found memories: 2\.\n- \S+ \(\d{4}-\d\d-\d\d, tags: drinks\): Ann .*\n- \S+ \(\S+\): Bob /u
      )
      assert.match(
        (yield* run("search_memory", { query: "coffee", limit: 1 })).text,
        /Found memories: 2, of which these are 1\.\n/u
      )
      assert.match((yield* run("search_memory", { tags: ["drinks"] })).text, /^Found memories: 1\./u)
      assert.match((yield* run("search_memory", { query: "beer" })).text, /No memory/u)
    }).pipe(provided)
  })

  it.effect("read resources: texts, images as blobs of the session, and nothing that is not there", () => {
    const files = new Map([
      ["/srv/a.md", "# a"],
      ["/srv/b.bin", "\0\0"]
    ])
    const { provided, tools } = having(all, {}, files)
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      assert.strictEqual((yield* run("read_resource", { uri: "fs:///srv/a.md" })).text, "# a")
      const binary = yield* run("read_resource", { uri: "fs:///srv/b.bin" })
      assert.match(binary.text, /^\[Binary file: b\.bin \(application\/octet-stream, 2 bytes\)\]$/u)
      assert.isUndefined(binary.media)
      const blobs = yield* Blobs
      const { id } = yield* blobs.put(workspace, "prompt:p", { bytes: png, mimeType: "image/png", filename: "a.png" })
      const image = yield* run("read_resource", { uri: `blob:${id}` })
      assert.deepStrictEqual(image.media, [{ type: "image", image: `blob:${id}`, mimeType: "image/png" }])
      yield* blobs.release(workspace, "prompt:p")
      assert.isTrue(Option.isSome(yield* blobs.read(workspace, BlobId.make(id))))
      for (const uri of ["fs:///etc/passwd", "nothing", "fs:///srv/../etc/passwd"]) {
        const missing = yield* run("read_resource", { uri })
        assert.isFalse(missing.success)
        assert.include(missing.text, uri)
      }
    }).pipe(provided)
  })

  it.effect("ask the user, and take no for an answer", () => {
    const { provided, tools } = having(all)
    return Effect.gen(function* () {
      const { run, workspace } = yield* tools
      const asked: Array<unknown> = []
      const ask = (answer: Effect.Success<ReturnType<ToolCallContext["elicit"]>>, options?: ReadonlyArray<string>) =>
        run(
          "ask_user",
          { question: "Tea?", ...(options === undefined ? {} : { options }) },
          callIn(workspace, (form) => Effect.sync(() => (asked.push(form), answer)))
        )
      const answered = yield* ask({ status: "approved", formData: { answer: "Yes" } }, ["Yes", "No"])
      assert.deepStrictEqual([answered.success, answered.text], [true, "Yes"])
      assert.deepStrictEqual(asked, [
        {
          message: "Tea?",
          schema: {
            type: "object",
            properties: { answer: { type: "string", title: "Answer", enum: ["Yes", "No"] } },
            required: ["answer"]
          }
        }
      ])
      assert.strictEqual((yield* ask({ status: "approved", formData: { other: 1 } })).text, '{"other":1}')
      assert.match((yield* ask({ status: "approved" })).text, /empty answer/u)
      assert.match((yield* ask({ status: "approved", formData: {} })).text, /empty answer/u)
      assert.isFalse((yield* ask({ status: "denied" })).success)
      assert.match((yield* ask({ status: "cancelled" })).text, /dismissed/u)
    }).pipe(provided)
  })
})
