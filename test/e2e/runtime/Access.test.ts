import { request } from "node:http"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { apiOf, messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { prepareService, type ServiceProcess, stores } from "../../fixtures/ServiceProcess.ts"

/** What every route of the runtime has in common: keys, other origins, bodies, unknown routes. */

describe.each(stores)("the way into the runtime, on $store", ({ options }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime({ ...(await options()), env: { CORS_ORIGINS: "https://app.example.com" } })
  }, 120_000)
  afterAll(() => runtime.service.remove())

  test("without a key, with a wrong one and with a mistyped one: 401 and how to authenticate", async () => {
    const { keys, nobody, service } = runtime
    const mistyped = keys.mine.slice(0, -1) + (keys.mine.endsWith("a") ? "b" : "a")
    const answers = [
      await nobody("GET", "/api/memory"),
      await apiOf(service.baseUrl, "nonsense")("GET", "/api/memory"),
      await apiOf(service.baseUrl, mistyped)("POST", "/api/memory", { content: "x" })
    ]
    for (const { body, headers, status } of answers) {
      expect(status).toBe(401)
      expect(body).toEqual(messageError)
      expect(headers.get("www-authenticate")).toBe("Bearer")
      expect(headers.get("x-request-id")).toMatch(/\S/u)
    }
  })

  test("a key works on its organization's workspace and no other", async () => {
    const { foreign, mine } = runtime
    const made = await mine("POST", "/api/memory", { content: "ours" })
    expect(made.status).toBe(201)
    expect((await foreign("GET", "/api/memory")).body).toEqual({ ok: true, memories: [], count: 0 })
  })

  test("an unknown route: 404, a wrong method: 405 with Allow, both as {error}", async () => {
    const { mine } = runtime
    const unknown = await mine("GET", "/api/nothing")
    expect([unknown.status, unknown.body]).toEqual([404, messageError])
    const wrong = await mine("PATCH", "/api/prompts")
    expect([wrong.status, wrong.body, wrong.headers.get("allow")]).toEqual([405, messageError, "GET, HEAD"])
  })

  test("bodies that are no JSON, no UTF-8, too deep or not storable: 400, never 500", async () => {
    const { mine } = runtime
    const bodies: ReadonlyArray<string | Uint8Array> = [
      "",
      "{",
      "NaN",
      '{"content": 1e12}',
      '{"content": -1}',
      '{"content": "a\\u0000b"}',
      '{"content": "\\ud800"}',
      '{"content": "x", "metadata": {"a": 1e999}}',
      '{"content": "x", "metadata": {"a\\u0000": 1}}',
      `{"content": ${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
      Uint8Array.of(0x7b, 0x22, 0x63, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d)
    ]
    for (const body of bodies) {
      const { status, text } = await mine("POST", "/api/memory", body)
      expect([status, String(body).slice(0, 60), text]).toEqual([400, String(body).slice(0, 60), expect.anything()])
    }
    expect((await mine("GET", "/api/memory?tags=%00")).status).toBe(400)
    expect((await mine("GET", "/api/memory/%00")).status).toSatisfy(
      (status: number) => status === 400 || status === 404
    )
  })

  test("a target with an address before its path is like one without, even where that is none", async () => {
    const { keys, service } = runtime
    for (const path of ["http://elsewhere.example.com/api/agents/validate-name", "http://[/api/agents/validate-name"]) {
      expect([path, await posted(service, path, keys.mine, '{"id": "free"}')]).toEqual([path, 200])
    }
  })

  test("a body that is no JSON is not quoted, since what is wrong may stand beside a key", async () => {
    const { mine } = runtime
    for (const body of ['{"apiKey": "sk-canary"x}', '{"a": "sk-canary", x}', "sk-canary", '{"apiKey": "sk-canary']) {
      const { status, text } = await mine("POST", "/api/llm/key", body)
      expect([status, text]).toEqual([400, expect.stringMatching(/not valid JSON: \w/u)])
      expect(text).not.toMatch(/canary|nary/u)
    }
  })

  test("__proto__ and constructor in a body are inert", async () => {
    const { mine } = runtime
    const sent = '{"content": "inert", "metadata": {"__proto__": {"polluted": true}, "constructor": {"prototype": 1}}}'
    const made = await mine("POST", "/api/memory", sent)
    expect(made.status).toBe(201)
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false)
    expect((await mine("GET", "/health/live")).status).toBe(200)
  })

  test("any content type is taken for JSON", async () => {
    const { mine } = runtime
    const headers = { "content-type": "application/x-www-form-urlencoded" }
    expect((await mine("POST", "/api/memory", '{"content": "by curl -d"}', { headers })).status).toBe(201)
  })

  test("a body beyond the limit: 413, with and without content-length", async () => {
    const { keys, mine, service } = runtime
    const big = JSON.stringify({ content: "x".repeat(2 * 1024 * 1024) })
    expect((await mine("POST", "/api/memory", big)).status).toBe(413)
    expect(await chunked(service, "/api/memory", keys.mine, big)).toBe(413)
  })

  test("pages of listed origins may use it, others may not read its answers", async () => {
    const { mine } = runtime
    const origin = "https://app.example.com"
    const listed = await mine("GET", "/api/memory", undefined, { headers: { origin } })
    expect([listed.status, listed.headers.get("access-control-allow-origin")]).toEqual([200, origin])
    const asked = await mine("OPTIONS", "/api/memory", undefined, {
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type"
      }
    })
    expect(asked.status).toBe(204)
    expect(asked.headers.get("access-control-allow-origin")).toBe(origin)
    expect(asked.headers.get("access-control-allow-headers")).toBe("authorization, content-type")
    expect(asked.headers.get("access-control-allow-methods")).toMatch(/POST.*DELETE/u)
    const other = await mine("GET", "/api/memory", undefined, { headers: { origin: "https://evil.example.com" } })
    expect(other.headers.get("access-control-allow-origin")).toBeNull()
  })

  test("so may pages that read streams", async () => {
    const { keys, mine, service } = runtime
    const origin = "https://app.example.com"
    const chat = await mine(
      "POST",
      "/v1/chat/completions",
      { model: "echo", stream: true, messages: [{ role: "user", content: "Hi" }] },
      { headers: { origin } }
    )
    expect(chat.text).toMatch(/\[DONE\]/u)
    expect(chat.headers.get("access-control-allow-origin")).toBe(origin)
    expect(chat.headers.get("access-control-expose-headers")).toMatch(/x-request-id/u)

    expect((await mine("POST", "/api/sessions", { sessionId: "heard" })).status).toBe(201)
    const leaving = new AbortController()
    const events = await fetch(`${service.baseUrl}/api/sessions/heard/events`, {
      headers: { authorization: `Bearer ${keys.mine}`, origin },
      signal: leaving.signal
    })
    leaving.abort()
    expect([events.status, events.headers.get("access-control-allow-origin")]).toEqual([200, origin])
  })
})

describe("open to its own machine", () => {
  let service: ServiceProcess
  beforeAll(async () => {
    service = await prepareService({ env: { DRAIN_DELAY: "0s" } })
    await service.start()
  }, 60_000)
  afterAll(() => service.remove())

  /** With a header `Host` of its own, which `fetch` does not send. */
  const named = (host: string, origin?: string) =>
    new Promise<number>((resolve, reject) => {
      const { hostname, port } = new URL(service.baseUrl)
      request(
        { hostname, port, path: "/api/memory", headers: { host, ...(origin === undefined ? {} : { origin }) } },
        (answer) => {
          answer.resume()
          resolve(answer.statusCode ?? 0)
        }
      )
        .on("error", reject)
        .end()
    })

  test("needs no key, by the names of this machine", async () => {
    const { port } = new URL(service.baseUrl)
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, "localhost", "[::1]"]) {
      expect(await named(host)).toBe(200)
    }
    expect(await named("localhost", "http://localhost:3000")).toBe(200)
  })

  test("403 by another name, and for pages from elsewhere", async () => {
    const { port } = new URL(service.baseUrl)
    for (const host of [
      "rebound.example.com",
      `192.168.0.7:${port}`,
      "localhost.example.com",
      "127.0.0.1.example.com"
    ]) {
      expect([host, await named(host)]).toEqual([host, 403])
    }
    expect(await named(`localhost:${port}`, "https://evil.example.com")).toBe(403)
    expect(await named(`localhost:${port}`, "null")).toBe(403)
  })

  test("a key that is sent is checked all the same", async () => {
    expect((await apiOf(service.baseUrl, "nonsense")("GET", "/api/memory")).status).toBe(401)
    expect((await apiOf(service.baseUrl, service.printedKey())("GET", "/api/memory")).status).toBe(200)
  })

  test("is refused at another address", async () => {
    const other = await prepareService({ env: { API_AUTH: "open", HOST: "0.0.0.0" } })
    await expect(other.start()).rejects.toThrow(/API_AUTH: expected required, or open with HOST at a loopback address/u)
    await other.remove()
  })
})

/** With a target that `fetch` would not send as it is. */
const posted = (service: ServiceProcess, path: string, key: string, body: string) =>
  new Promise<number>((resolve, reject) => {
    const { hostname, port } = new URL(service.baseUrl)
    request({ hostname, port, path, method: "POST", headers: { authorization: `Bearer ${key}` } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
      .on("error", reject)
      .end(body)
  })

const chunked = (service: ServiceProcess, path: string, key: string, body: string) =>
  new Promise<number>((resolve, reject) => {
    const sent = request(
      `${service.baseUrl}${path}`,
      { method: "POST", headers: { authorization: `Bearer ${key}`, "content-type": "application/json" } },
      (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      }
    )
    sent.on("error", (error: NodeJS.ErrnoException) => {
      // The service may close while the rest is still being sent.
      if (error.code !== "EPIPE" && error.code !== "ECONNRESET") reject(error)
    })
    for (let at = 0; at < body.length; at += 65_536) sent.write(body.slice(at, at + 65_536))
    sent.end()
  })
