import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { emptyDatabase, type Postgres, startPostgres } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { holdingAccount, openAccounts } from "../fixtures/Store.ts"
import { costOf, readBooks } from "./Books.ts"
import { type Answer, ask, billing, type Caller, get, openStream } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { expectEnvelope, expectInvariants } from "./Invariants.ts"
import { startRelay } from "./Relay.ts"

/** A stream of `count` words, one every 100 ms. */
const words = (count: number) =>
  Faults.every(100)(
    text("", { pieces: Array.from({ length: count }, () => " word"), usage: usage({ prompt: 8, completion: count }) })
  )

let postgres: Postgres
let fake: FakeOpenAi
beforeAll(async () => {
  postgres = await startPostgres()
  fake = await startFakeOpenAi()
})
afterAll(async () => {
  await fake.close()
  await postgres.remove()
})
beforeEach(() => fake.clear())

const serve = async (databaseUrl: string): Promise<ServiceProcess> => {
  const env = { DRAIN_DELAY: "0s", RATE_LIMIT_CHAT: "1000000" }
  const service = await prepareService({ fake, databaseUrl, env })
  await service.start()
  return service
}

/** What clients and the balancer see while the store is away. */
const expectAway = async (caller: Caller): Promise<void> => {
  const [chats, summaries, live, ready] = await Promise.all([
    Promise.all(Array.from({ length: 30 }, () => ask(caller))),
    Promise.all(Array.from({ length: 3 }, () => askSummary(caller))),
    get(caller.baseUrl, "/health/live"),
    get(caller.baseUrl, "/health/ready")
  ])
  for (const answer of [...chats, ...summaries]) {
    expect(answer.status).toBe(503)
    expect(expectEnvelope(answer)).toMatchObject({ code: "service_unavailable", retryable: true })
  }
  expect([live.status, ready.status]).toEqual([200, 503])
  const slowest = Math.max(...[...chats, ...summaries, live, ready].map(({ ms }) => ms))
  figure("slowest answer while Postgres is away", slowest / 1_000)
  expect(slowest).toBeLessThan(2_500)
}

const askSummary = ({ baseUrl, key }: Caller): Promise<Answer> => get(baseUrl, "/v1/billing/summary", key)

/** Seconds until the service serves again. */
const untilServing = async (caller: Caller): Promise<number> => {
  const since = performance.now()
  await expect.poll(async () => (await ask(caller)).status, { timeout: 10_000, interval: 50 }).toBe(200)
  expect((await get(caller.baseUrl, "/health/ready")).status).toBe(200)
  return secondsSince(since)
}

