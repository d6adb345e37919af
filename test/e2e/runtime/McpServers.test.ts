import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { gone, processesWith } from "../../fixtures/mcp/Processes.ts"
import { everything, everythingOver, type HttpServer, misbehaving } from "../../fixtures/mcp/Servers.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { anyStore, stores } from "../../fixtures/ServiceProcess.ts"

const mark = randomUUID()

describe.each(anyStore)("MCP servers on $store", ({ options }) => {
  let runtime: RuntimeService
  let http: HttpServer

  beforeAll(async () => {
    http = await everythingOver("streamableHttp")
    runtime = await startRuntime({
      ...(await options()),
      env: { MCP_STDIO: "allowed", ALLOW_PRIVATE_UPSTREAMS: "true", CANARY_API_KEY: "canary-of-the-operator" }
    })
    const added = await runtime.mine("POST", "/api/mcp/servers", { name: "everything", config: everything })
    expect([added.status, added.body]).toEqual([200, { status: "connected", name: "everything" }])
  })
  afterAll(async () => {
    await http.stop()
    await runtime.service.remove()
  })

  test("POST /api/mcp/servers: 200 over streamable HTTP, and takes the place of the server of its name", async () => {
    const config = { type: "http", url: http.url }
    for (const _ of [1, 2]) {
      const answer = await runtime.mine("POST", "/api/mcp/servers", { name: "remote", config })
      expect([answer.status, answer.body]).toEqual([200, { status: "connected", name: "remote" }])
    }
    const { body } = await runtime.mine("GET", "/api/mcp/servers")
    expect(body).toEqual({ servers: expect.arrayContaining([{ id: "remote", name: "remote", status: "connected" }]) })
    expect((await runtime.mine("DELETE", "/api/mcp/servers/remote")).status).toBe(200)
  })

  test.each([
    ["no body", undefined],
    ["no name", { config: everything }],
    ["a name that no path can have", { name: "a/b", config: everything }],
    ["an empty name", { name: "", config: everything }],
    ["no config", { name: "x" }],
    ["an unknown type", { name: "x", config: { type: "pigeon", url: "http://localhost" } }],
    ["no command", { name: "x", config: { type: "stdio" } }],
    ["a timeout that is none", { name: "x", config: { ...everything, timeout: 0 } }],
    ["an environment that is none", { name: "x", config: { ...everything, env: ["A=B"] } }],
    ["an address that is none", { name: "x", config: { type: "http", url: "nowhere" } }],
    ["an address of another kind", { name: "x", config: { type: "sse", url: "file:///etc/passwd" } }],
    ["NUL", { name: "x", config: { type: "stdio", command: "a\u0000b" } }]
  ])("POST /api/mcp/servers: 400 for %s", async (_, body) => {
    const answer = await runtime.mine("POST", "/api/mcp/servers", body ?? "")
    expect([answer.status, answer.body]).toEqual([400, messageError])
  })

  test("POST /api/mcp/servers: 502 for a server that cannot be connected, and nothing is changed", async () => {
    const before = (await runtime.mine("GET", "/api/mcp/servers")).body
    for (const config of [
      misbehaving("crash", mark, "at-start"),
      { ...misbehaving("hang", mark, "at-start"), timeout: 500 },
      { type: "stdio", command: "no-such-command" },
      { type: "http", url: "http://127.0.0.1:1/mcp" },
      { type: "sse", url: "http://nowhere.invalid/sse" }
    ]) {
      const answer = await runtime.mine("POST", "/api/mcp/servers", { name: "broken", config })
      expect([answer.status, answer.body]).toEqual([502, messageError])
    }
    expect((await runtime.mine("GET", "/api/mcp/servers")).body).toEqual(before)
    expect(await gone(`MARK=${mark}`, 5_000)).toEqual([])
  })

  test("GET /api/mcp/servers: 200 with each workspace's own", async () => {
    const mine = await runtime.mine("GET", "/api/mcp/servers")
    expect([mine.status, mine.body]).toEqual([
      200,
      { servers: expect.arrayContaining([{ id: "everything", name: "everything", status: "connected" }]) }
    ])
    const foreign = await runtime.foreign("GET", "/api/mcp/servers")
    expect(JSON.stringify(foreign.body)).not.toContain("everything")
  })

  test("GET /api/mcp/servers/{serverId}/tools: 200 with what each takes", async () => {
    const answer = await runtime.mine("GET", "/api/mcp/servers/everything/tools")
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      tools: expect.arrayContaining([
        {
          id: "echo",
          name: "echo",
          description: expect.stringMatching(/\S/u),
          inputSchema: expect.objectContaining({ type: "object" })
        }
      ])
    })
  })

  test("POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 200 and whether the tool succeeded", async () => {
    const execute = (tool: string, body: unknown) =>
      runtime.mine("POST", `/api/mcp/servers/everything/tools/${tool}/execute`, body)
    const echoed = await execute("echo", { arguments: { message: "hello" } })
    expect([echoed.status, echoed.body]).toEqual([
      200,
      { success: true, data: { content: [{ type: "text", text: "Echo: hello" }] } }
    ])
    expect((await execute("get-structured-content", { arguments: { location: "Chicago" } })).body).toMatchObject({
      success: true,
      data: { structuredContent: { temperature: expect.any(Number) } }
    })
    // The arguments may stand by themselves, or be none.
    expect((await execute("echo", { message: "bare" })).text).toContain("Echo: bare")
    const failed = await execute("get-sum", { arguments: { a: "x" } })
    expect([failed.status, failed.body]).toMatchObject([200, { success: false, data: { content: [{ type: "text" }] } }])
    // A program of a tenant sees nothing of the operator's.
    const environment = await execute("get-env", {})
    expect(environment.text).toContain("PATH")
    expect(environment.text).not.toMatch(/canary|DATABASE_URL|SECRETS_KEY/u)
  })

  test("POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 400 for a body with mistakes", async () => {
    for (const body of ["{", '"text"', "null", []]) {
      const answer = await runtime.mine("POST", "/api/mcp/servers/everything/tools/echo/execute", body)
      expect([answer.status, answer.body]).toEqual([400, messageError])
    }
  })

  test.each([
    ["GET /api/mcp/servers/{serverId}/tools: 404 for a server that does not exist", "GET", "/tools"],
    [
      "POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 404 for a server that does not exist",
      "POST",
      "/tools/echo/execute"
    ],
    ["POST /api/mcp/servers/{serverId}/restart: 404 for a server that does not exist", "POST", "/restart"],
    ["DELETE /api/mcp/servers/{serverId}: 404 for a server that does not exist", "DELETE", ""]
  ])("%s, or is another organization's", async (_, method, path) => {
    const body = path.endsWith("execute") ? {} : undefined
    const none = await runtime.mine(method, `/api/mcp/servers/nothing${path}`, body)
    expect([none.status, none.body]).toEqual([404, messageError])
    const foreign = await runtime.foreign(method, `/api/mcp/servers/everything${path}`, body)
    expect([foreign.status, foreign.body]).toEqual([404, messageError])
    for (const server of ["..", "%2e%2e%2f", "__proto__", "constructor"]) {
      expect((await runtime.mine(method, `/api/mcp/servers/${server}${path}`, body)).status).toBe(404)
    }
  })

  test("POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 404 for a tool that does not exist", async () => {
    const answer = await runtime.mine("POST", "/api/mcp/servers/everything/tools/nothing/execute", {})
    expect([answer.status, answer.body]).toEqual([404, messageError])
  })

  test("POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 504 after the server's timeout, and others go on", async () => {
    const config = { ...misbehaving("hang", mark), timeout: 2_000 }
    expect((await runtime.mine("POST", "/api/mcp/servers", { name: "hangs", config })).status).toBe(200)
    const hanging = runtime.mine("POST", "/api/mcp/servers/hangs/tools/misbehave/execute", {})
    const other = await runtime.mine("POST", "/api/mcp/servers/everything/tools/echo/execute", {
      arguments: { message: "x" }
    })
    expect(other.status).toBe(200)
    const answer = await hanging
    expect([answer.status, answer.body]).toEqual([504, messageError])
    expect((await runtime.mine("POST", "/api/mcp/servers/hangs/tools/answer/execute", {})).status).toBe(200)
    expect((await runtime.mine("DELETE", "/api/mcp/servers/hangs")).status).toBe(200)
  })

  test("POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 502 for a server that crashes, which is there again soon", async () => {
    const execute = (tool: string) => runtime.mine("POST", `/api/mcp/servers/crashes/tools/${tool}/execute`, {})
    const config = misbehaving("crash", mark)
    expect((await runtime.mine("POST", "/api/mcp/servers", { name: "crashes", config })).status).toBe(200)
    const crashed = await execute("misbehave")
    expect([crashed.status, crashed.body]).toEqual([502, messageError])
    await expect.poll(async () => (await execute("answer")).status, { timeout: 10_000, interval: 200 }).toBe(200)
    expect((await runtime.mine("DELETE", "/api/mcp/servers/crashes")).status).toBe(200)
  })

  test("POST /api/mcp/servers/{serverId}/restart: 200 with a new process", async () => {
    const own = randomUUID()
    const config = misbehaving("deaf", own)
    await runtime.mine("POST", "/api/mcp/servers", { name: "deaf", config })
    const pid = async () => (await runtime.mine("POST", "/api/mcp/servers/deaf/tools/answer/execute", {})).text
    const before = await pid()
    const answer = await runtime.mine("POST", "/api/mcp/servers/deaf/restart")
    expect([answer.status, answer.body]).toEqual([200, { status: "restarted", id: "deaf" }])
    expect(await pid()).not.toBe(before)
    expect((await runtime.mine("DELETE", "/api/mcp/servers/deaf")).status).toBe(200)
    expect(await gone(`MARK=${own}`, 5_000)).toEqual([])
  })

  describe("that is not there any more", () => {
    beforeAll(async () => {
      const server = await everythingOver("streamableHttp")
      const config = { type: "http", url: server.url }
      expect((await runtime.mine("POST", "/api/mcp/servers", { name: "left", config })).status).toBe(200)
      await server.stop()
    })

    test("GET /api/mcp/servers/{serverId}/tools: 502 for a server that went away", async () => {
      const answer = await runtime.mine("GET", "/api/mcp/servers/left/tools")
      expect([answer.status, answer.body]).toEqual([502, messageError])
    })

    test("POST /api/mcp/servers/{serverId}/restart: 502 for a server that went away", async () => {
      const answer = await runtime.mine("POST", "/api/mcp/servers/left/restart")
      expect([answer.status, answer.body]).toEqual([502, messageError])
      expect((await runtime.mine("GET", "/api/mcp/servers")).body).toEqual({
        servers: expect.arrayContaining([{ id: "left", name: "left", status: "error", error: expect.any(String) }])
      })
    })

    test("DELETE /api/mcp/servers/{serverId}: 200 also while it is in error", async () => {
      const answer = await runtime.mine("DELETE", "/api/mcp/servers/left")
      expect([answer.status, answer.body]).toEqual([200, { status: "deleted", id: "left" }])
      expect((await runtime.mine("DELETE", "/api/mcp/servers/left")).status).toBe(404)
    })
  })

  describe("of a workspace without an agent", () => {
    beforeAll(async () => {
      const removed = await runtime.foreign("POST", "/api/agents/uninstall", { id: "default-agent", force: true })
      expect(removed.status).toBe(200)
    })

    test.each([
      [
        "POST /api/mcp/servers: 409 without an active agent",
        "POST",
        "",
        { name: "x", config: { type: "stdio", command: "true" } }
      ],
      ["GET /api/mcp/servers: 409 without an active agent", "GET", "", undefined],
      ["DELETE /api/mcp/servers/{serverId}: 409 without an active agent", "DELETE", "/x", undefined],
      ["POST /api/mcp/servers/{serverId}/restart: 409 without an active agent", "POST", "/x/restart", undefined],
      ["GET /api/mcp/servers/{serverId}/tools: 409 without an active agent", "GET", "/x/tools", undefined],
      [
        "POST /api/mcp/servers/{serverId}/tools/{toolId}/execute: 409 without an active agent",
        "POST",
        "/x/tools/y/execute",
        {}
      ]
    ])("%s", async (_, method, path, body) => {
      const answer = await runtime.foreign(method, `/api/mcp/servers${path}`, body)
      expect([answer.status, answer.body]).toEqual([409, messageError])
    })
  })

  test("POST /api/mcp/servers: 200 with persistToAgent, and the server outlives the service", async () => {
    const config = misbehaving("well", mark)
    const persisted = await runtime.mine("POST", "/api/mcp/servers", { name: "kept", config, persistToAgent: true })
    expect(persisted.status).toBe(200)
    await runtime.service.terminate()
    expect(await gone(`MARK=${mark}`, 5_000)).toEqual([])
    await runtime.service.start()
    const names = async () => (await runtime.mine("GET", "/api/mcp/servers")).text
    await expect.poll(names, { timeout: 10_000, interval: 100 }).toContain('"connected"')
    expect(await names()).not.toContain("everything")
    expect((await runtime.mine("POST", "/api/mcp/servers/kept/tools/answer/execute", {})).status).toBe(200)
  })

  test("kill -9 of the service leaves no process of its MCP servers", async () => {
    const own = randomUUID()
    for (const how of ["deaf", "grandchildren", "well"]) {
      const added = await runtime.mine("POST", "/api/mcp/servers", { name: how, config: misbehaving(how, own) })
      expect(added.status).toBe(200)
    }
    expect((await processesWith(`MARK=${own}`)).length).toBeGreaterThanOrEqual(5)
    await runtime.service.kill()
    expect(await gone(`MARK=${own}`, 8_000)).toEqual([])
  })
})

