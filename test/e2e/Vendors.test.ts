import { Schema } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type OpenAI from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { stringify } from "yaml"
import { drivers } from "../../src/adapters/vendors/drivers/Drivers.ts"
import { type FakeAnthropic, startFakeAnthropic } from "../fixtures/anthropic/FakeAnthropic.ts"
import { text as anthropicText } from "../fixtures/anthropic/Messages.ts"
import { frame, text, toolCalls } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { plain } from "../fixtures/openai/Reply.ts"
import { type FakeResponses, startFakeResponses } from "../fixtures/responses/FakeResponses.ts"
import { answer, usage } from "../fixtures/responses/Responses.ts"
import { prepareService, type ServiceProcess, setUpAccount } from "../fixtures/ServiceProcess.ts"
import { answersTo, ask, chunksOf, errorOf, returned, sdkOf, spendingOf, weather } from "../fixtures/VendorClient.ts"

/** Every built-in vendor of OpenAI's kind by its variables, and upstreams of each protocol by a models file. */

const messages = [{ role: "user" as const, content: "Hi" }]

/** How a vendor's documentation says that it differs: the output limit, the role of instructions, the usage of streams. */
const quirks: Readonly<Record<string, { limit: string; role: string; asksUsage: boolean }>> = {
  cerebras: { limit: "max_completion_tokens", role: "system", asksUsage: true },
  deepseek: { limit: "max_tokens", role: "system", asksUsage: true },
  fireworks: { limit: "max_tokens", role: "system", asksUsage: true },
  google: { limit: "max_tokens", role: "system", asksUsage: true },
  groq: { limit: "max_completion_tokens", role: "developer", asksUsage: true },
  minimax: { limit: "max_completion_tokens", role: "system", asksUsage: true },
  mistral: { limit: "max_tokens", role: "system", asksUsage: false },
  moonshotai: { limit: "max_completion_tokens", role: "system", asksUsage: true },
  openrouter: { limit: "max_tokens", role: "developer", asksUsage: true },
  together: { limit: "max_tokens", role: "system", asksUsage: true },
  xai: { limit: "max_completion_tokens", role: "developer", asksUsage: true },
  zai: { limit: "max_tokens", role: "system", asksUsage: true }
}

const compatible = drivers.filter(({ modelPrefix }) => modelPrefix !== "")

const idsIn = Schema.decodeUnknownSync(
  Schema.Struct({ data: Schema.Array(Schema.Struct({ id: Schema.String, pricing: Schema.Unknown })) })
)

