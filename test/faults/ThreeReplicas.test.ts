import { Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { issueKey, leases, openAccounts } from "../fixtures/Store.ts"
import { costOf, readBooks } from "./Books.ts"
import { type Answer, ask, type Caller, get, hello, openStream } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { expectEnvelope, expectInvariants } from "./Invariants.ts"
import { settleMillion } from "./ManyEvents.ts"
import { inTurn, prepareReplicas } from "./Replicas.ts"

const tokens = { input: 8, output: 2 }
const short = text("Good morning.", { usage: usage({ prompt: tokens.input, completion: tokens.output }) })

/** A stream of `count` words, one every 100 ms. */
const words = (count: number) =>
  Faults.every(100)(
    text("", { pieces: Array.from({ length: count }, () => " word"), usage: usage({ prompt: 8, completion: count }) })
  )

let fake: FakeOpenAi
beforeAll(async () => {
  fake = await startFakeOpenAi()
})
afterAll(() => fake.close())
beforeEach(() => {
  fake.clear()
  fake.respond(short)
})

/** An answer, with the moment of its arrival as `performance.now()`. */
interface Answered extends Answer {
  readonly at: number
}

/** So many requests to the replicas in turn, a hundred under way at any time. */
const burst = async (replicas: ReadonlyArray<ServiceProcess>, key: string, count: number) => {
  const answers: Array<Answered> = []
  let next = 0
  const client = async () => {
    while (next < count) {
      const { baseUrl } = inTurn(replicas, next++)
      const answer = await ask({ baseUrl, key })
      answers.push({ ...answer, at: performance.now() })
    }
  }
  await Promise.all(Array.from({ length: 100 }, client))
  return answers
}

/** What a window of `limit` says in its headers. */
const expectLimited = (answers: ReadonlyArray<Answered>, limit: number) => {
  const admitted = answers.filter(({ status }) => status === 200)
  const refused = answers.filter(({ status }) => status === 429)
  expect(admitted.length + refused.length).toBe(answers.length)
  for (const answer of answers) {
    expect(Number(answer.headers["ratelimit-limit"])).toBe(limit)
    expect(Number(answer.headers["ratelimit-reset"])).toBeGreaterThan(0)
    expect(Number(answer.headers["ratelimit-reset"])).toBeLessThanOrEqual(60)
  }
  for (const answer of refused) {
    expect(expectEnvelope(answer)).toMatchObject({ code: "rate_limited", retryable: true })
    expect(answer.headers["ratelimit-remaining"]).toBe("0")
    expect(answer.headers["retry-after"]).toBe(answer.headers["ratelimit-reset"])
  }
  return { admitted, refused }
}

/** Some of the refused come back, each when it was told to; they are served. */
const expectServedLater = async (
  replicas: ReadonlyArray<ServiceProcess>,
  key: string,
  refused: ReadonlyArray<Answered>
): Promise<ReadonlyArray<Answered>> =>
  await Promise.all(
    refused.map(async ({ at, headers }, index) => {
      await sleep(at + Number(headers["retry-after"]) * 1_000 - performance.now())
      const answer = await ask({ baseUrl: inTurn(replicas, index).baseUrl, key })
      expect(answer.status).toBe(200)
      return { ...answer, at: performance.now() }
    })
  )

describe("three replicas on one Postgres", () => {
  let replicas: ReadonlyArray<ServiceProcess>
  let keys: Readonly<Record<"crowd" | "busy" | "guests", string>>
  beforeAll(async () => {
    replicas = await prepareReplicas({ name: "replicas", fake, env: { DRAIN_DELAY: "0s" } })
    keys = await openAccounts(inTurn(replicas, 0), { crowd: 0.0015, busy: 100, guests: 1 })
    await Promise.all(replicas.map((replica) => replica.start()))
  })
  afterAll(() => Promise.all(replicas.map((replica) => replica.remove())))

  test("a hundred at once with credit for one: one is served", async () => {
    fake.respond(Faults.after(300)(text("Good morning.", { usage: usage({ prompt: 8, completion: 100 }) })))
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        ask({ baseUrl: inTurn(replicas, index).baseUrl, key: keys.crowd }, hello({ max_tokens: 100 }))
      )
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const refused = answers.filter(({ status }) => status === 402)
    expect(refused).toHaveLength(99)
    for (const answer of refused) {
      expect(expectEnvelope(answer)).toMatchObject({ code: "insufficient_credits", retryable: false })
    }
    expect(fake.requests).toHaveLength(1)
    const { accounts, events } = await expectInvariants({ services: replicas, fake, secrets: Object.values(keys) })
    expect(events.filter(({ org }) => org === "crowd")).toMatchObject([{ cost: costOf({ input: 8, output: 100 }) }])
    expect(accounts.find(({ org }) => org === "crowd")).toMatchObject({ balance: 480_000n, held: 0n })
  })

  test("600 in 60 s: exactly so many of 2,000 are served, the others when they were told, and 600 again", async () => {
    const began = performance.now()
    const first = expectLimited(await burst(replicas, keys.busy, 2_000), 600)
    figure("a burst of 2,000 over three replicas took", secondsSince(began))
    expect(secondsSince(began)).toBeLessThan(50)
    expect(first.admitted).toHaveLength(600)
    expect(fake.requests).toHaveLength(600)
    // Every number was given out once, so no two replicas counted the same request.
    expect(remaining(first.admitted)).toEqual(Array.from({ length: 600 }, (_, left) => left))

    const later = await expectServedLater(replicas, keys.busy, first.refused.slice(-60))
    figure("the next window began after", secondsSince(began))
    const second = expectLimited([...later, ...(await burst(replicas, keys.busy, 1_000))], 600)
    expect(second.admitted).toHaveLength(600)
    expect(remaining(second.admitted)).toEqual(Array.from({ length: 600 }, (_, left) => left))

    const { events } = await expectInvariants({ services: replicas, fake, secrets: Object.values(keys) })
    const billed = events.filter(({ org }) => org === "busy")
    expect(billed).toHaveLength(1_200)
    expect(billed.every(({ cost }) => cost === costOf(tokens))).toBe(true)
  })

  test("a revoked key stops on all of them within 5 s", async () => {
    const [replica] = replicas
    const { id, key } = printedKey(await replica?.cli(["keys", "create", "--org", "guests"]))
    const status = async ({ baseUrl }: ServiceProcess) => (await get(baseUrl, "/v1/models", key)).status
    expect(await Promise.all(replicas.map(status))).toEqual([200, 200, 200])

    const stopped = Promise.all(
      replicas.map(async (replica) => {
        while ((await status(replica)) === 200) await sleep(100)
        return performance.now()
      })
    )
    await replica?.cli(["keys", "revoke", id])
    const revoked = performance.now()
    const seconds = Math.max(...(await stopped).map((at) => (at - revoked) / 1_000))
    figure("a revoked key stopped on three replicas after", seconds)
    expect(seconds).toBeLessThan(5)
    for (let again = 0; again < 10; again++) {
      expect(await Promise.all(replicas.map(status))).toEqual([401, 401, 401])
      await sleep(100)
    }
  })
})

