import { Effect } from "effect"
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { McpConnection } from "../../../src/application/ports/mcp/McpConnector.ts"
import type { McpServerConfig } from "../../../src/domain/agent/AgentConfig.ts"
import { failure, startConnector } from "../../fixtures/mcp/Connector.ts"
import { everything, everythingOver, filesystem, type HttpServer } from "../../fixtures/mcp/Servers.ts"

const connector = startConnector()
const { run } = connector
let sse: HttpServer
let http: HttpServer

beforeAll(async () => {
  ;[sse, http] = await Promise.all([everythingOver("sse"), everythingOver("streamableHttp")])
})

afterAll(async () => {
  await connector.stop()
  await Promise.all([sse.stop(), http.stop()])
})

describe.each<{ over: string; config: () => McpServerConfig }>([
  { over: "stdio", config: () => everything },
  { over: "SSE", config: () => ({ type: "sse", url: sse.url }) },
  { over: "streamable HTTP", config: () => ({ type: "http", url: http.url }) }
])("the reference server over $over", ({ config }) => {
  let connection: McpConnection
  let close: () => Promise<void>

  beforeAll(async () => {
    ;({ close, connection } = await connector.connect(config()))
  })
  afterAll(() => close())

  test("lists its tools and runs them", async () => {
    const tools = await run(connection.tools)
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["echo", "get-sum"]))
    expect(tools.find(({ name }) => name === "echo")).toEqual({
      name: "echo",
      description: expect.stringMatching(/\S/u),
      inputSchema: expect.objectContaining({ type: "object", properties: { message: expect.anything() } }),
      isIdempotent: expect.any(Boolean)
    })
    expect(await run(connection.callTool("echo", { message: "hello" }))).toEqual({
      isError: false,
      content: [{ type: "text", text: "Echo: hello" }]
    })
    expect(await run(connection.callTool("get-structured-content", { location: "New York" }))).toMatchObject({
      structuredContent: { temperature: expect.any(Number) }
    })
    expect(await run(connection.callTool("get-tiny-image", {}))).toMatchObject({
      content: expect.arrayContaining([expect.objectContaining({ type: "image", mimeType: "image/png" })])
    })
  })

  test("says what is wrong with arguments, and that there is no such tool", async () => {
    expect(await run(connection.callTool("get-sum", { a: "no number" }))).toMatchObject({ isError: true })
    expect(await run(connection.callTool("no-such-tool", {}))).toMatchObject({ isError: true })
  })

  test("gives resources, as text and as bytes", async () => {
    const resources = await run(connection.resources)
    expect(resources.length).toBeGreaterThan(0)
    expect(resources[0]).toMatchObject({ uri: expect.stringContaining("://"), name: expect.stringMatching(/\S/u) })
    const [text] = await run(connection.readResource("demo://resource/dynamic/text/1"))
    expect(text).toMatchObject({ mimeType: "text/plain", text: expect.stringContaining("Resource 1") })
    expect(text).not.toHaveProperty("bytes")
    const [blob] = await run(connection.readResource("demo://resource/dynamic/blob/1"))
    expect(new TextDecoder().decode(blob?.bytes)).toContain("Resource 1")
    expect(blob).not.toHaveProperty("text")
    expect((await failure(run(connection.readResource("demo://nothing")))).reason).toBe("refused")
  })

  test("resolves prompts", async () => {
    const prompts = await run(connection.prompts)
    expect(prompts.find(({ name }) => name === "args-prompt")).toMatchObject({
      arguments: [{ name: "city", required: true }, { name: "state" }]
    })
    expect(await run(connection.getPrompt("args-prompt", { city: "Paris" }))).toEqual({
      text: "What's weather in Paris?",
      resources: []
    })
    expect(await run(connection.getPrompt("resource-prompt", { resourceType: "Text", resourceId: "1" }))).toEqual({
      text: expect.stringMatching(/\S/u),
      resources: ["demo://resource/dynamic/text/1"]
    })
  })

  test("answers many calls at once, each its own", async () => {
    const answers = await run(
      Effect.forEach(
        Array.from({ length: 100 }, (_, index) => index),
        (index) => connection.callTool("echo", { message: `${index}` }),
        { concurrency: "unbounded" }
      )
    )
    expect(answers.map(({ content }) => content[0]?.["text"])).toEqual(answers.map((_, index) => `Echo: ${index}`))
  })
})

test("a call that takes longer than its deadline fails alone", async () => {
  const { close, connection } = await connector.connect(everything, 4_000)
  const slow = failure(run(connection.callTool("trigger-long-running-operation", { duration: 15, steps: 1 })))
  expect(await run(connection.callTool("echo", { message: "meanwhile" }))).toMatchObject({ isError: false })
  expect((await slow).reason).toBe("deadline")
  expect(await run(connection.callTool("echo", { message: "after" }))).toMatchObject({ isError: false })
  await close()
})

test.each(["sse", "streamableHttp"] as const)("a server over %s that went away is lost", async (transport) => {
  const server = await everythingOver(transport)
  const { close, connection } = await connector.connect({
    type: transport === "sse" ? "sse" : "http",
    url: server.url
  })
  await server.stop()
  expect((await failure(run(connection.callTool("echo", { message: "x" })))).reason).toMatch(/unreachable|closed/u)
  expect((await run(connection.lost)).reason).toMatch(/unreachable|closed/u)
  await close()
})

test("a server over HTTP that was started anew, and does not know the session, is lost", async () => {
  const server = await everythingOver("streamableHttp")
  const { close, connection } = await connector.connect({ type: "http", url: server.url })
  await server.stop()
  const next = await everythingOver("streamableHttp", server.port)
  await failure(run(connection.callTool("echo", { message: "x" })))
  await run(connection.lost)
  await close()
  await next.stop()
})

test("the reference server for files reads its directory, and nothing beside it", async () => {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "mcp-files-")))
  await writeFile(join(directory, "note.txt"), "in the file")
  const { close, connection } = await connector.connect(filesystem(directory))
  expect(await run(connection.callTool("read_text_file", { path: join(directory, "note.txt") }))).toMatchObject({
    isError: false,
    content: [{ type: "text", text: "in the file" }]
  })
  expect(await run(connection.callTool("read_text_file", { path: "/etc/passwd" }))).toMatchObject({ isError: true })
  // It offers neither, so it is not asked.
  expect(await run(connection.resources)).toEqual([])
  expect(await run(connection.prompts)).toEqual([])
  await close()
  await rm(directory, { recursive: true })
})