describe("a server with its defaults", () => {
  let runtime: RuntimeService
  let inside: Server
  let port: number
  let reached = 0

  beforeAll(async () => {
    inside = createServer((_, response) => {
      reached++
      response.end("{}")
    }).listen(0, "127.0.0.1")
    await once(inside, "listening")
    ;({ port } = inside.address() as AddressInfo)
    const [, postgres] = stores
    runtime = await startRuntime(await postgres?.options())
  })
  afterAll(async () => {
    await runtime.service.remove()
    inside.close()
  })

  test("POST /api/mcp/servers: 400 for a program, since MCP_STDIO is not allowed", async () => {
    const answer = await runtime.mine("POST", "/api/mcp/servers", { name: "x", config: everything })
    expect([answer.status, answer.body]).toEqual([400, { error: expect.stringContaining("MCP_STDIO") }])
  })

  test.each(["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"])(
    "POST /api/mcp/servers: 400 for an address inside: %s",
    async (host) => {
      for (const type of ["http", "sse"]) {
        const config = { type, url: `http://${host}:${port}/mcp` }
        const answer = await runtime.mine("POST", "/api/mcp/servers", { name: "x", config })
        expect([answer.status, answer.body]).toEqual([
          400,
          { error: expect.stringContaining("ALLOW_PRIVATE_UPSTREAMS") }
        ])
      }
      expect(reached).toBe(0)
    }
  )
})