const remaining = (answers: ReadonlyArray<Answered>): ReadonlyArray<number> =>
  answers.map(({ headers }) => Number(headers["ratelimit-remaining"])).sort((a, b) => a - b)

const printedKey = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String, key: Schema.String }))

describe("clocks that are five minutes off", () => {
  const minutes = 60_000
  const limit = 60
  let replicas: ReadonlyArray<ServiceProcess>
  let keys: Readonly<Record<"streams" | "busy", string>>
  const callers = (key: string): ReadonlyArray<Caller> => replicas.map(({ baseUrl }) => ({ baseUrl, key }))

  beforeAll(async () => {
    const env = { DRAIN_DELAY: "0s", RATE_LIMIT_CHAT: `${limit}` }
    replicas = await prepareReplicas({ name: "clocks", fake, env, clocks: [5 * minutes, 0, -5 * minutes] })
    keys = await openAccounts(inTurn(replicas, 1), { streams: 100, busy: 100 })
    await Promise.all(replicas.map((replica) => replica.start()))
  })
  afterAll(() => Promise.all(replicas.map((replica) => replica.remove())))

  test("the clocks are off", async () => {
    const created = async (caller: Caller) => decodeCreated(JSON.parse((await ask(caller)).text)).created
    const off = await Promise.all(
      callers(keys.streams).map(async (caller) => (await created(caller)) - Date.now() / 1_000)
    )
    expect(off).toEqual([300, 0, -300].map((seconds) => expect.closeTo(seconds, -1)))
  })

  test("leases and windows follow the clock of the database", async () => {
    // Longer than a lease.
    fake.next(words(400), words(400), words(400))
    const streams = await Promise.all(callers(keys.streams).map((caller) => openStream(caller)))
    const { admitted, refused } = expectLimited(await burst(replicas, keys.busy, 5 * limit), limit)
    expect(admitted).toHaveLength(limit)
    expect(remaining(admitted)).toEqual(Array.from({ length: limit }, (_, left) => left))

    let running = true
    const seen: Array<number> = []
    const watched = (async () => {
      for (; running; await sleep(1_000)) seen.push(...(await leases(inTurn(replicas, 1))))
    })()
    for (const stream of streams) expect(await stream.ended).toBe("done")
    running = false
    await watched
    // A lease lasts 30 s and is renewed every 5 s.
    expect(seen.length).toBeGreaterThan(3 * 30)
    expect(Math.max(...seen)).toBeLessThanOrEqual(30)
    expect(Math.min(...seen)).toBeGreaterThan(20)
    figure("the least that was left of a lease", Math.min(...seen))

    const later = await expectServedLater(replicas, keys.busy, refused.slice(-30))
    const next = expectLimited([...later, ...(await burst(replicas, keys.busy, 5 * limit))], limit)
    expect(next.admitted).toHaveLength(limit)
    const { events } = await expectInvariants({ services: replicas, fake, secrets: Object.values(keys) })
    const ended = streams.map(({ requestId }) => events.filter((event) => event.requestId === requestId))
    expect(ended).toMatchObject(streams.map(() => [{ output: 400, estimated: false }]))
  })

  test("the expiry of a key follows the clock of the database", async () => {
    const store = inTurn(replicas, 1)
    const valid = await issueKey(store, "busy", Date.now() + 2 * minutes)
    const expired = await issueKey(store, "busy", Date.now() - 2 * minutes)
    const statuses = (key: string) =>
      Promise.all(replicas.map(async ({ baseUrl }) => (await get(baseUrl, "/v1/models", key)).status))
    expect({ valid: await statuses(valid), expired: await statuses(expired) }).toEqual({
      valid: [200, 200, 200],
      expired: [401, 401, 401]
    })
  })

  test("the replica that is ahead sweeps what others left behind: not early, and once", async () => {
    const [ahead, right, behind] = replicas
    if (ahead === undefined || right === undefined || behind === undefined) throw new Error("a replica is missing")
    fake.next(words(300), words(300))
    const streams = await Promise.all([right, behind].map(({ baseUrl }) => openStream({ baseUrl, key: keys.streams })))
    await Promise.all(streams.map((stream) => stream.reached(70)))
    const left = await leases(ahead)
    await Promise.all([right.kill(), behind.kill()])
    const killed = performance.now()
    expect(left).toHaveLength(2)

    const events = async () => {
      const { events } = await readBooks(ahead)
      return events.filter(({ requestId }) => streams.some((stream) => stream.requestId === requestId))
    }
    while (secondsSince(killed) < Math.min(...left) - 1) {
      expect(await leases(ahead)).toHaveLength(2)
      await sleep(250)
    }
    await expect.poll(() => leases(ahead), { timeout: 60_000, interval: 250 }).toEqual([])
    figure("swept by the replica that is ahead after", secondsSince(killed))
    expect(secondsSince(killed)).toBeLessThan(45)
    expect(await events()).toMatchObject([{ estimated: true }, { estimated: true }])
    await Promise.all([right.start(), behind.start()])
    await sleep(6_000)
    expect(await events()).toHaveLength(2)
    await expectInvariants({ services: replicas, fake, secrets: Object.values(keys) })
  })
})

