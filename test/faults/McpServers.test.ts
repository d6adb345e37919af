import { Effect, Stream } from "effect"
import { execFile, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { createServer, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { afterAll, afterEach, describe, expect, test } from "vitest"
import { failure, startConnector } from "../fixtures/mcp/Connector.ts"
import { gone, processesWith } from "../fixtures/mcp/Processes.ts"
import { misbehaving } from "../fixtures/mcp/Servers.ts"

const connector = startConnector()
const { run } = connector
const mark = randomUUID()

afterEach(async () => {
  expect(await gone(`MARK=${mark}`, 8_000)).toEqual([])
})
afterAll(() => connector.stop())

/** A well-behaved server beside, which must not notice. */
const beside = async () => {
  const { close, connection } = await connector.connect(misbehaving("well", mark))
  return {
    answers: async () => {
      const asked = performance.now()
      expect(await run(connection.callTool("answer", {}))).toMatchObject({ isError: false })
      return performance.now() - asked
    },
    close
  }
}

describe("from its start", () => {
  test.each([
    ["crash", "closed"],
    ["hang", "deadline"],
    ["flood-line", "closed"],
    ["flood-lines", "closed"],
    ["flood-messages", "closed"]
  ])("%s fails as %s, in time, and is gone", async (how, reason) => {
    const asked = performance.now()
    const failed = await failure(
      connector
        .connect(misbehaving(how, mark, "at-start"), 2_000)
        // It may have answered in the middle of its flood.
        .then(async ({ close, connection }) => {
          const lost = await run(connection.lost)
          await close()
          throw lost
        })
    )
    expect(failed.reason).toBe(reason)
    // The deadline, and the time that its processes may take to end.
    expect(performance.now() - asked).toBeLessThan(8_000)
  })

  test("garbage and a flood of the standard error are passed over", async () => {
    for (const how of ["garbage", "flood-stderr"]) {
      const { close, connection } = await connector.connect(misbehaving(how, mark, "at-start"))
      expect(await run(connection.callTool("answer", {}))).toMatchObject({ isError: false })
      await close()
    }
  })

  test("a command that does not exist says so by its exit", async () => {
    const failed = await failure(connector.connect({ type: "stdio", command: "no-such-command" }))
    expect(failed).toMatchObject({ reason: "closed", message: expect.stringContaining("127") })
  })
})

describe("during a call", () => {
  test.each([
    ["crash", "closed"],
    ["hang", "deadline"],
    ["flood-line", "closed"],
    ["flood-lines", "closed"],
    ["flood-messages", "closed"]
  ])("%s fails that call as %s, and nobody else notices", async (how, reason) => {
    const other = await beside()
    const { close, connection } = await connector.connect(misbehaving(how, mark), 5_000)
    const before = process.memoryUsage().rss
    const failed = failure(run(connection.callTool("misbehave", {})))
    for (let call = 0; call < 20; call++) expect(await other.answers()).toBeLessThan(2_000)
    expect((await failed).reason).toBe(reason)
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
    if (how === "hang") expect(await run(connection.callTool("answer", {}))).toMatchObject({ isError: false })
    else expect((await run(connection.lost)).reason).toBe("closed")
    await close()
    await other.close()
  })

  test("garbage and a flood of the standard error harm nothing", async () => {
    for (const how of ["garbage", "flood-stderr"]) {
      const { close, connection } = await connector.connect(misbehaving(how, mark))
      const before = process.memoryUsage().rss
      await run(connection.callTool("misbehave", {}))
      for (let call = 0; call < 20; call++) await run(connection.callTool("answer", {}))
      expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
      await close()
    }
  })

  test("a list without end is cut off", async () => {
    const { close, connection } = await connector.connect(misbehaving("pages", mark))
    expect(await run(connection.tools)).toHaveLength(100)
    await close()
  })

  test("what a server says is told without the secrets that it was given", async () => {
    const config = misbehaving("well", mark)
    if (config.type !== "stdio") throw new Error("it is a program")
    const { close, connection } = await connector.connect({
      ...config,
      env: { ...config.env, SECRET: "canary-secret-value" }
    })
    const failed = await failure(run(connection.callTool("refuse", {})))
    expect(failed).toMatchObject({ reason: "refused", message: expect.stringContaining("no [redacted]") })
    await close()
  })

  test("a program gets its own environment and what is listed, nothing else", async () => {
    process.env["GATEWAY_CANARY"] = "canary"
    const { close, connection } = await connector.connect(misbehaving("well", mark))
    const { content } = await run(connection.callTool("environment", {}))
    expect(Object.keys(JSON.parse(String(content[0]?.["text"]))).toSorted()).toEqual(
      expect.arrayContaining(["INHERITED", "MARK", "PATH"])
    )
    expect(String(content[0]?.["text"])).not.toMatch(/canary/iu)
    await close()
    delete process.env["GATEWAY_CANARY"]
  })
})

describe("notices", () => {
  test("a server tells that its tools changed", async () => {
    const { close, connection } = await connector.connect(misbehaving("well", mark))
    const told = run(Stream.runHead(connection.notices))
    // The stream has to listen before the server speaks.
    await run(Effect.sleep(50))
    await run(connection.callTool("more", {}))
    expect(await told).toMatchObject({ _tag: "Some", value: "tools" })
    await close()
  })

  test("and that a resource changed which was read", async () => {
    const { close, connection } = await connector.connect(misbehaving("resources", mark))
    const told = run(Stream.runHead(connection.notices))
    await run(Effect.sleep(50))
    await run(connection.readResource("some:thing"))
    expect(await told).toMatchObject({ _tag: "Some", value: { resource: "some:thing" } })
    await close()
  })
})

describe("processes", () => {
  test.each(["well", "deaf", "grandchildren"])("of a server that is %s end with its connection", async (how) => {
    const { close } = await connector.connect(misbehaving(how, mark))
    await expect.poll(() => processesWith(`MARK=${mark}`), { timeout: 10_000 }).not.toEqual([])
    await close()
    expect(await processesWith(`MARK=${mark}`)).toEqual([])
  })

  test("end with a process that is killed by SIGKILL", async () => {
    const user = spawn(process.execPath, [join(import.meta.dirname, "../fixtures/mcp/ConnectorUser.ts"), mark], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    await once(user.stdout, "data")
    expect((await processesWith(`MARK=${mark}`)).length).toBeGreaterThanOrEqual(5)
    user.kill("SIGKILL")
    expect(await gone(`MARK=${mark}`, 8_000)).toEqual([])
  })

  test("show no environment in their arguments", async () => {
    const config = misbehaving("well", mark)
    if (config.type !== "stdio") throw new Error("it is a program")
    const { close } = await connector.connect({ ...config, env: { MARK: mark, TOKEN: "canary-in-the-environment" } })
    const listed = await new Promise<string>((resolve) => execFile("ps", ["-eo", "args"], (_, text) => resolve(text)))
    expect(listed).toContain("Misbehaving.ts")
    expect(listed).not.toContain("canary-in-the-environment")
    await close()
  })
})

describe("over HTTP", () => {
  const servers: Array<Server> = []
  const listen = async (listener: RequestListener): Promise<string> => {
    const server = createServer(listener).listen(0, "127.0.0.1")
    servers.push(server)
    await once(server, "listening")
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  }
  afterAll(() => {
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
  })

  /** Writes until the other side leaves. */
  const endless: (type: string, piece: string) => RequestListener = (type, piece) => (_, response) => {
    response.writeHead(200, { "content-type": type })
    const more = () => {
      while (!response.closed && response.write(piece));
      response.once("drain", more)
    }
    more()
  }

  test.for<[what: string, listener: RequestListener]>([
    ["never answers", () => undefined],
    ["answers with an error", (_, response) => response.writeHead(500).end("no")],
    ["asks for a login", (_, response) => response.writeHead(401, { "www-authenticate": "Bearer" }).end()],
    ["answers with a page", (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>")],
    ["answers with garbage", (_, response) => response.writeHead(200, { "content-type": "application/json" }).end("{")],
    [
      "answers with what is no message",
      (_, response) => response.writeHead(200, { "content-type": "application/json" }).end("[1]")
    ],
    ["breaks off", (_, response) => void response.writeHead(200, { "content-length": "10" }).destroy()],
    ["answers without end", endless("application/json", "x".repeat(65_536))],
    ["sends an event without end", endless("text/event-stream", `data: ${"x".repeat(65_536)}\n`)],
    ["redirects in a circle", (_, response) => response.writeHead(307, { location: "/mcp" }).end()]
  ])("a server that %s fails in time and in bounds", async ([, listener]) => {
    const url = await listen(listener)
    const before = process.memoryUsage().rss
    for (const type of ["http", "sse"] as const) {
      const asked = performance.now()
      const failed = await failure(connector.connect({ type, url }, 1_000))
      expect(["unreachable", "deadline", "protocol", "closed"]).toContain(failed.reason)
      expect(performance.now() - asked).toBeLessThan(5_000)
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
  })

  test("headers are sent, and are not told", async () => {
    let sent: string | undefined
    const url = await listen((request, response) => {
      sent = request.headers.authorization
      response.writeHead(403).end(`you are ${sent}`)
    })
    const failed = await failure(
      connector.connect({ type: "http", url, headers: { authorization: "Bearer canary-secret" } })
    )
    expect(sent).toBe("Bearer canary-secret")
    expect(failed.message).not.toContain("canary-secret")
  })

  test("a guarded service connects to nothing inside, also by a redirect", async () => {
    let reached = 0
    const inside = await listen((_, response) => {
      reached++
      response.end()
    })
    const redirecting = await listen((_, response) => response.writeHead(307, { location: inside }).end())
    const port = new URL(inside).port
    const guarded = startConnector({ allowPrivate: false })
    for (const host of ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.1", "[::1]", "[::ffff:7f00:1]"]) {
      for (const type of ["http", "sse"] as const) {
        const failed = await failure(guarded.connect({ type, url: `http://${host}:${port}/mcp` }))
        expect(failed.reason).toBe("forbidden address")
      }
    }
    await guarded.stop()
    expect(reached).toBe(0)
    // Not even a service that may call anything follows a redirect to another server.
    for (const type of ["http", "sse"] as const) {
      expect((await failure(connector.connect({ type, url: redirecting }))).reason).toBe("unreachable")
    }
    expect(reached).toBe(0)
  })
})

test("a service that starts no programs says so", async () => {
  const refusing = startConnector({ stdio: "refused" })
  const failed = await failure(refusing.connect(misbehaving("well", mark)))
  expect(failed.message).toContain("MCP_STDIO")
  await refusing.stop()
})
