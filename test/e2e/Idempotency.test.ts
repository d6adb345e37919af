import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import OpenAI, { ConflictError } from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { chunksOf, errorOf, messageOf, pathsOf, type Reply, replyOf } from "../adapters/http/Replies.ts"
import { execute } from "../adapters/http/Sql.ts"
import { billing } from "../faults/ChatClient.ts"
import { expectInvariants } from "../faults/Invariants.ts"
import { writeModels } from "../faults/ModelsFile.ts"
import { text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { clientOf, openAccounts } from "../fixtures/Store.ts"

const orgs = [
  "plain",
  "streaming",
  "crowd",
  "mixed",
  "failing",
  "leaving",
  "foreign",
  "wordy",
  "sdk",
  "busy",
  "dead",
  "locked"
] as const
type Org = (typeof orgs)[number]

const limit = 60

const stores = [
  { store: "Postgres", processes: 2, options: async () => ({ databaseUrl: await freshDatabase("idempotency") }) },
  { store: "the embedded store", processes: 1, options: async () => ({}) }
]

const body = (more: object = {}): string =>
  JSON.stringify({ model: "fake-model", messages: [{ role: "user", content: "Hi" }], ...more })

const streamed = body({ stream: true, stream_options: { include_usage: true } })

const newKey = () => crypto.randomUUID()

const isReplay = ({ headers }: Reply) => headers.get("idempotent-replayed") === "true"

/** The official SDK as its makers mean it to be used with a server that knows such keys. */
class KeyedOpenAI extends OpenAI {
  protected override idempotencyHeader = "Idempotency-Key"
}

describe.each(stores)("idempotency keys, on $store", ({ options, processes }) => {
  let fake: FakeOpenAi
  let services: ReadonlyArray<ServiceProcess>
  let service: ServiceProcess
  let other: ServiceProcess
  let keys: Readonly<Record<Org, string>>

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    const MODELS_FILE = await writeModels([{ id: "fake-model", baseUrl: fake.baseUrl }])
    const store = await options()
    const env = { MODELS_FILE, DRAIN_DELAY: "0s", RATE_LIMIT_CHAT: String(limit) }
    services = await Promise.all(Array.from({ length: processes }, () => prepareService({ ...store, fake, env })))
    service = services[0] ?? expect.fail("no service")
    other = services.at(-1) ?? expect.fail("no service")
    keys = await openAccounts(service, Object.fromEntries(orgs.map((org) => [org, 1])) as Record<Org, number>)
    await Promise.all(services.map((one) => one.start()))
  })
  afterAll(async () => {
    await Promise.all(services.map((one) => one.remove()))
    await fake.close()
  })
  beforeEach(() => fake.clear())

  interface Sending {
    readonly sent?: string
    readonly at?: ServiceProcess
    readonly signal?: AbortSignal
    readonly headers?: ReadonlyArray<[string, string]>
  }

  const open = (org: Org, key: string, { at = service, headers = [], sent = body(), signal }: Sending = {}) =>
    fetch(`${at.baseUrl}/v1/chat/completions`, {
      method: "POST",
      headers: [["authorization", `Bearer ${keys[org]}`], ["idempotency-key", key], ...headers],
      body: sent,
      ...(signal === undefined ? {} : { signal })
    })

  const send = async (org: Org, key: string, sending: Sending = {}) => replyOf(await open(org, key, sending))

  const bill = (org: Org) => billing({ baseUrl: service.baseUrl, key: keys[org] })

  const expectReplay = (reply: Reply, first: Reply) => {
    expect(reply.status).toBe(200)
    expect(reply.text).toBe(first.text)
    expect(isReplay(reply)).toBe(true)
    expect(isReplay(first)).toBe(false)
    expect(reply.headers.get("content-type")).toBe(first.headers.get("content-type"))
    expect(reply.headers.get("x-request-id")).toMatch(/^\S+$/)
    expect(reply.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"))
  }

  const expectBusy = (reply: Reply) => {
    expect(errorOf(reply, "conflict")).toMatchObject({ retryable: true })
    expect(reply.headers.get("retry-after")).toBe("1")
  }

  test("a repetition gets the same answer, of any process, and is not charged", async () => {
    fake.next(text("Gr\u00fc\u00df dich \u{1f600}\u0000\ud800.", { usage: usage({ prompt: 8, completion: 100 }) }))
    const key = newKey()
    const first = await send("plain", key)
    expect(first.status).toBe(200)
    const paid = await bill("plain")
    // 8 input tokens at 2.5 and 100 output tokens at 10 USD per million.
    expect(paid).toMatchObject({ balance_usd: 0.99898, recent_model_usage: [{ cost_usd: 0.00102 }] })

    for (const at of [service, other, service]) expectReplay(await send("plain", key, { at }), first)
    const named = await send("plain", key, { headers: [["x-request-id", "mine"]] })
    expect(named.headers.get("x-request-id")).toBe("mine")
    expect(fake.requests).toHaveLength(1)
    expect(await bill("plain")).toEqual(paid)

    // Another key, and no key, are other requests.
    expect(isReplay(await send("plain", newKey()))).toBe(false)
    expect(fake.requests).toHaveLength(2)
  })

  test("a stream is replayed as a stream, byte for byte", async () => {
    fake.next(
      Faults.every(5)(text("One two three f\u00fcnf \u{1f600}.", { usage: usage({ prompt: 8, completion: 100 }) }))
    )
    const key = newKey()
    const first = await send("streaming", key, { sent: streamed })
    const again = await send("streaming", key, { sent: streamed, at: other })
    expectReplay(again, first)
    for (const reply of [first, again]) {
      const chunks = chunksOf(reply, { includeUsage: true, model: "fake-model" })
      expect(messageOf(chunks)).toEqual({ content: "One two three f\u00fcnf \u{1f600}." })
    }
    expect(fake.requests).toHaveLength(1)
    expect((await bill("streaming")).recent_model_usage).toHaveLength(1)
  })

  test("a stream can be replayed as soon as its end has been read", async () => {
    for (let round = 0; round < 10; round++) {
      const key = newKey()
      const first = await send("streaming", key, { sent: streamed })
      expectReplay(await send("streaming", key, { sent: streamed, at: other }), first)
    }
    expect(fake.requests).toHaveLength(10)
  })

  test("twenty at once: one upstream call, one charge", async () => {
    fake.respond(Faults.after(500)(text("Good morning.", { usage: usage({ prompt: 8, completion: 100 }) })))
    const key = newKey()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) => send("crowd", key, { at: index % 2 === 0 ? service : other }))
    )
    const answered = replies.filter(({ status }) => status === 200)
    expect(answered.filter((reply) => !isReplay(reply))).toHaveLength(1)
    expect(new Set(answered.map((reply) => reply.text)).size).toBe(1)
    for (const reply of replies) if (reply.status !== 200) expectBusy(reply)
    expect(fake.log).toHaveLength(1)
    expect(await bill("crowd")).toMatchObject({ balance_usd: 0.99898, recent_model_usage: [{ cost_usd: 0.00102 }] })
    expect(isReplay(await send("crowd", key))).toBe(true)
    expect((await bill("crowd")).recent_model_usage).toHaveLength(1)
  })

  test.each([false, true])("another body under the same key is a conflict (stream: %s)", async (stream) => {
    const released = Promise.withResolvers<void>()
    fake.next(Faults.pauseAt(stream ? 2 : 0, released.promise)(text("Hello there.")))
    const key = newKey()
    const arrival = fake.arrival()
    const running = send("mixed", key, { sent: body({ stream }) })
    await arrival
    expectBusy(await send("mixed", key, { sent: body({ stream }), at: other }))
    const different = { sent: body({ stream, seed: 1 }), at: other }
    expect(errorOf(await send("mixed", key, different), "conflict").retryable).toBe(false)
    released.resolve()
    const first = await running
    expect(first.status).toBe(200)
    expect(errorOf(await send("mixed", key, different), "conflict").retryable).toBe(false)
    // Not one byte may differ.
    expect(errorOf(await send("mixed", key, { sent: `${body({ stream })} ` }), "conflict").retryable).toBe(false)
    expectReplay(await send("mixed", key, { sent: body({ stream }) }), first)
    expect(fake.requests).toHaveLength(1)
  })

  test("what failed runs when it is sent again", async () => {
    const key = newKey()
    const refused = Errors.error(400, { message: "Your prompt is bad." })
    fake.next(refused)
    errorOf(await send("failing", key), "upstream_error")
    fake.respond(Errors.serverError)
    errorOf(await send("failing", key, { at: other }), "upstream_error")
    // What is no request claims no key.
    expect(pathsOf(await send("failing", key, { sent: body({ temperature: "hot" }) }))).toEqual(["temperature"])
    errorOf(await send("failing", key, { sent: body({ model: "no-model" }) }), "model_not_found")
    fake.respond(text("At last."))
    const first = await send("failing", key)
    expect(first.status).toBe(200)
    expectReplay(await send("failing", key, { at: other }), first)
    expect((await bill("failing")).recent_model_usage).toHaveLength(1)
  })

  test("a stream that ends in an error frees its key before its client knows", async () => {
    for (let round = 0; round < 5; round++) {
      const key = newKey()
      fake.next(Faults.resetAfter(3)(text("One two three four.")))
      const broken = await send("failing", key, { sent: streamed })
      expect(broken.status).toBe(200)
      expect(broken.text).not.toContain("[DONE]")
      const first = await send("failing", key, { sent: streamed, at: other })
      expect(isReplay(first)).toBe(false)
      chunksOf(first, { includeUsage: true, model: "fake-model" })
    }
  })

  test.each([false, true])("a client that leaves frees its key (stream: %s)", async (stream) => {
    const sent = body({ stream })
    const key = newKey()
    fake.next(Faults.hangAfter(stream ? 3 : 0)(text("One two three four.")))
    const arrival = fake.arrival()
    const leave = new AbortController()
    const left = open("leaving", key, { sent, signal: leave.signal }).then((response) => response.text())
    const gone = expect(left).rejects.toThrow()
    const { ended } = await arrival
    expectBusy(await send("leaving", key, { sent, at: other }))
    leave.abort()
    await gone
    expect((await ended).by).toBe("client")

    const retried = async () => (await send("leaving", key, { sent, at: other })).status
    await expect.poll(retried, { timeout: 2_000, interval: 100 }).toBe(200)
    expect(isReplay(await send("leaving", key, { sent }))).toBe(true)
    expect(fake.requests).toHaveLength(2)
  })

  test("keys of different organizations have nothing to do with each other", async () => {
    const key = newKey()
    await send("plain", key)
    const foreign = await send("foreign", key)
    expect(foreign.status).toBe(200)
    expect(isReplay(foreign)).toBe(false)
    expect(fake.requests).toHaveLength(2)
  })

  test.each([false, true])("an answer over 4 MiB runs again (stream: %s)", async (stream) => {
    const key = newKey()
    const sent = body({ stream })
    const pieces = Array.from({ length: 6 }, () => "x".repeat(1024 * 1024))
    fake.respond(text(pieces.join(""), { pieces }))
    for (const at of [service, other]) {
      const reply = await send("wordy", key, { sent, at })
      expect(reply.status).toBe(200)
      expect(isReplay(reply)).toBe(false)
      expect(reply.text.length).toBeGreaterThan(6 * 1024 * 1024)
    }
    expect(fake.requests).toHaveLength(2)
  })

  test("what is no key is refused by the header's name, before anything else", async () => {
    const wrong = ["", " ", "two words", "k".repeat(256), "caf\u00e9", "tab\there"]
    for (const key of wrong) expect(pathsOf(await send("plain", key))).toEqual(["Idempotency-Key"])
    expect(pathsOf(await send("plain", "one", { headers: [["idempotency-key", "two"]] }))).toEqual(["Idempotency-Key"])
    expect(fake.requests).toHaveLength(0)
    for (const key of ["k".repeat(255), `"quoted;=!~'${newKey()}"`]) {
      expect(isReplay(await send("plain", key))).toBe(false)
      expect(isReplay(await send("plain", key))).toBe(true)
    }
  })

  test("a repetition counts under the rate policy", async () => {
    const key = newKey()
    const remaining: Array<number> = []
    for (let sent = 0; sent < limit; sent++) {
      const { headers, status } = await send("busy", key, { at: sent % 2 === 0 ? service : other })
      expect(status).toBe(200)
      remaining.push(Number(headers.get("ratelimit-remaining")))
    }
    expect(remaining).toEqual(Array.from({ length: limit }, (_, sent) => limit - 1 - sent))
    for (const at of [service, other]) errorOf(await send("busy", key, { at }), "rate_limited")
    expect(fake.requests).toHaveLength(1)
  })

  test("the official SDK's own keys are understood", async () => {
    const client = new KeyedOpenAI({
      baseURL: `${service.baseUrl}/v1`,
      apiKey: keys.sdk,
      maxRetries: 2,
      logLevel: "off"
    })
    const request = { model: "fake-model", messages: [{ role: "user" as const, content: "Hi" }] }

    // A key of its own for every call.
    const [one, two] = [await client.chat.completions.create(request), await client.chat.completions.create(request)]
    expect(one.id).not.toBe(two.id)

    // Given a key, a repetition is the same completion.
    const options = { idempotencyKey: newKey() }
    const first = await client.chat.completions.create(request, options)
    expect(await client.chat.completions.create(request, options)).toEqual(first)
    expect(fake.requests).toHaveLength(3)

    // A conflict that time does not mend is not tried again; one that it does is, until the answer is there.
    const other = client.chat.completions.create({ ...request, seed: 1 }, options)
    await expect(other).rejects.toBeInstanceOf(ConflictError)
    fake.clear()
    fake.next(Faults.after(700)(text("Slow.")))
    const slow = { idempotencyKey: newKey() }
    const both = await Promise.all([
      client.chat.completions.create(request, slow),
      client.chat.completions.create(request, slow)
    ])
    expect(both[0]).toEqual(both[1])
    expect(fake.requests).toHaveLength(1)

    const streaming = { idempotencyKey: newKey() }
    const said = async () => {
      const chunks = []
      for await (const chunk of await client.chat.completions.create({ ...request, stream: true }, streaming)) {
        chunks.push(chunk)
      }
      return chunks
    }
    expect(await said()).toEqual(await said())
    expect(fake.requests).toHaveLength(2)
  })

  test("the description of the interface has the header, and requires it of nobody", async () => {
    const description = await fetch(`${service.baseUrl}/openapi.json`).then((response) => response.json())
    expect(description.paths["/v1/chat/completions"].post.parameters).toEqual([
      {
        name: "Idempotency-Key",
        in: "header",
        required: false,
        schema: expect.objectContaining({ type: "string", pattern: "^[!-~]{1,255}$" })
      }
    ])
  })

  test("in a client that sends the header itself, the official SDK gets the same completion", async () => {
    const client = new OpenAI({ baseURL: `${service.baseUrl}/v1`, apiKey: keys.sdk, maxRetries: 0, logLevel: "off" })
    const request = { model: "fake-model", messages: [{ role: "user" as const, content: "Hi" }] }
    const options = { headers: { "Idempotency-Key": newKey() } }
    const first = await client.chat.completions.create(request, options)
    expect(await client.chat.completions.create(request, options)).toEqual(first)
    expect(fake.requests).toHaveLength(1)
  })

  describe.runIf(processes > 1)("with a database to look into", () => {
    const databaseUrl = () => service.env["DATABASE_URL"] ?? expect.fail("no database")

    test("a claim is renewed while its request runs", async () => {
      const released = Promise.withResolvers<void>()
      fake.next(Faults.pauseAt(0, released.promise)(text("Late.")))
      const key = newKey()
      const arrival = fake.arrival()
      const running = send("dead", key)
      await arrival
      // As if nobody had renewed it for 22 seconds.
      await execute(
        databaseUrl(),
        `UPDATE idempotent_answers SET expires_at = clock_timestamp() + interval '8 s' WHERE key = '${key}'`
      )
      const left = async () =>
        execute(
          databaseUrl(),
          `SELECT expires_at > clock_timestamp() + interval '20 s' AS renewed FROM idempotent_answers WHERE key = '${key}'`
        )
      await expect.poll(left, { timeout: 7_000, interval: 200 }).toEqual([{ renewed: true }])
      released.resolve()
      const first = await running
      expectReplay(await send("dead", key, { at: other }), first)
    })

    test("the key of a killed process is free when its claim has lapsed", async () => {
      fake.next(Faults.hangAfter(0)(text("never")))
      const key = newKey()
      const arrival = fake.arrival()
      const lost = expect(send("dead", key, { at: other })).rejects.toThrow()
      await arrival
      await other.kill()
      await lost
      expectBusy(await send("dead", key))
      // Nobody renews it: half a minute passes.
      await execute(
        databaseUrl(),
        `UPDATE idempotent_answers SET expires_at = expires_at - interval '30 s' WHERE key = '${key}'`
      )
      const first = await send("dead", key)
      await other.start()
      expectReplay(await send("dead", key, { at: other }), first)
      expect(fake.requests).toHaveLength(2)
      // The hold of the killed process is swept like any other.
      await execute(databaseUrl(), "UPDATE credit_holds SET lease_until = lease_until - interval '30 s'")
    })

    test.each([false, true])("an answer that cannot be stored is sent all the same (stream: %s)", async (stream) => {
      const released = Promise.withResolvers<void>()
      fake.next(Faults.pauseAt(stream ? 2 : 0, released.promise)(text("Hello there.")))
      const arrival = fake.arrival()
      const warnings = () =>
        service
          .logs()
          .stdout.split("\n")
          .filter((line) => line.includes("Could not store"))
      const before = warnings().length
      const sent = body({ stream })
      const running = send("locked", newKey(), { sent })
      await arrival
      const reply = await Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        return yield* sql.withTransaction(
          Effect.andThen(
            sql`LOCK TABLE idempotent_answers IN EXCLUSIVE MODE`,
            Effect.promise(() => {
              released.resolve()
              return running
            })
          )
        )
      }).pipe(Effect.provide(clientOf(service)), Effect.runPromise)
      expect(reply.status).toBe(200)
      if (stream) chunksOf(reply, { includeUsage: false, model: "fake-model" })
      await expect.poll(() => warnings().length).toBe(before + 1)
      expect(warnings().filter((line) => line.includes("Hello"))).toEqual([])
    })
  })

  test("afterwards the books are in order", async () => {
    if (processes > 1) await expect.poll(async () => (await heldBy(service)).length, { timeout: 10_000 }).toBe(0)
    await Promise.all(services.map((one) => one.terminate()))
    await expectInvariants({ services, fake, secrets: [fake.apiKey, ...Object.values(keys)] })
  })
})

const heldBy = ({ env: { DATABASE_URL = "" } }: ServiceProcess) => execute(DATABASE_URL, "SELECT id FROM credit_holds")