describe("vendors of OpenAI's kind", () => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let client: OpenAI
  let ids: ReadonlyArray<string>

  beforeAll(async () => {
    fake = await startFakeOpenAi({ strict: false })
    const env = Object.fromEntries(
      compatible.flatMap(({ baseUrlVariable, keyVariable }) => [
        [keyVariable, fake.apiKey],
        [baseUrlVariable, fake.baseUrl]
      ])
    )
    service = await prepareService({ env: { ...env, DRAIN_DELAY: "0s" } })
    const { key } = await setUpAccount(service, { org: "acme", credit: 100 })
    await service.start()
    client = sdkOf(service, key)
    ids = idsIn(await client.get("/models")).data.map(({ id }) => id)
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  const firstOf = (vendor: string): string =>
    ids.find((id) => id.startsWith(`${vendor}/`)) ?? expect.fail(`no model of ${vendor} is listed`)

  test("each stands in the table above", () => {
    expect(Object.keys(quirks)).toEqual(compatible.map(({ id }) => id))
  })

  test.each(Object.entries(quirks))("%s is asked in its own words, and answers", async (vendor, quirk) => {
    const model = firstOf(vendor)
    const body = {
      model,
      max_tokens: 50,
      messages: [{ role: "developer" as const, content: "Be brief." }, ...messages]
    }
    fake.next(text("Good morning."), text("Good evening.", { usageWithFinish: !quirk.asksUsage }))
    const whole = await ask(client, body, false)
    expect(whole.message.content).toBe("Good morning.")
    expect(fake.requests[0]?.body).toEqual({
      model: model.slice(vendor.length + 1),
      [quirk.limit]: 50,
      messages: [{ role: quirk.role, content: "Be brief." }, ...messages]
    })
    const chunks = await chunksOf(client, body)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("Good evening.")
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 12, cost: expect.any(Number) } })
    expect(fake.requests[1]?.body.stream_options).toEqual(quirk.asksUsage ? { include_usage: true } : undefined)
  })

  test("fields that a vendor refuses are a 400, and it is not asked", async () => {
    const cases = [
      ["google", { seed: 7 }, "seed"],
      ["mistral", { user: "somebody" }, "user"],
      ["groq", { prompt_cache_key: "k" }, "prompt_cache_key"],
      ["cerebras", { verbosity: "low" as const }, "verbosity"]
    ] as const
    for (const [vendor, fields, path] of cases) {
      expect(await errorOf(ask(client, { model: firstOf(vendor), messages, ...fields }, false))).toMatchObject({
        status: 400,
        details: { issues: [{ path }] }
      })
    }
    expect(fake.log).toEqual([])
    await ask(client, { model: firstOf("mistral"), messages, seed: 7 }, false)
    expect(fake.requests[0]?.body).toMatchObject({ random_seed: 7 })
  })

  test.each([
    ["deepseek", "reasoning_content"],
    ["groq", "reasoning"]
  ] as const)("what a model of %s thought before its calls comes back in the vendor's field", async (vendor, field) => {
    const body = { model: firstOf(vendor), messages, tools: [weather] }
    fake.next(
      toolCalls([{ id: "call_1", name: "weather", arguments: {} }], { reasoning: { field, text: "I have to look." } }),
      text("Snow.")
    )
    const { message } = await ask(client, body, true)
    expect(message.reasoning).toBe("I have to look.")
    await ask(client, { ...body, messages: [...messages, returned(message), ...answersTo(message, "snow")] }, true)
    expect(fake.requests[1]?.body.messages[1]).toEqual({
      role: "assistant",
      content: null,
      [field]: "I have to look.",
      tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } }]
    })
  })

  test("Google's signatures come back with their calls, which have no index", async () => {
    const extra_content = { google: { thought_signature: "c2lnbmVk" } }
    const called = (city: string) => ({
      type: "function",
      function: { name: "weather", arguments: JSON.stringify({ city }) }
    })
    const chunk = (delta: object, finish_reason: string | null = null) =>
      frame({ id: "1", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })
    const stream = [
      chunk({ role: "assistant", tool_calls: [{ id: "a", ...called("Oslo"), extra_content }] }),
      chunk({ role: "assistant", tool_calls: [{ id: "b", ...called("Rome") }] }),
      chunk({ role: "assistant" }, "stop"),
      "data: [DONE]\n\n"
    ].join("")
    fake.next(plain(200, stream, { "content-type": "text/event-stream" }), text("Snow."))
    const body = { model: firstOf("google"), messages, tools: [weather] }
    const { finishReason, message } = await ask(client, body, true)
    expect(finishReason).toBe("tool_calls")
    expect(message.tool_calls).toMatchObject([called("Oslo"), called("Rome")])
    await ask(
      client,
      { ...body, messages: [...messages, returned(message), ...answersTo(message, "snow", "sun")] },
      true
    )
    expect(fake.requests[1]?.body.messages).toEqual([
      ...messages,
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "a", ...called("Oslo"), extra_content },
          { id: "b", ...called("Rome") }
        ]
      },
      { role: "tool", tool_call_id: "a", content: "snow" },
      { role: "tool", tool_call_id: "b", content: "sun" }
    ])
  })

  test("Google's refusals, which stand in a list, are passed on with their words", async () => {
    const words = "Function call is missing a thought_signature in functionCall parts."
    fake.next(plain(400, JSON.stringify([{ error: { code: 400, message: words } }])))
    expect(await errorOf(ask(client, { model: firstOf("google"), messages }, false))).toMatchObject({
      status: 502,
      retryable: false,
      message: expect.stringContaining(words)
    })
  })
})

