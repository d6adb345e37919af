import { Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { billingSummary } from "../adapters/http/ContractSchemas.ts"
import { execute } from "../adapters/http/Sql.ts"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { prepareService, type ServiceProcess, setUpAccount, stores } from "../fixtures/ServiceProcess.ts"

const month = 30 * 24 * 60 * 60 * 1_000

/** Section 2.2 and its rules in section 4.1: whose usage, of which time, how much of it, in which form. */
describe.each(stores)("the billing summary, on $store", ({ options }) => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  const keys = { owner: "", admin: "", member: "" }

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    service = await prepareService({ fake, ...(await options()), env: { DRAIN_DELAY: "0s" } })
    await service.start()
    if (service.env["DATABASE_URL"] === undefined) {
      keys.owner = service.printedKey()
      // While it runs its store is its own.
      await service.terminate()
      keys.admin = await addMember("admin", "default")
      keys.member = await addMember("member", "default")
      await service.start()
    } else {
      keys.owner = (await setUpAccount(service, { org: "acme", credit: 10 })).key
      ;[keys.admin, keys.member] = await Promise.all([addMember("admin", "acme"), addMember("member", "acme")])
    }
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })

  const addMember = async (role: "admin" | "member", org: string) => {
    await service.cli(["members", "add", role, "--org", org, "--role", role])
    return printedKey(await service.cli(["keys", "create", "--org", org, "--member", role])).key
  }

  const summary = async (key: string) => {
    const response = await fetch(`${service.baseUrl}/v1/billing/summary`, {
      headers: { authorization: `Bearer ${key}` }
    })
    expect(response.status).toBe(200)
    expect(response.headers.get("content-type")).toMatch(/^application\/json/)
    return billingSummary(await response.json())
  }

  const use = async (key: string, prompt: number) => {
    fake.next(text("Hi", { usage: usage({ prompt, completion: 10 }) }))
    const response = await fetch(`${service.baseUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "fake-model", messages: [{ role: "user", content: "Hi" }] })
    })
    expect(response.status).toBe(200)
    await response.text()
  }

  const costOf = (prompt: number) => (prompt * 2.5 + 10 * 10) / 1e6

  test("of an account that used nothing is empty", async () => {
    const { last_30_days, ...rest } = await summary(keys.owner)
    expect(rest).toEqual({ balance_usd: 10, recent_model_usage: [] })
    expect(last_30_days).toMatchObject({ total_cost_usd: 0, total_usage_events: 0 })
    expect(Math.abs(Date.parse(last_30_days.since) - (Date.now() - month))).toBeLessThan(60_000)
  })

  test("shows owners and admins everybody's usage, others their own", async () => {
    await use(keys.owner, 100)
    await use(keys.member, 200)
    await use(keys.admin, 300)
    const balance = 10 - costOf(100) - costOf(200) - costOf(300)
    for (const key of [keys.owner, keys.admin]) {
      const { balance_usd, last_30_days, recent_model_usage } = await summary(key)
      expect(balance_usd).toBeCloseTo(balance, 9)
      expect(last_30_days.total_usage_events).toBe(3)
      expect(last_30_days.total_cost_usd).toBeCloseTo(10 - balance, 9)
      expect(recent_model_usage.map(({ input_tokens }) => input_tokens)).toEqual([300, 200, 100])
    }
    const own = await summary(keys.member)
    expect(own.balance_usd).toBeCloseTo(balance, 9)
    expect(own.last_30_days).toMatchObject({ total_usage_events: 1, total_cost_usd: costOf(200) })
    expect(own.recent_model_usage).toEqual([
      {
        cost_usd: costOf(200),
        input_tokens: 200,
        output_tokens: 10,
        model: "fake-model",
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      }
    ])
    expect(Math.abs(Date.parse(own.recent_model_usage[0]?.timestamp ?? "") - Date.now())).toBeLessThan(60_000)
  })

  test("has the fifty newest events and counts all", async () => {
    for (let prompt = 1_001; prompt <= 1_052; prompt++) await use(keys.owner, prompt)
    const { last_30_days, recent_model_usage } = await summary(keys.owner)
    expect(recent_model_usage.map(({ input_tokens }) => input_tokens)).toEqual(
      Array.from({ length: 50 }, (_, index) => 1_052 - index)
    )
    expect(last_30_days.total_usage_events).toBe(55)
  })

  test("leaves out of its totals what is older than thirty days, but not out of the balance", async (context) => {
    const databaseUrl = service.env["DATABASE_URL"]
    if (databaseUrl === undefined) return context.skip("no other process may change the embedded store")
    const before = await summary(keys.owner)
    const moved = await execute(
      databaseUrl,
      `UPDATE usage_events SET created_at = now() - CASE input WHEN 1001 THEN interval '30 days 1 minute'
         ELSE interval '29 days 23 hours 59 minutes' END
       WHERE input IN (1001, 1002) RETURNING id`
    )
    expect(moved).toHaveLength(2)
    const after = await summary(keys.owner)
    expect(after.last_30_days.total_usage_events).toBe(before.last_30_days.total_usage_events - 1)
    expect(after.last_30_days.total_cost_usd).toBeCloseTo(before.last_30_days.total_cost_usd - costOf(1_001), 9)
    expect(after.balance_usd).toBe(before.balance_usd)
  })
})

const printedKey = Schema.decodeUnknownSync(Schema.Struct({ key: Schema.String }))