const decodeCreated = Schema.decodeUnknownSync(Schema.Struct({ created: Schema.Int }))

describe("a million events of 0.0000001 USD", () => {
  test("sum exactly: credit for a million is used up by them", async () => {
    const [replica] = await prepareReplicas({ name: "million", fake, clocks: [0] })
    if (replica === undefined) throw new Error("there is no replica")
    try {
      const { drops: key } = await openAccounts(replica, { drops: 0.1 })
      const began = performance.now()
      await settleMillion(replica)
      figure("a million holds and settlements took", secondsSince(began))
      await replica.start()
      const answer = await get(replica.baseUrl, "/v1/billing/summary", key)
      figure("their billing summary took", answer.ms / 1_000)
      expect(decodeSummary(JSON.parse(answer.text))).toEqual({
        balance_usd: 0,
        last_30_days: { total_cost_usd: 0.1, total_usage_events: 1_000_000 }
      })
      expect(answer.text).toContain(`"cost_usd":1e-7`)
      expect((await ask({ baseUrl: replica.baseUrl, key })).status).toBe(402)
      expect(await replica.cli(["credits", "balance", "--org", "drops"])).toMatchObject({ balance_usd: 0, held_usd: 0 })
    } finally {
      await replica.remove()
    }
  })
})

const decodeSummary = Schema.decodeUnknownSync(
  Schema.Struct({
    balance_usd: Schema.Finite,
    last_30_days: Schema.Struct({ total_cost_usd: Schema.Finite, total_usage_events: Schema.Int })
  })
)
