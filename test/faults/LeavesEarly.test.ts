import { afterAll, afterEach, beforeAll, expect, test } from "vitest"
import { type FakeAnthropic, startFakeAnthropic } from "../fixtures/anthropic/FakeAnthropic.ts"
import { text } from "../fixtures/anthropic/Messages.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { readBooks } from "./Books.ts"
import { ask, type Caller, hello, openStream } from "./ChatClient.ts"
import { expectInvariants } from "./Invariants.ts"

/** A vendor that tells the usage of the input before the first token; see `Upstreams` for one that does not. */
let fake: FakeAnthropic
let service: ServiceProcess
let caller: Caller
beforeAll(async () => {
  fake = await startFakeAnthropic()
  service = await prepareService({
    databaseUrl: await freshDatabase("early"),
    env: { DRAIN_DELAY: "0s", ANTHROPIC_API_KEY: fake.apiKey, ANTHROPIC_BASE_URL: fake.baseUrl }
  })
  const { org: key } = await openAccounts(service, { org: 100 })
  caller = { baseUrl: service.baseUrl, key }
  await service.start()
})
afterAll(async () => {
  await service.remove()
  await fake.close()
})
afterEach(() => fake.clear())

const model = "claude-opus-5-5"
const said = text("Too late.", { usage: { input_tokens: 1_000 } })

const noHolds = () =>
  expect.poll(async () => (await readBooks(service)).holds, { timeout: 1_000, interval: 50 }).toEqual([])

test.each([false, true])("before the vendor said anything: released (stream: %s)", async (stream) => {
  const before = (await readBooks(service)).events.length
  fake.next(Faults.hangAfter(0)(said))
  const arrived = fake.arrival()
  const abort = new AbortController()
  const answer = ask(caller, hello({ model, stream }), abort.signal)
  const { ended } = await arrived
  const left = Date.now()
  abort.abort()
  await expect(answer).rejects.toThrow()
  expect((await ended).at - left).toBeLessThan(1_000)
  await noHolds()
  expect((await readBooks(service)).events).toHaveLength(before)
})

test("after it told the usage of the input, before the first token: the input is billed, once", async () => {
  fake.next(Faults.hangAfter(1)(said))
  const stream = await openStream(caller, { model })
  const left = Date.now()
  stream.leave()
  const ending = await fake.requests[0]?.ended
  expect(ending?.by).toBe("client")
  expect((ending?.at ?? Infinity) - left).toBeLessThan(1_000)
  await noHolds()
  const { events } = await expectInvariants({ services: [service], secrets: [fake.apiKey, caller.key] })
  const bill = events.filter(({ requestId }) => requestId === stream.requestId)
  expect(bill).toMatchObject([{ input: 1_000, output: 0, estimated: true }])
  expect(bill[0]?.cost).toBeGreaterThan(0n)
})
