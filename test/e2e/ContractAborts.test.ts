import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { billingSummary } from "../adapters/http/ContractSchemas.ts"
import { text } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import {
  type Account,
  balanceOf,
  prepareService,
  type ServiceProcess,
  setUpAccount,
  anyStore
} from "../fixtures/ServiceProcess.ts"

/** A client that leaves stops the vendor within a second, pays once for what it was sent, and leaves no credit held. */
describe.each(anyStore)("clients that leave, on $store", ({ options }) => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let account: Account

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    service = await prepareService({ fake, ...(await options()), env: { DRAIN_DELAY: "0s" } })
    await service.start()
    account =
      service.env["DATABASE_URL"] === undefined
        ? { org: "default", key: service.printedKey() }
        : await setUpAccount(service, { org: "leavers", credit: 10 })
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  const ask = (stream: boolean, signal: AbortSignal) =>
    fetch(`${service.baseUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${account.key}` },
      body: JSON.stringify({ model: "fake-model", messages: [{ role: "user", content: "Hi" }], stream }),
      signal
    })

  const summary = async () => {
    const response = await fetch(`${service.baseUrl}/v1/billing/summary`, {
      headers: { authorization: `Bearer ${account.key}` }
    })
    const { balance_usd, last_30_days, recent_model_usage } = billingSummary(await response.json())
    return { balance: balance_usd, events: last_30_days.total_usage_events, recent: recent_model_usage }
  }

  const ways = [
    ["the vendor's head", Faults.hangAfter(0)],
    ["the vendor's first byte", Faults.hangAfterHeaders]
  ] as const

  test.each(ways.flatMap(([before, fault]) => [false, true].map((stream) => ({ before, fault, stream }))))(
    "before $before end the vendor's request and pay nothing (stream: $stream)",
    async ({ fault, stream }) => {
      const before = await summary()
      fake.next(fault(text("never")))
      const arrival = fake.arrival()
      const leave = new AbortController()
      const asked = expect(ask(stream, leave.signal)).rejects.toThrow()
      const { ended } = await arrival
      await sleep(50)
      const left = Date.now()
      leave.abort()
      await asked
      const ending = await ended
      expect(ending.by).toBe("client")
      expect(ending.at - left).toBeLessThan(1_000)
      await sleep(50)
      expect(await summary()).toEqual(before)
    }
  )

  test("in the middle of a vendor's long answer end it", async () => {
    fake.next(Faults.hangAfter(1)(Faults.packets(100)(text("word ".repeat(100)))))
    const arrival = fake.arrival()
    const leave = new AbortController()
    const asked = expect(ask(false, leave.signal)).rejects.toThrow()
    const { ended } = await arrival
    await sleep(50)
    const left = Date.now()
    leave.abort()
    await asked
    expect((await ended).at - left).toBeLessThan(1_000)
  })

  test("in the middle of a stream end the vendor's, and pay once for what was said till then", async () => {
    const before = await summary()
    fake.next(Faults.every(20)(text("word ".repeat(1_000))))
    const leave = new AbortController()
    const response = await ask(true, leave.signal)
    const reader = response.body?.getReader()
    for (let pieces = 0; pieces < 5; pieces++) await reader?.read()
    const left = Date.now()
    leave.abort()
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect((ending?.at ?? Infinity) - left).toBeLessThan(1_000)

    await expect.poll(summary, { timeout: 5_000 }).toMatchObject({ events: before.events + 1 })
    const after = await summary()
    const [event] = after.recent
    expect(event).toMatchObject({ model: "fake-model", cost_usd: expect.any(Number) })
    expect(event?.output_tokens).toBeGreaterThanOrEqual(3)
    expect(event?.output_tokens).toBeLessThan(150)
    expect(event?.cost_usd).toBeCloseTo(((event?.input_tokens ?? 0) * 2.5 + (event?.output_tokens ?? 0) * 10) / 1e6, 9)
    expect(after.balance).toBeCloseTo(before.balance - (event?.cost_usd ?? 0), 9)
    await sleep(300)
    expect(await summary()).toEqual(after)
  })

  test("while the vendor is asked again and again end the asking", async () => {
    fake.next(Errors.rateLimited("1"), text("too late"))
    const arrival = fake.arrival()
    const leave = new AbortController()
    const asked = expect(ask(false, leave.signal)).rejects.toThrow()
    await arrival
    await sleep(100)
    leave.abort()
    await asked
    await sleep(1_300)
    expect(fake.requests).toHaveLength(1)
  })

  test("after the whole of a stream, but before its end is read, pay for the whole once", async () => {
    const before = await summary()
    const leave = new AbortController()
    const response = await ask(true, leave.signal)
    await response.body?.getReader().read()
    await fake.requests[0]?.ended
    leave.abort()
    await expect.poll(summary, { timeout: 5_000 }).toMatchObject({ events: before.events + 1 })
    await sleep(300)
    expect((await summary()).events).toBe(before.events + 1)
  })

  test("leave no credit held, and a balance that is what was granted without what was charged", async () => {
    const { balance, recent } = await summary()
    expect(await service.terminate()).toBe(0)
    expect(await balanceOf(service, account.org)).toEqual({ balance_usd: balance, held_usd: 0, available_usd: balance })
    expect(balance).toBeCloseTo(10 - recent.reduce((total, { cost_usd }) => total + cost_usd, 0), 9)
  })
})
