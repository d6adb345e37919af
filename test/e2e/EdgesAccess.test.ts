import { Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { errorOf, replyOf } from "../adapters/http/Replies.ts"
import { execute } from "../adapters/http/Sql.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { type Account, prepareService, type ServiceProcess, setUpAccounts } from "../fixtures/ServiceProcess.ts"

const operations = [
  { method: "GET", path: "/v1/models", policy: "model_catalog_read", limit: 12 },
  { method: "GET", path: "/v1/billing/summary", policy: "billing_summary_read", limit: 120 },
  { method: "POST", path: "/v1/chat/completions", policy: "chat_completions_create", limit: 25 }
] as const

/** Who may call, how often, and for how much: sections 5, 7.1 and 8. */
describe("the way into the gateway", () => {
  let fake: FakeOpenAi
  let databaseUrl: string
  let service: ServiceProcess
  let poor: Account
  let busy: Account
  let team: Account

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    databaseUrl = await freshDatabase("edges")
    service = await prepareService({
      fake,
      databaseUrl,
      env: { RATE_LIMIT_MODELS: "12", RATE_LIMIT_CHAT: "25", DRAIN_DELAY: "0s" }
    })
    await service.start()
    ;({ busy, poor, team } = await setUpAccounts(service, { poor: 0, busy: 10, team: 10 }))
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  const call = async (
    { method, path }: { readonly method: string; readonly path: string },
    authorization: string | undefined,
    body = `{"model":"fake-model","messages":[{"role":"user","content":"Hi"}]}`
  ) =>
    replyOf(
      await fetch(`${service.baseUrl}${path}`, {
        method,
        headers: authorization === undefined ? {} : { authorization },
        ...(method === "POST" ? { body } : {})
      })
    )

  const [models, , chat] = operations

  describe("keys", () => {
    test.each(operations)("are asked for at $path", async (operation) => {
      const { key } = team
      const wrong = [
        undefined,
        "",
        "Bearer",
        "Bearer ",
        key,
        `Token ${key}`,
        `Basic ${Buffer.from(`user:${key}`).toString("base64")}`,
        `Bearer "${key}"`,
        `Bearer ${key} ${key}`,
        `Bearer ${key.slice(0, -1)}`,
        `Bearer ${key}0`,
        `Bearer ${key.toLowerCase()}`,
        "Bearer sk-gw-",
        `Bearer sk-${"x".repeat(4_000)}`,
        "Bearer sk-gw-%00%0a"
      ]
      for (const authorization of wrong) {
        const reply = await call(operation, authorization)
        errorOf(reply, "unauthorized")
        expect(reply.text).not.toContain(key)
        expect(reply.headers.get("ratelimit-limit")).toBeNull()
      }
      expect(fake.log).toHaveLength(0)
    })

    test.each(["bearer", "BEARER", "Bearer  "])("are taken after the word %s", async (word) => {
      expect((await call(chat, `${word} ${team.key}`)).status).toBe(200)
    })

    test("that are revoked are worth nothing within five seconds", async () => {
      const { id, key } = printedKey(await service.cli(["keys", "create", "--org", "team", "--member", "team-owner"]))
      expect((await call(chat, `Bearer ${key}`)).status).toBe(200)
      await service.cli(["keys", "revoke", id])
      const revoked = Date.now()
      await expect
        .poll(async () => (await call(chat, `Bearer ${key}`)).status, { timeout: 5_000, interval: 250 })
        .toBe(401)
      expect(Date.now() - revoked).toBeLessThan(5_000)
      errorOf(await call(chat, `Bearer ${key}`), "unauthorized")
      expect((await call(chat, `Bearer ${team.key}`)).status).toBe(200)
    })

    test("that expire are worth nothing from that moment on", async () => {
      const made = service.cli(["keys", "create", "--org", "team", "--member", "team-owner", "--expires", "1h"])
      const { id, key } = printedKey(await made)
      const expiry = Date.now() + 1_500
      await execute(
        databaseUrl,
        `UPDATE api_keys SET expires_at = ${expiry} WHERE id = '${id.replaceAll(/[^\w-]/g, "")}'`
      )
      expect((await call(chat, `Bearer ${key}`)).status).toBe(200)
      await sleep(expiry - Date.now() + 50)
      errorOf(await call(chat, `Bearer ${key}`), "unauthorized")
    })
  })

  describe("rates", () => {
    test.each(operations)("are $limit requests a minute at $path", async (operation) => {
      const bearer = `Bearer ${busy.key}`
      const first = await call(operation, bearer)
      const reset = Number(first.headers.get("ratelimit-reset"))
      expect(reset).toBeGreaterThan(50)
      expect(reset).toBeLessThanOrEqual(60)
      expect(first.headers.get("ratelimit-limit")).toBe(String(operation.limit))
      expect(first.headers.get("ratelimit-remaining")).toBe(String(operation.limit - 1))
      const rest = await Promise.all(Array.from({ length: operation.limit - 1 }, () => call(operation, bearer)))
      expect(rest.map(({ status }) => status)).toEqual(rest.map(() => 200))
      expect(new Set(rest.map(({ headers }) => headers.get("ratelimit-remaining"))).size).toBe(operation.limit - 1)
      fake.clear()

      const refused = await call(operation, bearer)
      const { message } = errorOf(refused, "rate_limited")
      expect(message).toContain(operation.policy)
      expect(refused.headers.get("ratelimit-remaining")).toBe("0")
      expect(refused.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/)
      expect(refused.headers.get("retry-after")).toBe(refused.headers.get("ratelimit-reset"))
      expect(fake.log).toHaveLength(0)
    })

    test("are an account's own, whatever key it uses", async () => {
      const { key } = printedKey(await service.cli(["keys", "create", "--org", "busy", "--member", "busy-owner"]))
      errorOf(await call(models, `Bearer ${key}`), "rate_limited")
      expect((await call(models, `Bearer ${team.key}`)).status).toBe(200)
    })
  })

  describe("credit", () => {
    test.each([false, true])("that is missing is a 402 before any vendor is asked (stream: %s)", async (stream) => {
      const body = JSON.stringify({ model: "fake-model", messages: [{ role: "user", content: "Hi" }], stream })
      errorOf(await call(chat, `Bearer ${poor.key}`, body), "insufficient_credits")
      expect(fake.log).toHaveLength(0)
    })

    test("is not needed for what is free, or asks for nothing", async () => {
      expect((await call(models, `Bearer ${poor.key}`)).status).toBe(200)
      expect((await call(operations[1], `Bearer ${poor.key}`)).status).toBe(200)
    })

    test("is looked at after the request itself", async () => {
      errorOf(await call(chat, `Bearer ${poor.key}`, "{"), "invalid_json")
      errorOf(await call(chat, `Bearer ${poor.key}`, "{}"), "invalid_request")
      errorOf(
        await call(chat, `Bearer ${poor.key}`, `{"model":"x","messages":[{"role":"user","content":""}]}`),
        "model_not_found"
      )
    })
  })
})

const printedKey = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String, key: Schema.String }))
