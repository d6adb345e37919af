import type { Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { gzipSync } from "node:zlib"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { frame, text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type Answer, plain } from "../fixtures/openai/Reply.ts"
import { freePort, freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { type Books, readBooks } from "./Books.ts"
import { ask, type Caller, get, hello, openSlowly, openStream, openTrickling } from "./ChatClient.ts"
import { figure } from "./Figures.ts"
import { errorChunk, expectEnvelope, expectInvariants } from "./Invariants.ts"
import { memoryGrowth } from "./Memory.ts"
import { writeModels } from "./ModelsFile.ts"
import { flood, type RawUpstream, startRawUpstream } from "./RawUpstream.ts"

/** Planted where a leak would take them from. */
const secrets = { provider: "canary-provider-key-4711", body: "sk-canary0upstream0body" }

const good = text("Good morning to you.", { usage: usage({ prompt: 8, completion: 5 }) })

/** One event of a stream at a time. */
const paced = (answer: Answer): Answer => Faults.every(20)(answer)

const inBand = { error: { message: `The key ${secrets.provider} of ${secrets.body} broke.`, type: "server_error" } }

let fake: FakeOpenAi
let raw: RawUpstream
let service: ServiceProcess
let caller: Caller
/** How many usage events there were before the test. */
let before: number
const told: Array<string> = []

/** MB. An answer may weigh 64 MB, and is in memory as bytes and as text before it is refused. */
const mostGrowth = 200

beforeAll(async () => {
  fake = await startFakeOpenAi({ apiKey: secrets.provider })
  raw = await startRawUpstream()
  const MODELS_FILE = await writeModels([
    { id: "fake-model", baseUrl: fake.baseUrl },
    { id: "raw", baseUrl: raw.baseUrl },
    { id: "refused", baseUrl: `http://127.0.0.1:${await freePort()}/v1` },
    { id: "unresolvable", baseUrl: "http://no-such-host.invalid/v1" }
  ])
  const databaseUrl = await freshDatabase("upstreams")
  service = await prepareService({ fake, databaseUrl, env: { MODELS_FILE, DRAIN_DELAY: "0s", LOG_LEVEL: "Trace" } })
  const { org: key } = await openAccounts(service, { org: 1_000 })
  caller = { baseUrl: service.baseUrl, key }
  await service.start()
})
afterAll(async () => {
  await service.remove()
  await fake.close()
  await raw.close()
})

beforeEach(async () => {
  fake.clear()
  before = (await readBooks(service)).events.length
})

/** After every fault: no hold is left a second later, no connection either, and nobody was told a secret. */
afterEach(async () => {
  fake.clear()
  await expect.poll(async () => (await readBooks(service)).holds, { timeout: 1_000, interval: 50 }).toEqual([])
  await expect.poll(raw.open, { timeout: 1_000, interval: 50 }).toBe(0)
  await expectInvariants({ services: [service], fake, secrets: [...Object.values(secrets), caller.key], told })
  expect((await ask(caller)).status).toBe(200)
})

/** What was billed since the test began. */
const billed = async (): Promise<Books["events"]> => (await readBooks(service)).events.slice(before)

/** A plain request fails with 502 and nothing is billed; the log has the cause under its request id. */
const expectRefusal = async (
  more: object,
  { reason, retryable }: { readonly reason: string; readonly retryable: boolean }
): Promise<number> => {
  const answer = await ask(caller, hello(more))
  told.push(answer.text)
  expect(answer.status).toBe(502)
  const { requestId, ...error } = expectEnvelope(answer)
  expect(error).toMatchObject({ code: "upstream_error", retryable })
  expect(await billed()).toEqual([])
  await expectLogged(requestId, reason)
  return answer.ms
}

/** A stream ends with an error chunk; what was delivered before is billed once. */
const expectBrokenStream = async (
  more: object,
  { output, reason, said }: { readonly output: number; readonly reason: string; readonly said: string }
): Promise<void> => {
  const stream = await openStream(caller, more)
  const end = await stream.ended
  told.push(stream.raw())
  expect({ end, said: stream.said() }).toEqual({ end: "error", said })
  expect(stream.raw()).not.toContain("[DONE]")
  expect(errorChunk(stream.raw())).toMatchObject({
    code: "upstream_error",
    retryable: true,
    requestId: stream.requestId
  })
  await expect
    .poll(billed, { timeout: 1_000 })
    .toMatchObject([{ requestId: stream.requestId, output, estimated: true }])
  await expectLogged(stream.requestId, reason)
}

/** The output of the service takes a moment to arrive here. */
const expectLogged = (requestId: string, reason: string): Promise<void> =>
  expect
    .poll(() =>
      service
        .logs()
        .stdout.split("\n")
        .filter((line) => line.includes(requestId) && line.includes("An upstream failed."))
    )
    .toEqual([expect.stringContaining(`"reason":"${reason}"`)])

/** Streamed or not. */
const forms = [{ stream: false }, { stream: true }]

describe.each(forms)("before the first byte (stream: $stream)", (form) => {
  test.each(["refused", "unresolvable"])("%s", async (model) => {
    const ms = await expectRefusal({ ...form, model }, { reason: "unreachable", retryable: true })
    figure(`answered when the upstream is ${model}`, ms / 1_000)
    expect(ms).toBeLessThan(5_000)
  })

  test("reset, three times", async () => {
    raw.respond((socket) => socket.resetAndDestroy())
    const connections = raw.total()
    await expectRefusal({ ...form, model: "raw" }, { reason: "unreachable", retryable: true })
    expect(raw.total() - connections).toBe(3)
  })

  test("reset once, then well: served", async () => {
    fake.next(Faults.resetAfter(0)(good), good)
    const answer = await ask(caller, hello(form))
    expect(answer.status).toBe(200)
    expect(fake.requests).toHaveLength(2)
    expect(await billed()).toMatchObject([{ output: 5 }])
  })

  test.each([
    { fault: "without a byte", hang: Faults.hangAfter(0) },
    { fault: "after the head", hang: Faults.hangAfterHeaders }
  ])("hanging $fault, and the client leaves: closed and released", async ({ hang }) => {
    fake.next(hang(good))
    const arrived = fake.arrival()
    const abort = new AbortController()
    const answer = ask(caller, hello(form), abort.signal)
    const { ended } = await arrived
    await sleep(200)
    const left = Date.now()
    abort.abort()
    await expect(answer).rejects.toThrow()
    const { at, by } = await ended
    expect(by).toBe("client")
    expect(at - left).toBeLessThan(1_000)
    await expect.poll(async () => (await readBooks(service)).holds, { timeout: 1_000, interval: 50 }).toEqual([])
    expect(await billed()).toEqual([])
  })

  test.each([
    { header: "seconds", retryAfter: () => "1", least: 1_000 },
    // A date has no fractions of a second: of two seconds at least one is left.
    { header: "a date", retryAfter: () => new Date(Date.now() + 2_000).toUTCString(), least: 900 }
  ])("429 with $header: tried again then", async ({ least, retryAfter }) => {
    fake.next(Errors.rateLimited(retryAfter()), good)
    const answer = await ask(caller, hello(form))
    expect(answer.status).toBe(200)
    expect(answer.ms).toBeGreaterThanOrEqual(least)
    expect(answer.ms).toBeLessThan(4_000)
    expect(fake.requests).toHaveLength(2)
    expect(await billed()).toMatchObject([{ output: 5 }])
  })

  test.each(["3600", new Date(Date.now() + 3_600_000).toUTCString(), "-5", "soon", "1e999"])(
    "429 for ever with Retry-After %j: told in time",
    async (retryAfter) => {
      fake.respond(Errors.rateLimited(retryAfter))
      const ms = await expectRefusal(form, { reason: "rate_limited", retryable: true })
      expect(ms).toBeLessThan(5_000)
    }
  )

  test("500 with a secret in its body", async () => {
    fake.respond(Errors.error(500, inBand.error))
    await expectRefusal(form, { reason: "server_error", retryable: true })
    expect(fake.requests).toHaveLength(3)
  })

  test("a 400 that quotes the secret", async () => {
    fake.next(Errors.error(400, { message: `Model gone; the key ${secrets.provider} and ${secrets.body} are fine.` }))
    const answer = await ask(caller, hello(form))
    told.push(answer.text)
    expect(answer.status).toBe(502)
    const { message, ...error } = expectEnvelope(answer)
    expect(error).toMatchObject({ code: "upstream_error", retryable: false })
    expect(message).toContain("Model gone")
    expect(await billed()).toEqual([])
    expect(fake.requests).toHaveLength(1)
  })

  test("401: the operator's key is refused", async () => {
    fake.next(Errors.wrongKey(secrets.provider))
    await expectRefusal(form, { reason: "credentials_refused", retryable: false })
    expect(fake.requests).toHaveLength(1)
  })

  test("500 with a body that never ends", async () => {
    fake.respond(() => ({ status: 500, headers: {}, steps: [{ flood: `${secrets.body} `.repeat(1_000) }] }))
    const growth = await memoryGrowth("an endless error", service.pid(), async () => {
      await expectRefusal(form, { reason: "server_error", retryable: true })
    })
    expect(growth).toBeLessThan(mostGrowth)
  })

  test("endless headers", async () => {
    raw.respond((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n")
      flood(socket, `x-filler: ${"x".repeat(1_000)}\r\n`)
    })
    const growth = await memoryGrowth("endless headers", service.pid(), async () => {
      await expectRefusal({ ...form, model: "raw" }, { reason: "malformed_answer", retryable: true })
    })
    expect(growth).toBeLessThan(mostGrowth)
  })

  test("not HTTP at all", async () => {
    raw.respond((socket) => socket.end("SSH-2.0-OpenSSH_9.6\r\n"))
    await expectRefusal({ ...form, model: "raw" }, { reason: "unreachable", retryable: true })
  })

  test("an error object after HTTP 200", async () => {
    fake.next(
      form.stream
        ? plain(200, frame(inBand), { "content-type": "text/event-stream" })
        : plain(200, JSON.stringify(inBand), { "content-type": "application/json" })
    )
    await expectRefusal(form, { reason: "server_error", retryable: true })
  })

  test.each([
    { what: "nothing", body: "" },
    { what: "HTML", body: `<html>${secrets.body}</html>` },
    { what: "JSON of another kind", body: JSON.stringify({ hello: secrets.body }) },
    { what: "half a completion", body: `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"Goo` }
  ])("200 with $what", async ({ body }) => {
    fake.next(plain(200, body, { "content-type": "application/json" }))
    const answer = await ask(caller, hello(form))
    told.push(answer.text)
    expect(answer.status).toBe(502)
    expect(expectEnvelope(answer)).toMatchObject({ code: "upstream_error", retryable: true })
    expect(await billed()).toEqual([])
  })

  test("a compressed bomb that nobody asked for", async () => {
    const bomb = gzipSync(Buffer.alloc(512 * 1_024 * 1_024, "x"), { level: 9 })
    const type = form.stream ? "text/event-stream" : "application/json"
    fake.next(plain(200, bomb, { "content-type": type, "content-encoding": "gzip" }))
    const growth = await memoryGrowth("a compressed bomb", service.pid(), async () => {
      const answer = await ask(caller, hello(form))
      expect(answer.status).toBe(502)
      expect(expectEnvelope(answer)).toMatchObject({ code: "upstream_error", retryable: true })
    })
    expect(await billed()).toEqual([])
    expect(growth).toBeLessThan(mostGrowth)
  })
})

describe("a whole answer", () => {
  test("trickling, one byte at a time: served", async () => {
    fake.next(Faults.every(1)(Faults.packets(3)(good)))
    const answer = await ask(caller)
    expect(answer.status).toBe(200)
    expect(answer.text).toContain("Good morning to you.")
    expect(await billed()).toMatchObject([{ output: 5 }])
  })

  test.each([
    { fault: "reset", broken: Faults.resetAfter(1) },
    { fault: "cut", broken: Faults.cutAfter(1) }
  ])("$fault within its body", async ({ broken }) => {
    fake.next(broken(plain(200, `{"id":"1","choices":[`, { "content-length": "1000" })))
    await expectRefusal({}, { reason: "cut_off", retryable: true })
  })

  test("that never ends", async () => {
    fake.next(() => ({
      status: 200,
      headers: { "content-type": "application/json" },
      steps: [{ write: `{"id":"` }, { flood: "x".repeat(65_536) }]
    }))
    const growth = await memoryGrowth("an endless answer", service.pid(), async () => {
      await expectRefusal({}, { reason: "malformed_answer", retryable: true })
    })
    expect(growth).toBeLessThan(mostGrowth)
  })
})

describe("a stream", () => {
  test("trickling, a few bytes at a time: served", async () => {
    fake.next(
      Faults.every(1)(Faults.packets(7)(text("Zwölf Boxkämpfer 🥊.", { usage: usage({ prompt: 8, completion: 9 }) })))
    )
    const stream = await openStream(caller)
    expect(await stream.ended).toBe("done")
    expect(stream.said()).toBe("Zwölf Boxkämpfer 🥊.")
    expect(await billed()).toMatchObject([{ output: 9, estimated: false }])
  })

  test.each([
    { fault: "reset", broken: Faults.resetAfter(3), reason: "cut_off" },
    { fault: "cut", broken: Faults.cutAfter(3), reason: "cut_off" },
    { fault: "truncated", broken: Faults.truncateAfter(3), reason: "cut_off" },
    { fault: "with an error object", broken: Faults.insertAt(3, frame(inBand)), reason: "server_error" },
    {
      fault: "with half a frame",
      broken: Faults.insertAt(3, `data: {"id":"${secrets.body}\n\n`),
      reason: "malformed_answer"
    },
    {
      fault: "with a frame of another kind",
      broken: Faults.insertAt(3, frame([secrets.body])),
      reason: "malformed_answer"
    },
    {
      fault: "with choices of another kind",
      broken: Faults.insertAt(3, frame({ choices: 7 })),
      reason: "malformed_answer"
    }
  ])("$fault: what was delivered is billed", async ({ broken, reason }) => {
    fake.next(paced(broken(good)))
    await expectBrokenStream({}, { output: 2, reason, said: "Good morning" })
    expect(fake.requests).toHaveLength(1)
  })

  test.each([
    { what: "unknown fields and events", odd: `event: ping\nid: 7\nretry: 10\ndata: {"choices":[],"x":1}\n\n` },
    { what: "comments", odd: ": processing\n\n: still processing\n\n" },
    { what: "a usage of nonsense", odd: frame({ choices: [], usage: { prompt_tokens: -1, completion_tokens: 1e300 } }) }
  ])("with $what: served", async ({ odd }) => {
    fake.next(paced(Faults.insertAt(3, odd)(good)))
    const stream = await openStream(caller)
    expect(await stream.ended).toBe("done")
    expect(stream.said()).toBe("Good morning to you.")
    expect(await billed()).toMatchObject([{ output: 5 }])
  })

  test("with a line without end: cut off, and nobody else waits", async () => {
    fake.next(paced(Faults.endlessLineAfter(3)(good)))
    let slowest = 0
    let running = true
    const others = async () => {
      while (running) {
        slowest = Math.max(slowest, (await get(service.baseUrl, "/health/live")).ms)
        await sleep(10)
      }
    }
    const watched = others()
    const growth = await memoryGrowth("a line without end", service.pid(), () =>
      expectBrokenStream({}, { output: 2, reason: "malformed_answer", said: "Good morning" })
    )
    running = false
    await watched
    figure("slowest other answer during a line without end", slowest / 1_000)
    expect(growth).toBeLessThan(mostGrowth)
    expect(slowest).toBeLessThan(2_000)
  })

  test("with events without end: the client that does not read holds the upstream back", async () => {
    const chunk = frame({ choices: [{ index: 0, delta: { content: "word ".repeat(200) } }] })
    fake.next(() => ({ status: 200, headers: { "content-type": "text/event-stream" }, steps: [{ flood: chunk }] }))
    const arrived = fake.arrival()
    const slow = await openSlowly(caller)
    const { ended } = await arrived
    const growth = await memoryGrowth("a client that does not read", service.pid(), () => sleep(3_000))
    slow.leave()
    const { by, sent } = await ended
    expect(by).toBe("client")
    console.log(`a client that does not read: ${(sent / 1e6).toFixed(1)} MB sent`)
    expect(sent).toBeLessThan(30 * 1_024 * 1_024)
    expect(growth).toBeLessThan(mostGrowth)
    await expect.poll(billed, { timeout: 5_000 }).toHaveLength(1)
  })

  test("read at 1 KB/s: the upstream is held back, and memory stays flat", async () => {
    let upstream: Socket | undefined
    raw.respond((socket) => {
      upstream = socket
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
      flood(socket, frame({ choices: [{ index: 0, delta: { content: "word ".repeat(200) } }] }))
    })
    const slow = await openTrickling(caller, { model: "raw", bytesPerSecond: 1_024 })
    // Until every buffer on the way is full.
    await sleep(3_000)
    const sent = () => upstream?.bytesWritten ?? 0
    const full = sent()
    const growth = await memoryGrowth("a client that reads 1 KB/s", service.pid(), () => sleep(12_000))
    const more = sent() - full
    slow.leave()
    console.log(`a client that reads 1 KB/s: ${(full / 1e6).toFixed(1)} MB sent, then ${more / 1_000} KB more`)
    expect(full).toBeLessThan(30 * 1_024 * 1_024)
    expect(more).toBeLessThan(1_024 * 1_024)
    expect(growth).toBeLessThan(20)
    await expect.poll(billed, { timeout: 5_000 }).toHaveLength(1)
  })
})

describe("afterwards", () => {
  test("the service ends well", async () => {
    expect(await service.terminate()).toBe(0)
    expect(service.logs().stderr).toBe("")
    await service.start()
  })
})
