import { setTimeout as sleep } from "node:timers/promises"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import type { Answer } from "../fixtures/openai/Reply.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceOptions, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { holdingAccount, openAccounts, sweep } from "../fixtures/Store.ts"
import { type Books, costOf, readBooks } from "./Books.ts"
import { ask, billing, type Caller, type ChatStream, openStream } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { expectBalancedBooks, expectInvariants } from "./Invariants.ts"

/** Milliseconds between two pieces of a stream. */
const pace = 100

const words = (count: number): Answer =>
  Faults.every(pace)(text("", { pieces: Array.from({ length: count }, () => " word"), usage: reported(count) }))

const reported = (count: number) => usage({ prompt: 8, completion: count })

/** Of fifty streams: these end before the kill, these are cut by it, these wait for their first byte then. */
const kinds = { finished: 10, cut: 30, waiting: 10 }

let fake: FakeOpenAi
let services: Array<ServiceProcess>
beforeEach(async () => {
  fake = await startFakeOpenAi()
  services = []
})
afterEach(async () => {
  await Promise.all(services.map((service) => service.remove()))
  await fake.close()
})

const prepare = async (options: ServiceOptions): Promise<ServiceProcess> => {
  const service = await prepareService({ fake, env: { DRAIN_DELAY: "0s" }, ...options })
  services.push(service)
  return service
}

interface Opened {
  readonly finished: ReadonlyArray<ChatStream>
  readonly cut: ReadonlyArray<ChatStream>
  /** Settled when the service dies: no answer ever came. */
  readonly waiting: Promise<ReadonlyArray<PromiseSettledResult<ChatStream>>>
}

/** Opens the fifty and waits until those that are to be cut have run for seven seconds, longer than a checkpoint. */
const openFifty = async (caller: Caller): Promise<Opened> => {
  const open = (count: number) => Array.from({ length: count }, () => openStream(caller))
  const before = fake.requests.length
  fake.respond(words(10))
  const finished = await Promise.all(open(kinds.finished))
  fake.respond(words(300))
  const cut = await Promise.all(open(kinds.cut))
  fake.respond(Faults.hangAfter(0)(words(1)))
  const waiting = Promise.allSettled(open(kinds.waiting))
  for (const stream of finished) expect(await stream.ended).toBe("done")
  await Promise.all(cut.map((stream) => stream.reached(7_000 / pace)))
  expect(fake.requests).toHaveLength(before + 50)
  fake.respond(words(1))
  return { finished, cut, waiting }
}

/** What the fifty must have cost once everything has settled. */
const expectBilled = async ({ events }: Books, { cut, finished, waiting }: Opened): Promise<void> => {
  const billed = (stream: ChatStream) => events.filter(({ requestId }) => requestId === stream.requestId)
  for (const stream of finished) {
    expect(billed(stream)).toMatchObject([{ output: 10, cost: costOf({ input: 8, output: 10 }), estimated: false }])
  }
  for (const stream of cut) {
    expect(await stream.ended).toBe("broken")
    const bill = billed(stream)
    expect(bill).toMatchObject([{ input: 8, estimated: true }])
    const output = bill[0]?.output ?? 0
    // The last checkpoint is at most one turn of five seconds old, and what it counted had been delivered.
    expect(output).toBeGreaterThanOrEqual(stream.pieces() - 6_000 / pace)
    expect(output).toBeLessThanOrEqual(stream.pieces() + 5)
  }
  expect((await waiting).map(({ status }) => status)).toEqual(Array(kinds.waiting).fill("rejected"))
  expect(events).toHaveLength(kinds.finished + kinds.cut)
}

/** Whoever sweeps again finds nothing. */
const expectSwept = async (service: ServiceProcess): Promise<void> => {
  const books = await readBooks(service)
  expect(await sweep(service)).toBe(0)
  expect(await readBooks(service)).toEqual(books)
}