describe("upstreams of a models file", () => {
  let chat: FakeOpenAi
  let responses: FakeResponses
  let anthropic: FakeAnthropic
  let folder: string
  let service: ServiceProcess
  let client: OpenAI

  beforeAll(async () => {
    chat = await startFakeOpenAi()
    responses = await startFakeResponses()
    anthropic = await startFakeAnthropic()
    folder = await mkdtemp(join(tmpdir(), "gateway-vendors-"))
    const MODELS_FILE = join(folder, "models.yml")
    const model = (upstream: string) => ({
      id: `my-${upstream}`,
      upstream,
      upstream_model: upstream === "claudes" ? "claude-opus-5-5" : "gpt-6-pro",
      max_input_tokens: 128_000,
      max_output_tokens: 16_384,
      pricing: { input: 1, output: 10, cache_read: 0.1, cache_write: 2 }
    })
    await writeFile(
      MODELS_FILE,
      stringify({
        upstreams: {
          chats: { base_url: chat.baseUrl, api_key: "FIRST_KEY", protocol: "chat", dialect: "openai" },
          pros: { base_url: responses.baseUrl, api_key: "FIRST_KEY", protocol: "responses" },
          claudes: { base_url: anthropic.baseUrl, api_key: "SECOND_KEY", protocol: "anthropic" }
        },
        models: [model("chats"), model("pros"), model("claudes")]
      })
    )
    service = await prepareService({
      env: { MODELS_FILE, FIRST_KEY: chat.apiKey, SECOND_KEY: anthropic.apiKey, DRAIN_DELAY: "0s" }
    })
    const { key } = await setUpAccount(service, { org: "acme", credit: 100 })
    await service.start()
    client = sdkOf(service, key)
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await Promise.all([chat.close(), responses.close(), anthropic.close()])
    await rm(folder, { recursive: true, force: true })
  })

  test.each([false, true])("are spoken to by their protocol, with their key (stream: %s)", async (stream) => {
    chat.next(text("From the chat."))
    responses.next(answer([{ text: "From the responses." }], { usage: usage({ input: 100, cached: 40, output: 10 }) }))
    anthropic.next(anthropicText("From the messages."))
    const said = async (model: string) =>
      (await ask(client, { model, messages, max_tokens: 2_000 }, stream)).message.content
    expect(await said("my-chats")).toBe("From the chat.")
    expect(await said("my-pros")).toBe("From the responses.")
    // 60 input at 1, 40 read at 0.1, 10 output at 10 USD per million.
    expect((await spendingOf(client)).recent_model_usage[0]).toMatchObject({ model: "my-pros", cost_usd: 0.000164 })
    expect(await said("my-claudes")).toBe("From the messages.")
    expect(chat.requests.at(-1)?.body).toMatchObject({ max_completion_tokens: 2_000 })
    expect(responses.requests.at(-1)?.body).toMatchObject({ model: "gpt-6-pro", max_output_tokens: 2_000 })
    expect(anthropic.requests.at(-1)?.headers["x-api-key"]).toBe(anthropic.apiKey)
  })

  test("go on where they thought, and refuse what their protocol has no field for", async () => {
    responses.next(
      answer([{ reasoning: ["Hm."] }, { call: "weather", arguments: { city: "Oslo" }, id: "call_1" }]),
      answer([{ text: "Snow." }])
    )
    const body = { model: "my-pros", messages, tools: [weather] }
    const { message } = await ask(client, body, false)
    const next = await ask(
      client,
      { ...body, messages: [...messages, returned(message), ...answersTo(message, "snow")] },
      false
    )
    expect(next.message.content).toBe("Snow.")
    expect(responses.requests.at(-1)?.body.input).toMatchObject([{}, { type: "reasoning" }, { call_id: "call_1" }, {}])
    expect(await errorOf(ask(client, { ...body, seed: 7 }, false))).toMatchObject({
      status: 400,
      details: { issues: [{ path: "seed" }] }
    })
  })

  test("and their failures and calls pass as those of the built-in ones do", async () => {
    chat.next(Errors.overloaded, toolCalls([{ id: "call_1", name: "weather", arguments: { city: "Oslo" } }]))
    const { finishReason } = await ask(client, { model: "my-chats", messages, tools: [weather] }, false)
    expect(finishReason).toBe("tool_calls")
  })
})
