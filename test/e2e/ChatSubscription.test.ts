import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import type OpenAI from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { text as chatText } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type FakeResponses, startFakeResponses } from "../fixtures/responses/FakeResponses.ts"
import { refuseDetail } from "../fixtures/responses/Refusal.ts"
import { answer, text, usage } from "../fixtures/responses/Responses.ts"
import { anyStore, balanceOf, prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import {
  answersTo,
  ask,
  chunksOf,
  errorOf,
  place,
  png,
  returned,
  sdkOf,
  spendingOf,
  storeKey,
  weather
} from "../fixtures/VendorClient.ts"

/** The models of a chat subscription through the running service, with the token of an organization's own. */

const model = "gpt-6.1-sol"
const messages = [{ role: "user" as const, content: "Hi" }]
const by = { access_method: "vendor-b-chat", model, messages }

/** The account that the token was given to stands in its claims. */
const account = "0f6a-b2"
const claims = { "https://api.openai.com/auth": { chatgpt_account_id: account } }
const token = `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.canary0123456789`

const orgs = ["subscribed", "both", "neither"] as const

const methodsOf = Schema.decodeUnknownSync(
  Schema.Struct({
    data: Schema.Array(Schema.Struct({ id: Schema.String, access_methods: Schema.Array(Schema.String) }))
  })
)

describe.each(anyStore)("a chat subscription, on $store", ({ options, store }) => {
  let fake: FakeResponses
  let platform: FakeOpenAi
  let service: ServiceProcess
  let clients: Readonly<Record<(typeof orgs)[number], OpenAI>>
  let client: OpenAI

  const listed = async (client: OpenAI) =>
    new Map(methodsOf(await client.get("/models")).data.map(({ access_methods, id }) => [id, access_methods]))

  beforeAll(async () => {
    fake = await startFakeResponses({ server: "subscription", apiKey: token, account })
    platform = await startFakeOpenAi()
    const env = {
      DRAIN_DELAY: "0s",
      OPENAI_BASE_URL: platform.baseUrl,
      OPENAI_CHAT_BASE_URL: fake.baseUrl,
      ...(store === "Postgres" ? { SECRETS_KEY: randomBytes(32).toString("base64") } : {})
    }
    service = await prepareService({ env, ...(await options()) })
    const keys: Record<string, string> = await openAccounts(service, Object.fromEntries(orgs.map((org) => [org, 1])))
    for (const org of ["subscribed", "both"]) await storeKey(service, { org, provider: "openai-chat", key: token })
    await storeKey(service, { org: "both", provider: "openai", key: platform.apiKey })
    const clientOf = (org: (typeof orgs)[number]) => sdkOf(service, keys[org] ?? "")
    clients = { subscribed: clientOf("subscribed"), both: clientOf("both"), neither: clientOf("neither") }
    client = clients.subscribed
    await service.start()
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await Promise.all([fake.close(), platform.close()])
  })
  beforeEach(() => {
    fake.clear()
    platform.clear()
  })

  test("opens the models that it reaches, and no others", async () => {
    const { both, neither, subscribed } = clients
    const opened = await listed(subscribed)
    expect(opened.get(model)).toEqual(["vendor-b-api-key", "vendor-b-chat"])
    expect(opened.has("gpt-4o")).toBe(false)
    expect([...opened].filter(([, methods]) => !methods.includes("vendor-b-chat"))).toEqual([["echo", ["service"]]])
    expect((await listed(both)).get("gpt-4o")).toEqual(["vendor-b-api-key"])
    expect([...(await listed(neither)).keys()]).toEqual(["echo"])
  })

  test("is asked when the request or the stored keys say so, and is otherwise a 400 or a 403", async () => {
    const asked = { model, messages }
    fake.next(text("From the subscription."), text("From the subscription."))
    platform.next(chatText("From the platform."))
    expect((await ask(clients.subscribed, asked, false)).message.content).toBe("From the subscription.")
    expect((await ask(clients.both, by, false)).message.content).toBe("From the subscription.")
    expect((await ask(clients.both, asked, false)).message.content).toBe("From the platform.")
    expect(await errorOf(ask(clients.neither, by, false))).toMatchObject({ status: 403, code: "forbidden" })
    expect(await errorOf(ask(clients.both, { ...by, model: "gpt-4o" }, false))).toMatchObject({
      status: 400,
      code: "invalid_request",
      details: { issues: [{ path: "access_method", message: expect.stringContaining("vendor-b-api-key") }] }
    })
    expect([fake.log.length, platform.log.length]).toEqual([2, 1])
  })

  test("JSON: who asks, the buckets of the usage, and no cost", async () => {
    const before = await spendingOf(client)
    fake.next(
      text("Good morning.", {
        usage: usage({ input: 1_600, cached: 400, cacheWrite: 200, output: 100, reasoning: 20 })
      })
    )
    const answered = await ask(client, by, false)
    expect(answered).toMatchObject({ finishReason: "stop", message: { content: "Good morning." } })
    expect(answered.usage).toEqual({
      prompt_tokens: 1_600,
      completion_tokens: 100,
      total_tokens: 1_700,
      cost: 0,
      prompt_tokens_details: { cached_tokens: 400, cache_write_tokens: 200 },
      completion_tokens_details: { reasoning_tokens: 20 }
    })
    const after = await spendingOf(client)
    expect(after.recent_model_usage[0]).toEqual({ cost_usd: 0, input_tokens: 1_600, output_tokens: 100, model })
    expect(after.balance_usd).toBe(before.balance_usd)
    expect(fake.requests[0]?.headers).toMatchObject({
      authorization: `Bearer ${token}`,
      "chatgpt-account-id": account
    })
    expect(fake.requests[0]?.body).toMatchObject({ model, store: false, stream: true })
  })

  test("a context above the threshold costs nothing either", async () => {
    fake.next(text("Long.", { usage: usage({ input: 300_000, output: 1_000 }) }))
    expect((await ask(client, by, false)).usage).toMatchObject({ prompt_tokens: 300_000, cost: 0 })
  })

  test("a stream, with its usage at the end", async () => {
    fake.next(text("Zwölf Boxkämpfer 🥊 jagen Viktor.", { usage: usage({ input: 1_000, output: 100 }) }))
    const chunks = await chunksOf(client, by)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
      "Zwölf Boxkämpfer 🥊 jagen Viktor."
    )
    expect(chunks.length).toBeGreaterThan(4)
    expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant")
    expect(chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])).toEqual(["stop"])
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 1_100, cost: 0 } })
  })

  test.each([false, true])("parallel calls, and on with what was thought (stream: %s)", async (stream) => {
    const loop = { ...by, tools: [weather], reasoning_effort: "low" as const, include_reasoning: true }
    fake.next(
      answer([
        { reasoning: ["Two cities."] },
        { text: "Let me see." },
        { call: "weather", arguments: { city: "Oslo" }, id: "call_1" },
        { call: "weather", arguments: { city: "Rome" }, id: "call_2" }
      ]),
      answer([{ reasoning: ["One more."] }, { call: "weather", arguments: { city: "Bergen" }, id: "call_3" }]),
      text("Snow everywhere.")
    )
    const first = await ask(client, loop, stream)
    expect(first).toMatchObject({
      finishReason: "tool_calls",
      message: {
        content: "Let me see.",
        reasoning: "Two cities.",
        tool_calls: [
          { type: "function", function: { name: "weather", arguments: `{"city":"Oslo"}` } },
          { type: "function", function: { name: "weather", arguments: `{"city":"Rome"}` } }
        ]
      }
    })
    const once = [...messages, returned(first.message), ...answersTo(first.message, "snow", "sun")]
    const second = await ask(client, { ...loop, messages: once }, stream)
    const twice = [...once, returned(second.message), ...answersTo(second.message, "snow")]
    const third = await ask(client, { ...loop, messages: twice }, stream)
    expect(third).toMatchObject({ finishReason: "stop", message: { content: "Snow everywhere." } })
    // The fake refuses reasoning that it did not seal, and calls without their answers.
    expect(fake.requests[2]?.body.input).toMatchObject([
      { role: "user" },
      { type: "reasoning", summary: [{ text: "Two cities." }] },
      { role: "assistant", content: "Let me see." },
      { type: "function_call", call_id: "call_1" },
      { type: "function_call", call_id: "call_2" },
      { type: "function_call_output", call_id: "call_1", output: "snow" },
      { type: "function_call_output", call_id: "call_2", output: "sun" },
      { type: "reasoning", summary: [{ text: "One more." }] },
      { type: "function_call", call_id: "call_3" },
      { type: "function_call_output", call_id: "call_3", output: "snow" }
    ])
    expect(fake.log.map(({ status }) => status)).toEqual([200, 200, 200])
  })

  test("an image", async () => {
    const url = `data:image/png;base64,${png}`
    const content = [
      { type: "text" as const, text: "What is this?" },
      { type: "image_url" as const, image_url: { url } }
    ]
    fake.next(text("A red dot."))
    await ask(client, { ...by, messages: [{ role: "user", content }] }, false)
    expect(fake.requests[0]?.body.input).toMatchObject([
      { content: [{ type: "input_text" }, { type: "input_image", image_url: url }] }
    ])
  })

  test("a JSON schema", async () => {
    fake.next(text(`{"city":"Oslo"}`))
    const { message } = await ask(client, { ...by, response_format: place }, false)
    expect(message.content).toBe(`{"city":"Oslo"}`)
    expect(fake.requests[0]?.body.text).toMatchObject({
      format: { type: "json_schema", name: "place", schema: place.json_schema.schema }
    })
  })

  test.each([false, true])("a refusal (stream: %s)", async (stream) => {
    fake.next(answer([{ refusal: "That is against the rules." }]))
    expect((await ask(client, by, stream)).message.refusal).toBe("That is against the rules.")
  })

  test.each([false, true])("an answer that a limit ends (stream: %s)", async (stream) => {
    fake.next(text("Once upon a", { incomplete: "max_output_tokens" }))
    expect(await ask(client, by, stream)).toMatchObject({
      finishReason: "length",
      message: { content: "Once upon a" }
    })
  })

  test.each([false, true])("who leaves stops the vendor within a second, unbilled (stream: %s)", async (stream) => {
    const before = await spendingOf(client)
    fake.next(Faults.every(50)(text("word ".repeat(400))))
    const leave = new AbortController()
    const arrived = fake.arrival()
    const asked = client.chat.completions.create({ ...by, stream }, { signal: leave.signal })
    const failure = stream ? undefined : expect(asked).rejects.toThrow()
    const { ended } = await arrived
    if (stream) {
      const chunks = await asked
      let seen = 0
      if (!("choices" in chunks))
        for await (const { choices } of chunks) if (choices[0]?.delta.content && ++seen === 3) break
    }
    const left = Date.now()
    leave.abort()
    await failure
    const ending = await ended
    expect(ending.by).toBe("client")
    expect(ending.at - left).toBeLessThan(1_000)
    expect((await spendingOf(client)).balance_usd).toBe(before.balance_usd)
  })

  test.each([false, true])("the vendor's 400 is passed on with its words (stream: %s)", async (stream) => {
    fake.next(refuseDetail(400, "Your input exceeds the context window of this model."))
    expect(await errorOf(ask(client, by, stream))).toMatchObject({
      status: 502,
      code: "upstream_error",
      retryable: false,
      message: expect.stringContaining("exceeds the context window"),
      details: { upstreamStatus: 400 }
    })
    expect(fake.requests).toHaveLength(1)
  })

  test.each([false, true])("its 429 and 500 are tried again (stream: %s)", async (stream) => {
    fake.next(Errors.rateLimited("1"), Errors.serverError, text("Third time lucky."))
    expect((await ask(client, by, stream)).message.content).toBe("Third time lucky.")
    expect(fake.requests).toHaveLength(3)
  })

  test("a token that has run out is told apart from a failure that passes", async () => {
    fake.next(refuseDetail(401, "Provided authentication token is expired."))
    expect(await errorOf(ask(client, by, false))).toMatchObject({
      code: "upstream_error",
      message: expect.stringContaining("Your organization's own key has to be replaced."),
      retryable: false
    })
    expect(fake.requests).toHaveLength(1)
  })

  test("what it cannot be told is a 400 with its path, and it is not asked", async () => {
    const fields = { temperature: 0.5, max_tokens: 100, seed: 7, stop: "END", user: "somebody" }
    for (const [path, value] of Object.entries(fields)) {
      expect(await errorOf(ask(client, { ...by, [path]: value }, false))).toMatchObject({
        status: 400,
        code: "invalid_request",
        retryable: false,
        details: { issues: [{ path }] }
      })
    }
    expect(fake.log).toEqual([])
  })

  test("afterwards nothing is held or spent, and the token stands in no log", async () => {
    await service.terminate()
    for (const org of orgs) expect(await balanceOf(service, org)).toMatchObject({ balance_usd: 1, held_usd: 0 })
    const { stderr, stdout } = service.logs()
    expect(stdout + stderr).not.toContain(token)
  })
})
