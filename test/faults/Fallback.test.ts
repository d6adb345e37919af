import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import type { Answer } from "../fixtures/openai/Reply.ts"
import { freePort, freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { type Books, costOf, readBooks } from "./Books.ts"
import { type Answer as Answered, ask, type Caller, get, hello, openStream } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { errorChunk, expectEnvelope, expectInvariants } from "./Invariants.ts"
import { writeModels } from "./ModelsFile.ts"

const apiKey = "canary-provider-key-0815"

/** What the two upstreams say, and how they count it. */
const fromFirst = text("Here I am.", { usage: usage({ prompt: 8, completion: 3 }) })
const fromSecond = text("So am I.", { usage: usage({ prompt: 9, completion: 4 }) })

let first: FakeOpenAi
let second: FakeOpenAi
let service: ServiceProcess
let caller: Caller
/** How many usage events there were before the test. */
let before: number

/**
 * `backed`: at the first upstream, then at the second, where the same thing is free. `alone`: at the first one only, with
 * a breaker of its own. `last`: nobody listens at its upstream and its first fallback.
 */
beforeAll(async () => {
  first = await startFakeOpenAi({ apiKey })
  second = await startFakeOpenAi({ apiKey })
  const nowhere = `http://127.0.0.1:${await freePort()}/v1`
  const MODELS_FILE = await writeModels([
    { id: "backed", baseUrl: first.baseUrl, fallbacks: ["spare"] },
    { id: "spare", baseUrl: second.baseUrl, free: true },
    { id: "alone", baseUrl: first.baseUrl },
    { id: "last", baseUrl: nowhere, fallbacks: ["nowhere", "spare"] },
    { id: "nowhere", baseUrl: nowhere }
  ])
  const databaseUrl = await freshDatabase("fallback")
  service = await prepareService({
    databaseUrl,
    env: {
      MODELS_FILE,
      FAKE_UPSTREAM_KEY: apiKey,
      DRAIN_DELAY: "0s",
      UPSTREAM_CONNECT_TIMEOUT: "1s",
      UPSTREAM_FIRST_BYTE_TIMEOUT: "1",
      UPSTREAM_IDLE_TIMEOUT: "500ms",
      UPSTREAM_TOTAL_TIMEOUT: "2s"
    }
  })
  const { org: key } = await openAccounts(service, { org: 1_000 })
  caller = { baseUrl: service.baseUrl, key }
  await service.start()
})
afterAll(async () => {
  await service.remove()
  await first.close()
  await second.close()
})

const wellAgain = () => {
  for (const [fake, answer] of [
    [first, fromFirst],
    [second, fromSecond]
  ] as const) {
    fake.clear()
    fake.respond(answer)
  }
}

beforeEach(async () => {
  wellAgain()
  before = (await readBooks(service)).events.length
})

/** After every fault: no hold and no connection is left, the key was not told, and every upstream serves again. */
afterEach(async () => {
  await expect.poll(async () => (await readBooks(service)).holds, { timeout: 1_000, interval: 50 }).toEqual([])
  for (const fake of [first, second]) {
    await expectInvariants({ services: [service], fake, secrets: [apiKey, caller.key] })
  }
  wellAgain()
  for (const model of ["backed", "alone", "spare"]) {
    await expect.poll(async () => (await ask(caller, hello({ model }))).status, { timeout: 15_000 }).toBe(200)
  }
})

/** What was billed since the test began. */
const billed = async (): Promise<Books["events"]> => (await readBooks(service)).events.slice(before)

/** The price is that of the model that was asked for, wherever it was served. */
const bill = (tokens: { readonly input: number; readonly output: number }) => ({
  ...tokens,
  cost: costOf(tokens),
  estimated: false
})
const ofFirst = bill({ input: 8, output: 3 })
const ofSecond = bill({ input: 9, output: 4 })

/** Streamed or not. */
const forms = [{ stream: false }, { stream: true }]

/** The answer to `backed` is what the second upstream says, under the name that was asked for. */
const expectServedBySecond = (answer: Answered, model = "backed"): void => {
  expect(answer.status).toBe(200)
  expect(answer.text).toMatch(/So/u)
  expect(new Set(answer.text.match(/"model":"[^"]*"/gu))).toEqual(new Set([`"model":"${model}"`]))
  expect(answer.text).not.toContain("error")
}

const expectFailed = (answer: Answered): void => {
  expect(answer.status).toBe(502)
  expect(expectEnvelope(answer)).toMatchObject({ code: "upstream_error", retryable: true })
}

/** The lines of the log with these words. The output of the service takes a moment to arrive here. */
const lines = (...words: ReadonlyArray<string>) =>
  service
    .logs()
    .stdout.split("\n")
    .filter((line) => words.every((word) => line.includes(word)))

const metric = async (name: string, labels: Readonly<Record<string, string>>): Promise<number | undefined> => {
  const { text: page } = await get(service.baseUrl, "/metrics")
  const line = page
    .split("\n")
    .find(
      (line) =>
        line.startsWith(`${name}{`) &&
        Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`))
    )
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(" ")))
}

const breaker = (upstream: string) => metric("upstream_breaker_state", { upstream, keys: "operator" })

describe.each(forms)("a model with a fallback (stream: $stream)", (form) => {
  const body = hello({ ...form, model: "backed" })

  test.each<{ fault: string; broken: Answer; attempts: number; reason: string }>([
    { fault: "500", broken: Errors.serverError, attempts: 3, reason: "server_error" },
    { fault: "503", broken: Errors.overloaded, attempts: 3, reason: "server_error" },
    { fault: "429", broken: Errors.rateLimited("60"), attempts: 1, reason: "rate_limited" },
    { fault: "401", broken: Errors.wrongKey("sk-other-0123456789"), attempts: 1, reason: "credentials_refused" },
    { fault: "404", broken: Errors.unknownModel("gpt-fake"), attempts: 1, reason: "unexpected_status" },
    { fault: "a reset", broken: Faults.resetAfter(0)(fromFirst), attempts: 3, reason: "unreachable" },
    { fault: "no byte", broken: Faults.hangAfter(0)(fromFirst), attempts: 1, reason: "timeout" },
    { fault: "a head only", broken: Faults.hangAfterHeaders(fromFirst), attempts: 1, reason: "timeout" }
  ])("is served by it after $fault, and billed once", async ({ attempts, broken, reason }) => {
    first.respond(broken)
    const counted = (await metric("upstream_requests_total", { upstream: "backed", outcome: reason })) ?? 0
    const warned = lines("another one served", `"failed":"backed"`, `"reason":"${reason}"`, `"served":"spare"`).length
    const answer = await ask(caller, body)
    expectServedBySecond(answer)
    expect([first.requests.length, second.requests.length]).toEqual([attempts, 1])
    expect(await billed()).toMatchObject([ofSecond])
    await expect
      .poll(() => lines("another one served", `"failed":"backed"`, `"reason":"${reason}"`, `"served":"spare"`).length)
      .toBe(warned + 1)
    expect(await metric("upstream_requests_total", { upstream: "backed", outcome: reason })).toBe(counted + attempts)
  })

  test("is served by the last of several", async () => {
    const answer = await ask(caller, hello({ ...form, model: "last" }))
    expectServedBySecond(answer, "last")
    expect(await billed()).toMatchObject([ofSecond])
  })

  test("fails when its fallback does as well, and nothing is billed", async () => {
    first.respond(Errors.serverError)
    second.respond(Errors.wrongKey("sk-other-0123456789"))
    expectFailed(await ask(caller, body))
    expect([first.requests.length, second.requests.length]).toEqual([3, 1])
    expect(await billed()).toEqual([])
  })

  test("stays where the request itself was refused", async () => {
    first.respond(Errors.contextLengthExceeded)
    const answer = await ask(caller, body)
    expect(answer.status).toBe(502)
    expect(expectEnvelope(answer)).toMatchObject({ code: "upstream_error", retryable: false })
    expect(second.requests).toEqual([])
    expect(await billed()).toEqual([])
  })

  test("is asked nowhere else once the client has left", async () => {
    first.respond(Faults.hangAfter(0)(fromFirst))
    const arrived = first.arrival()
    const abort = new AbortController()
    const answer = ask(caller, body, abort.signal)
    const { ended } = await arrived
    abort.abort()
    await expect(answer).rejects.toThrow()
    expect((await ended).by).toBe("client")
    await sleep(1_200)
    expect(second.requests).toEqual([])
    expect(await billed()).toEqual([])
  })
})

describe("after the first byte", () => {
  test("a stream that breaks off stays broken, and what was delivered is billed", async () => {
    first.respond(Faults.every(20)(Faults.cutAfter(3)(fromFirst)))
    const stream = await openStream(caller, { model: "backed" })
    expect(await stream.ended).toBe("error")
    expect(errorChunk(stream.raw())).toMatchObject({ code: "upstream_error", retryable: true })
    expect(stream.said()).toBe("Here I")
    await expect.poll(billed, { timeout: 1_000 }).toMatchObject([{ output: 2, estimated: true }])
    expect(second.requests).toEqual([])
  })

  test("a whole answer that breaks off is not bought again", async () => {
    first.respond(Faults.cutAfter(1)(Faults.packets(40)(fromFirst)))
    expectFailed(await ask(caller, hello({ model: "backed" })))
    expect([first.requests.length, second.requests.length]).toEqual([1, 0])
    expect(await billed()).toEqual([])
  })
})

describe("deadlines", () => {
  test.each(forms)("of the first byte: told in time, asked once (stream: $stream)", async (form) => {
    first.respond(Faults.hangAfter(0)(fromFirst))
    const answer = await ask(caller, hello({ ...form, model: "alone" }))
    expectFailed(answer)
    figure("told of an upstream that hangs for 1 s", answer.ms / 1_000)
    expect(answer.ms).toBeGreaterThanOrEqual(990)
    expect(answer.ms).toBeLessThan(2_500)
    expect(first.requests).toHaveLength(1)
    expect(await billed()).toEqual([])
  })

  test.each([
    { what: "stands still", slow: Faults.hangAfter(3) },
    { what: "trickles for too long", slow: Faults.every(400) }
  ])("of a stream that $what: what was delivered is billed", async ({ slow }) => {
    first.respond(slow(text("", { pieces: Array.from({ length: 50 }, () => " word") })))
    const stream = await openStream(caller, { model: "alone" })
    expect(await stream.ended).toBe("error")
    expect(stream.raw()).not.toContain("[DONE]")
    expect(stream.pieces()).toBeGreaterThan(0)
    await expect
      .poll(billed, { timeout: 1_000 })
      .toMatchObject([{ requestId: stream.requestId, output: stream.pieces(), estimated: true }])
    await expect.poll(() => lines(stream.requestId, `"reason":"stalled"`)).toHaveLength(1)
  })
})

describe("the circuit breaker", () => {
  test.each(forms)("opens, requests fail fast, it closes by itself (stream: $stream)", async (form) => {
    const body = hello({ ...form, model: "alone" })
    first.respond(Errors.serverError)
    for (let call = 0; call < 5; call++) expectFailed(await ask(caller, body))
    const opened = performance.now()
    expect(first.requests).toHaveLength(15)
    expect(await breaker("alone")).toBe(2)

    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(caller, body)))
    for (const answer of answers) {
      expectFailed(answer)
      expect(answer.text).toContain("circuit open")
    }
    const slowest = Math.max(...answers.map(({ ms }) => ms))
    figure("slowest answer while the breaker is open", slowest / 1_000)
    expect(slowest).toBeLessThan(1_000)
    expect(first.requests).toHaveLength(15)
    expect(await billed()).toEqual([])
    // Another model at the same address has a breaker of its own.
    expect(await breaker("backed")).toBe(0)

    // One request tries, once, and finds the upstream as bad as before.
    await sleep(10_000 - (performance.now() - opened))
    const tries = await Promise.all(Array.from({ length: 5 }, () => ask(caller, body)))
    for (const answer of tries) expectFailed(answer)
    expect(first.requests).toHaveLength(16)

    first.respond(fromFirst)
    await expect.poll(async () => (await ask(caller, body)).status, { timeout: 15_000, interval: 200 }).toBe(200)
    figure("served again after the breaker opened", secondsSince(opened))
    expect(await breaker("alone")).toBe(0)
    expect(await billed()).toMatchObject([ofFirst])
    expect((await ask(caller, body)).status).toBe(200)
    expect(lines("circuit breaker", "opened", `"upstream":"alone"`).length).toBeGreaterThan(0)
  })

  test("opens, requests go to the fallback at once, and come back", async () => {
    const body = hello({ model: "backed" })
    first.respond(Errors.serverError)
    for (let call = 0; call < 5; call++) expectServedBySecond(await ask(caller, body))
    expect(first.requests).toHaveLength(15)

    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(caller, body)))
    for (const answer of answers) expectServedBySecond(answer)
    expect(first.requests).toHaveLength(15)
    expect(await billed()).toMatchObject(Array.from({ length: 25 }, () => ofSecond))

    first.respond(fromFirst)
    await expect
      .poll(async () => (await ask(caller, body)).text, { timeout: 15_000, interval: 200 })
      .toContain("Here I am.")
    const events = await billed()
    expect(events.at(-1)).toMatchObject(ofFirst)
    expect(events.slice(0, -1)).toMatchObject(events.slice(1).map(() => ofSecond))
  })
})

describe("afterwards", () => {
  test("the service ends well", async () => {
    expect(await service.terminate()).toBe(0)
    expect(service.logs().stderr).toBe("")
    await service.start()
  })
})
