import { randomBytes } from "node:crypto"
import type OpenAI from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import * as Errors from "../fixtures/anthropic/Errors.ts"
import { type FakeAnthropic, startFakeAnthropic } from "../fixtures/anthropic/FakeAnthropic.ts"
import { refusal, text, toolUse } from "../fixtures/anthropic/Messages.ts"
import { sign } from "../fixtures/anthropic/Signature.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { balanceOf, prepareService, type ServiceProcess, setUpAccount, anyStore } from "../fixtures/ServiceProcess.ts"
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

/** Anthropic's models through the running service, with the operator's key and with an organization's own. */

const ownKey = "sk-ant-own-0123456789abcdef"
const model = "claude-opus-5-5"
const messages = [{ role: "user" as const, content: "Hi" }]

describe.each(anyStore)("Anthropic, on $store", ({ options, store }) => {
  let fake: FakeAnthropic
  let service: ServiceProcess
  let keys: Readonly<Record<"service" | "vendor-a-api-key", string>>

  beforeAll(async () => {
    fake = await startFakeAnthropic({ otherKey: ownKey })
    const env = {
      DRAIN_DELAY: "0s",
      ANTHROPIC_API_KEY: fake.apiKey,
      ANTHROPIC_BASE_URL: fake.baseUrl,
      ...(store === "Postgres" ? { SECRETS_KEY: randomBytes(32).toString("base64") } : {})
    }
    service = await prepareService({ env, ...(await options()) })
    const operated = await setUpAccount(service, { org: "operated", credit: 100 })
    const owning = await setUpAccount(service, { org: "owning", credit: 1 })
    keys = { service: operated.key, "vendor-a-api-key": owning.key }
    await storeKey(service, { org: "owning", provider: "anthropic", key: ownKey })
    await service.start()
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  describe.each([
    { method: "service", isCharged: true },
    { method: "vendor-a-api-key", isCharged: false }
  ] as const)("by $method", ({ isCharged, method }) => {
    let client: OpenAI
    /** A request by this method, whatever else the organization could use. */
    const by = { access_method: method, model, messages }
    const charged = (usd: number) => (isCharged ? usd : 0)

    beforeAll(() => {
      client = sdkOf(service, keys[method])
    })

    test("JSON: the buckets of the usage are priced apart, in the answer and in the billing summary", async () => {
      const before = await spendingOf(client)
      fake.next(
        text("Good morning.", {
          blocks: [{ thinking: "A greeting." }],
          usage: {
            input_tokens: 1_000,
            cache_read_input_tokens: 400,
            cache_creation_input_tokens: 200,
            output_tokens: 100,
            output_tokens_details: { thinking_tokens: 20 }
          }
        })
      )
      const { finishReason, message, usage } = await ask(client, by, false)
      expect(message).toMatchObject({ content: "Good morning.", reasoning: "A greeting." })
      expect(finishReason).toBe("stop")
      // 1000 input at 4, 400 read at 0.2, 200 written at 5, 100 output at 20 USD per million.
      const cost = charged(0.00708)
      expect(usage).toEqual({
        prompt_tokens: 1_600,
        completion_tokens: 100,
        total_tokens: 1_700,
        cost,
        prompt_tokens_details: { cached_tokens: 400, cache_write_tokens: 200 },
        completion_tokens_details: { reasoning_tokens: 20 }
      })
      const after = await spendingOf(client)
      expect(after.recent_model_usage[0]).toEqual({ cost_usd: cost, input_tokens: 1_600, output_tokens: 100, model })
      expect(after.last_30_days.total_usage_events).toBe(before.last_30_days.total_usage_events + 1)
      expect(after.balance_usd).toBeCloseTo(before.balance_usd - cost, 9)
      expect(fake.requests[0]?.headers["x-api-key"]).toBe(isCharged ? fake.apiKey : ownKey)
      expect(fake.requests[0]?.headers.authorization).toBeUndefined()
    })

    test("a request above the threshold is priced by the tier for long contexts", async () => {
      const long = {
        ...by,
        model: "claude-haiku-5-5",
        messages: [{ role: "user" as const, content: "word ".repeat(220_000) }]
      }
      fake.next(
        text("Long.", {
          usage: {
            input_tokens: 210_000,
            cache_read_input_tokens: 20_000,
            cache_creation_input_tokens: 10_000,
            output_tokens: 1_000
          }
        })
      )
      const { usage } = await ask(client, long, false)
      // 210000 input at 0.5, 20000 read at 0.05, 10000 written at 0.625, 1000 output at 2.5 USD per million.
      expect(usage).toMatchObject({ prompt_tokens: 240_000, cost: charged(0.11475) })
      const [latest] = (await spendingOf(client)).recent_model_usage
      expect(latest).toMatchObject({ cost_usd: charged(0.11475), input_tokens: 240_000, output_tokens: 1_000 })
    })

    test("a stream, with its usage at the end", async () => {
      fake.next(text("Zwölf Boxkämpfer 🥊 jagen Viktor.", { usage: { input_tokens: 1_000, output_tokens: 100 } }))
      const chunks = await chunksOf(client, by)
      expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
        "Zwölf Boxkämpfer 🥊 jagen Viktor."
      )
      expect(chunks.length).toBeGreaterThan(4)
      expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant")
      expect(chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])).toEqual(["stop"])
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 1_100, cost: charged(0.006) } })
      expect(fake.requests[0]?.body.stream).toBe(true)
    })

    test.each([
      ["claude-opus-5-5", false],
      ["claude-opus-5-5", true],
      ["claude-sonnet-4-5", false],
      ["claude-sonnet-4-5", true]
    ])("parallel calls, and on with what was thought: %s (stream: %s)", async (model, stream) => {
      const loop = { ...by, model, tools: [weather], reasoning_effort: "low" as const }
      fake.next(
        toolUse(
          [
            { tool: "weather", input: { city: "Oslo" }, id: "toolu_1" },
            { tool: "weather", input: { city: "Rome" }, id: "toolu_2" }
          ],
          { blocks: [{ thinking: "Two cities." }, { text: "Let me see." }] }
        ),
        toolUse([{ tool: "weather", input: { city: "Bergen" }, id: "toolu_3" }], {
          blocks: [{ thinking: "One more." }]
        }),
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
      // The fake refuses thinking that it did not sign, and calls without their results.
      expect(fake.requests[2]?.body.messages).toMatchObject([
        {},
        {
          content: [
            { type: "thinking", thinking: "Two cities.", signature: sign("Two cities.") },
            { type: "text", text: "Let me see." },
            { type: "tool_use", id: "toolu_1", input: { city: "Oslo" } },
            { type: "tool_use", id: "toolu_2", input: { city: "Rome" } }
          ]
        },
        { content: [{ tool_use_id: "toolu_1" }, { tool_use_id: "toolu_2" }] },
        { content: [{ type: "thinking", signature: sign("One more.") }, { id: "toolu_3" }] },
        { content: [{ tool_use_id: "toolu_3" }] }
      ])
      expect(fake.log.map(({ status }) => status)).toEqual([200, 200, 200])
    })

    test("an image", async () => {
      const content = [
        { type: "text" as const, text: "What is this?" },
        { type: "image_url" as const, image_url: { url: `data:image/png;base64,${png}` } }
      ]
      fake.next(text("A red dot."))
      await ask(client, { ...by, messages: [{ role: "user", content }] }, false)
      expect(fake.requests[0]?.body.messages).toEqual([
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: png } }
          ]
        }
      ])
    })

    test("a JSON schema", async () => {
      fake.next(text(`{"city":"Oslo"}`))
      const { message } = await ask(client, { ...by, response_format: place }, false)
      expect(message.content).toBe(`{"city":"Oslo"}`)
      expect(fake.requests[0]?.body.output_config?.format).toEqual({
        type: "json_schema",
        schema: { title: "place", ...place.json_schema.schema }
      })
    })

    test.each([false, true])("a refusal (stream: %s)", async (stream) => {
      fake.next(refusal("That is against the rules."))
      expect(await ask(client, by, stream)).toMatchObject({
        finishReason: "content_filter",
        message: { refusal: "That is against the rules." }
      })
    })

    test.each([false, true])("an answer that its limit ends (stream: %s)", async (stream) => {
      fake.next(text("Once upon a", { stopReason: "max_tokens" }))
      const answered = await ask(client, { ...by, max_tokens: 4 }, stream)
      expect(answered).toMatchObject({ finishReason: "length", message: { content: "Once upon a" } })
      expect(fake.requests[0]?.body.max_tokens).toBe(4)
    })

    test("who leaves stops the vendor within a second, and pays once for what was delivered", async () => {
      const before = await spendingOf(client)
      fake.next(Faults.every(50)(text("word ".repeat(400))))
      const stream = await client.chat.completions.create({ ...by, stream: true })
      let seen = 0
      for await (const { choices } of stream) if (choices[0]?.delta.content && ++seen === 3) break
      const left = Date.now()
      const ending = await fake.requests[0]?.ended
      expect(ending?.by).toBe("client")
      expect((ending?.at ?? Infinity) - left).toBeLessThan(1_000)
      const events = async () => (await spendingOf(client)).last_30_days.total_usage_events
      await expect.poll(events, { timeout: 5_000 }).toBe(before.last_30_days.total_usage_events + 1)
      const after = await spendingOf(client)
      const cost = before.balance_usd - after.balance_usd
      // What a second can bring at most, never the 400 words that were not delivered.
      expect(cost).toBeLessThan((100 * 5 + 60 * 20) / 1e6)
      if (isCharged) expect(cost).toBeGreaterThan(0)
      else expect(cost).toBe(0)
    })

    test.each([false, true])("the vendor's 400 is passed on with its words, unbilled (stream: %s)", async (stream) => {
      const before = await spendingOf(client)
      fake.next(Errors.promptTooLong)
      expect(await errorOf(ask(client, by, stream))).toMatchObject({
        status: 502,
        code: "upstream_error",
        retryable: false,
        message: expect.stringContaining("prompt is too long"),
        details: { upstreamStatus: 400 }
      })
      expect(fake.requests).toHaveLength(1)
      expect(await spendingOf(client)).toEqual(before)
    })

    test.each([false, true])("its 429 and 500 are tried again (stream: %s)", async (stream) => {
      fake.next(Errors.rateLimited("1"), Errors.serverError, text("Third time lucky."))
      const { message } = await ask(client, by, stream)
      expect(message.content).toBe("Third time lucky.")
      expect(fake.requests).toHaveLength(3)
    })

    test("what it cannot be told is a 400 with its path, and it is not asked", async () => {
      const sound = { type: "input_audio" as const, input_audio: { data: "UklGRg==", format: "wav" as const } }
      const cases = [
        { body: { ...by, seed: 7 }, path: "seed" },
        { body: { ...by, verbosity: "low" as const }, path: "verbosity" },
        { body: { ...by, messages: [{ role: "user" as const, content: [sound] }] }, path: "messages[0].content[0]" }
      ]
      for (const { body, path } of cases) {
        expect(await errorOf(ask(client, body, false))).toMatchObject({
          status: 400,
          code: "invalid_request",
          retryable: false,
          details: { issues: [{ path: expect.stringContaining(path) }] }
        })
      }
      expect(fake.log).toEqual([])
    })
  })

  test("afterwards nothing is held, and no key stands in the log", async () => {
    await service.terminate()
    expect(await balanceOf(service, "operated")).toMatchObject({ held_usd: 0 })
    expect(await balanceOf(service, "owning")).toMatchObject({ balance_usd: 1, held_usd: 0 })
    const { stderr, stdout } = service.logs()
    for (const key of [fake.apiKey, ownKey]) expect(stdout + stderr).not.toContain(key)
  })
})