describe("kill -9 during 50 parallel streams", () => {
  test("restart on the embedded store: swept once, after the lease", async () => {
    const service = await prepare({})
    const { org: key } = await openAccounts(service, { org: 100 })
    await service.start()
    const caller = { baseUrl: service.baseUrl, key }
    const streams = await openFifty(caller)
    await service.kill()
    const killed = performance.now()

    await service.start()
    figure("ready again on the embedded store after", secondsSince(killed))
    const events = async () => (await billing(caller)).recent_model_usage.length
    await expect.poll(events, { timeout: 45_000, interval: 250 }).toBe(kinds.finished + kinds.cut)
    figure("swept after a restart on the embedded store after", secondsSince(killed))
    expect(secondsSince(killed)).toBeLessThan(40)

    await service.terminate()
    await expectBilled(await expectInvariants({ services, fake, secrets: [key] }), streams)
    await expectSwept(service)
    await service.start()
    expect((await ask(caller)).status).toBe(200)
  })

  test("restart on Postgres: swept once, after the lease", async () => {
    const service = await prepare({ databaseUrl: await freshDatabase("killed") })
    const { org: key } = await openAccounts(service, { org: 100 })
    await service.start()
    const caller = { baseUrl: service.baseUrl, key }
    const streams = await openFifty(caller)
    const open = (await readBooks(service)).holds
    expect(open).toHaveLength(kinds.cut + kinds.waiting)
    await service.kill()
    const killed = performance.now()
    expectBalancedBooks(await readBooks(service))

    await service.start()
    figure("ready again on Postgres after", secondsSince(killed))
    await expect.poll(async () => (await readBooks(service)).holds.length, { timeout: 45_000, interval: 250 }).toBe(0)
    figure("swept after a restart on Postgres after", secondsSince(killed))
    expect(secondsSince(killed)).toBeLessThan(40)

    await expectBilled(await expectInvariants({ services, fake, secrets: [key] }), streams)
    await expectSwept(service)
    expect((await ask(caller)).status).toBe(200)
  })

  test("a replica that lives on sweeps within 60 s, and its own streams go on", async () => {
    const databaseUrl = await freshDatabase("killed")
    const [dying, living] = [await prepare({ databaseUrl }), await prepare({ databaseUrl })]
    const { other, org: key } = await openAccounts(dying, { org: 100, other: 100 })
    await Promise.all([dying.start(), living.start()])
    fake.respond(words(600))
    const own = await Promise.all([1, 2, 3].map(() => openStream({ baseUrl: living.baseUrl, key: other })))
    const streams = await openFifty({ baseUrl: dying.baseUrl, key })
    await dying.kill()
    const killed = performance.now()

    const left = async () => (await readBooks(living)).holds.filter(({ org }) => org === "org").length
    await expect.poll(left, { timeout: 60_000, interval: 250 }).toBe(0)
    figure("swept by another replica after", secondsSince(killed))
    for (const stream of own) expect(await stream.ended).toBe("done")

    const books = await expectInvariants({ services, fake, secrets: [key, other] })
    const of = (org: string): Books => ({ ...books, events: books.events.filter((event) => event.org === org) })
    await expectBilled(of("org"), streams)
    expect(of("other").events).toMatchObject(own.map(() => ({ output: 600, estimated: false })))
    await expectSwept(living)
  })

  test.each([
    { before: "the settlement was sent", wait: 0 },
    { before: "the settlement was acknowledged", wait: 500 }
  ])("after the upstream's end, before $before: settled once", async ({ before, wait }) => {
    const databaseUrl = await freshDatabase("killed")
    const [dying, living] = [await prepare({ databaseUrl }), await prepare({ databaseUrl })]
    const { org: key } = await openAccounts(dying, { org: 100 })
    await Promise.all([dying.start(), living.start()])
    fake.respond(words(80))
    const stream = await openStream({ baseUrl: dying.baseUrl, key })
    await stream.reached(75)
    const killed = await holdingAccount(dying, "org", async () => {
      await fake.requests[0]?.ended
      await sleep(wait)
      await dying.kill()
      return performance.now()
    })
    expect(await stream.ended).toBe("broken")
    const holds = async () => (await readBooks(living)).holds.length
    await expect.poll(holds, { timeout: 60_000, interval: 250 }).toBe(0)
    figure(`settled although killed before ${before}, after`, secondsSince(killed))
    const { events } = await expectInvariants({ services, fake, secrets: [key] })
    expect(events).toMatchObject([{ requestId: stream.requestId, input: 8 }])
    await expectSwept(living)
  })
})