describe("Postgres that is stopped while the service runs", () => {
  let service: ServiceProcess
  let caller: Caller
  beforeAll(async () => {
    service = await serve(await emptyDatabase("away", postgres.url))
    const { org: key } = await openAccounts(service, { org: 100 })
    caller = { baseUrl: service.baseUrl, key }
  })
  afterAll(() => service.remove())

  test.each([
    { how: "stopped", stop: () => postgres.stop("fast") },
    { how: "crashed", stop: () => postgres.stop("immediate") },
    { how: "killed", stop: () => postgres.kill() }
  ])("$how: 503 at once, and served again without a restart", async ({ how, stop }) => {
    expect((await ask(caller)).status).toBe(200)
    await stop()
    await expectAway(caller)
    // Nothing is remembered of the key any more.
    await sleep(2_500)
    await expectAway(caller)
    await postgres.start()
    const seconds = await untilServing(caller)
    figure(`serving again after Postgres was ${how}`, seconds)
    expect(seconds).toBeLessThan(5)
    await expectInvariants({ services: [service], fake, secrets: [caller.key] })
  })

  test("stopped during a stream: it ends well, and is settled once when Postgres is back", async () => {
    fake.next(words(40))
    const stream = await openStream(caller, { stream_options: { include_usage: true } })
    await stream.reached(5)
    const arrived = fake.requests[0] ?? expect.fail("no request")
    await postgres.stop()
    const { at } = await arrived.ended
    expect(await stream.ended).toBe("done")
    expect(stream.pieces()).toBe(40)
    expect(Date.now() - at).toBeLessThan(2_500)
    expect(stream.raw()).toContain(`"cost":${Number(costOf({ input: 8, output: 40 })) / 1e9}`)

    await postgres.start()
    const since = performance.now()
    const settled = async () =>
      (await readBooks(service)).events.filter(({ requestId }) => requestId === stream.requestId)
    await expect.poll(settled, { timeout: 15_000, interval: 100 }).toHaveLength(1)
    figure("settled after Postgres was back", secondsSince(since))
    const { events } = await expectInvariants({ services: [service], fake, secrets: [caller.key] })
    const bill = events.filter(({ requestId }) => requestId === stream.requestId)
    expect(bill).toMatchObject([{ output: 40, cost: costOf({ input: 8, output: 40 }), estimated: false }])
  })

  test("killed while a settlement waits in it: settled once when Postgres is back", async () => {
    fake.next(words(20))
    const stream = await openStream(caller)
    await stream.reached(15)
    const arrived = fake.requests[0] ?? expect.fail("no request")
    // The settlement has been sent and cannot commit: the service cannot know what became of it.
    const locked = holdingAccount(service, "org", async () => {
      await arrived.ended
      await sleep(300)
      await postgres.kill()
    })
    await expect(locked).rejects.toThrow()
    expect(await stream.ended).toBe("done")
    expect(stream.pieces()).toBe(20)

    await postgres.start()
    const since = performance.now()
    const settled = async () =>
      (await readBooks(service)).events.filter(({ requestId }) => requestId === stream.requestId)
    await expect.poll(settled, { timeout: 15_000, interval: 100 }).toHaveLength(1)
    figure("settled after Postgres was killed at the settlement and was back", secondsSince(since))
    await sleep(6_000)
    expect(await settled()).toMatchObject([{ output: 20, cost: costOf({ input: 8, output: 20 }), estimated: false }])
    await expectInvariants({ services: [service], fake, secrets: [caller.key] })
  })

  test("away for longer than a lease: the streams of the time are not swept, but settled at their end", async () => {
    fake.next(words(450), words(100))
    const long = await openStream(caller)
    const short = await openStream(caller)
    await short.reached(5)
    await postgres.stop()
    await sleep(33_000)
    expect(await short.ended).toBe("done")
    await postgres.start()
    const bills = async () =>
      (await readBooks(service)).events.filter(({ requestId }) =>
        [long, short].some((one) => one.requestId === requestId)
      )
    await expect.poll(bills, { timeout: 15_000, interval: 100 }).toMatchObject([{ output: 100, estimated: false }])
    expect(await long.ended).toBe("done")
    await expect.poll(bills, { timeout: 15_000, interval: 100 }).toMatchObject([{ output: 100 }, { output: 450 }])
    await expectInvariants({ services: [service], fake, secrets: [caller.key] })
  })

  test("killed again and again under load: whatever was answered is in the books, once", async () => {
    fake.respond(Faults.after(20)(text("Hello.", { usage: usage({ prompt: 8, completion: 2 }) })))
    const before = (await readBooks(service)).events.length
    const until = performance.now() + 45_000
    const counts = { served: 0, refused: 0 }
    const client = async () => {
      while (performance.now() < until) {
        const answer = await ask(caller)
        if (answer.status === 200) counts.served++
        else {
          expect(expectEnvelope(answer).code).toBe("service_unavailable")
          counts.refused++
          await sleep(50)
        }
      }
    }
    const disturb = async () => {
      for (const [pause, end] of [
        [3_000, () => postgres.kill()],
        [5_000, () => postgres.stop("fast")],
        [4_000, () => postgres.stop("immediate")],
        [6_000, () => postgres.kill()],
        [3_000, () => postgres.stop("fast")]
      ] as const) {
        await sleep(pause)
        await end()
        await sleep(1_000)
        await postgres.start()
      }
    }
    await Promise.all([disturb(), ...Array.from({ length: 8 }, client)])
    console.log(`under load: ${counts.served} served, ${counts.refused} refused`)
    expect(counts.served).toBeGreaterThan(100)
    // What was cut between the hold and its acknowledgement lapses first.
    await expect.poll(async () => (await readBooks(service)).holds.length, { timeout: 45_000, interval: 500 }).toBe(0)
    const { events } = await expectInvariants({ services: [service], fake, secrets: [caller.key] })
    const billed = events.length - before
    expect(billed).toBe(counts.served)
  })
})

describe("Postgres that is away when the service stops", () => {
  test("the service ends in time, and what it could not settle is swept by the next", async () => {
    const service = await serve(await emptyDatabase("stops", postgres.url))
    try {
      const { org: key } = await openAccounts(service, { org: 100 })
      fake.next(words(80))
      const stream = await openStream({ baseUrl: service.baseUrl, key })
      await stream.reached(60)
      await postgres.stop()
      const since = performance.now()
      expect(await service.terminate()).toBe(0)
      figure("ended without Postgres after", secondsSince(since))
      expect(secondsSince(since)).toBeLessThan(10)
      expect(await stream.ended).toBe("done")

      await postgres.start()
      await service.start()
      const holds = async () => (await readBooks(service)).holds.length
      await expect.poll(holds, { timeout: 45_000, interval: 250 }).toBe(0)
      const { events } = await expectInvariants({ services: [service], fake, secrets: [key] })
      expect(events).toMatchObject([{ requestId: stream.requestId, input: 8 }])
    } finally {
      await service.remove()
    }
  })
})

describe("Postgres that hangs", () => {
  test("503 in time, and served again when it is reached again", async () => {
    const url = new URL(await emptyDatabase("hangs", postgres.url))
    const relay = await startRelay({ port: Number(url.port) })
    const service = await serve(Object.assign(new URL(url), { port: `${relay.port}` }).href)
    try {
      const { org: key } = await openAccounts({ env: { DATABASE_URL: url.href } }, { org: 100 })
      const caller = { baseUrl: service.baseUrl, key }
      expect((await ask(caller)).status).toBe(200)
      fake.next(words(30))
      const stream = await openStream(caller)
      relay.silence()
      await expectAway(caller)
      expect(await stream.ended).toBe("done")
      await sleep(2_500)
      await expectAway(caller)
      relay.resume()
      const seconds = await untilServing(caller)
      figure("serving again after Postgres hung", seconds)
      expect(seconds).toBeLessThan(5)
      expect(await billing(caller)).toMatchObject({ balance_usd: expect.any(Number) })
      const holds = async () => (await readBooks({ env: { DATABASE_URL: url.href } })).holds.length
      await expect.poll(holds, { timeout: 45_000, interval: 250 }).toBe(0)
      const { events } = await expectInvariants({ services: [service], fake, secrets: [key] })
      expect(events.filter(({ requestId }) => requestId === stream.requestId)).toMatchObject([
        { output: 30, estimated: false }
      ])
    } finally {
      await service.remove()
      await relay.close()
    }
  })
})
