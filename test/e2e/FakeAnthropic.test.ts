import Anthropic, {
  APIConnectionTimeoutError,
  APIError,
  AuthenticationError,
  InternalServerError,
  NotFoundError,
  RateLimitError
} from "@anthropic-ai/sdk"
import { Effect } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import * as Errors from "../fixtures/anthropic/Errors.ts"
import { type FakeAnthropic, fakeAnthropic, startFakeAnthropic } from "../fixtures/anthropic/FakeAnthropic.ts"
import { errorEvent, message, refusal, text, toolUse } from "../fixtures/anthropic/Messages.ts"
import { sign } from "../fixtures/anthropic/Signature.ts"
import * as Faults from "../fixtures/openai/Faults.ts"

const model = "claude-opus-5-5"
const older = "claude-sonnet-4-5"

let fake: FakeAnthropic
let client: Anthropic

beforeAll(async () => {
  fake = await startFakeAnthropic({ models: [model, older] })
  client = new Anthropic({ baseURL: fake.baseUrl, apiKey: fake.apiKey, maxRetries: 0, logLevel: "off" })
})
afterAll(() => fake.close())
beforeEach(() => fake.clear())

const messages: Array<Anthropic.MessageParam> = [{ role: "user", content: "Hi" }]
const request = { model, max_tokens: 100, messages }
const weather: Anthropic.Tool = { name: "weather", input_schema: { type: "object" } }

/** A message, whole or put together from its stream. */
const ask = (streamed: boolean, more: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) => {
  const body = { ...request, ...more }
  return streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body)
}

describe("the official SDK", () => {
  test.each([false, true])("gets a message, and the request is recorded (stream: %s)", async (streamed) => {
    fake.next(text("Good morning, world.", { usage: { cache_read_input_tokens: 4, service_tier: "priority" } }))
    const answer = await ask(streamed, { system: "Be brief." })
    expect(answer).toMatchObject({
      type: "message",
      role: "assistant",
      model,
      content: [{ type: "text", text: "Good morning, world." }],
      stop_reason: "end_turn",
      usage: { input_tokens: 12, cache_read_input_tokens: 4, output_tokens: 4, service_tier: "priority" }
    })
    expect(fake.requests.map(({ body }) => body)).toEqual([
      { ...request, system: "Be brief.", ...(streamed ? { stream: true } : {}) }
    ])
    expect(fake.requests[0]?.headers).toMatchObject({
      authorization: `Bearer ${fake.apiKey}`,
      "anthropic-version": "2026-10-21"
    })
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "server" })
  })

  test.each([false, true])("gets thinking and calls, and sends them back (stream: %s)", async (streamed) => {
    fake.next(
      toolUse(
        [
          { tool: "weather", input: { city: "Oslo" }, id: "toolu_1" },
          { tool: "weather", input: {}, id: "toolu_2" }
        ],
        { blocks: [{ thinking: "Which city? Oslo." }, { redacted: "xx" }, { text: "Let me see." }] }
      )
    )
    const { content, stop_reason } = await ask(streamed, { tools: [weather] })
    expect(stop_reason).toBe("tool_use")
    expect(content).toMatchObject([
      { type: "thinking", thinking: "Which city? Oslo.", signature: sign("Which city? Oslo.") },
      { type: "redacted_thinking", data: "xx" },
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } },
      { type: "tool_use", id: "toolu_2", name: "weather", input: {} }
    ])
    fake.next(text("Cold."))
    const blocks = content.map((block): Anthropic.ContentBlockParam => {
      switch (block.type) {
        case "text":
          return { type: "text", text: block.text }
        case "tool_use":
          return { type: "tool_use", id: block.id, name: block.name, input: block.input }
        case "thinking":
        case "redacted_thinking":
          return block
        default:
          return expect.fail(`unexpected ${block.type}`)
      }
    })
    const results = ["toolu_1", "toolu_2"].map((tool_use_id) => ({ type: "tool_result" as const, tool_use_id }))
    const turn: Array<Anthropic.MessageParam> = [
      ...messages,
      { role: "assistant", content: blocks },
      { role: "user", content: results }
    ]
    const answer = await ask(streamed, { messages: turn, tools: [weather] })
    expect(answer.content).toMatchObject([{ type: "text", text: "Cold." }])
  })

  test.each([false, true])("gets a refusal (stream: %s)", async (streamed) => {
    fake.next(refusal("Not this.", { blocks: [{ text: "Well" }] }))
    expect(await ask(streamed)).toMatchObject({
      stop_reason: "refusal",
      stop_details: { type: "refusal", explanation: "Not this." },
      content: [{ text: "Well" }]
    })
  })

  test("raises its typed errors", async () => {
    const stranger = client.withOptions({ apiKey: "sk-ant-wrong" })
    await expect(stranger.messages.create(request)).rejects.toSatisfy(
      (error) => error instanceof AuthenticationError && error.type === "authentication_error"
    )
    await expect(client.messages.create({ ...request, model: "claude-none" })).rejects.toBeInstanceOf(NotFoundError)
    fake.next(Errors.rateLimited("7"))
    await expect(ask(false)).rejects.toSatisfy(
      (error) => error instanceof RateLimitError && error.headers.get("retry-after") === "7"
    )
    fake.next(Errors.overloaded)
    await expect(ask(false)).rejects.toSatisfy(
      (error) =>
        error instanceof InternalServerError &&
        error.status === 529 &&
        error.type === "overloaded_error" &&
        error.requestID?.startsWith("req_") === true
    )
    // Only what reached the model counts as a request.
    expect(fake.requests).toHaveLength(2)
    expect(fake.log.map(({ status }) => status)).toEqual([404, 429, 529])
  })

  test("raises an error in the middle of a stream", async () => {
    fake.next(Faults.insertAt(4, errorEvent("overloaded_error", "Overloaded"))(text("one two three")))
    await expect(ask(true)).rejects.toSatisfy((error) => error instanceof APIError && error.type === "overloaded_error")
  })

  test("retries a failure", async () => {
    fake.next(Errors.serverError, text("Second time lucky."))
    const { content } = await client.messages.create(request, { maxRetries: 1 })
    expect(content).toMatchObject([{ text: "Second time lucky." }])
  })

  test("is seen to leave in the middle of a stream", async () => {
    fake.next(Faults.every(50)(text("word ".repeat(200))))
    const stream = await client.messages.create({ ...request, stream: true })
    await stream[Symbol.asyncIterator]().next()
    const left = Date.now()
    stream.controller.abort()
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect((ending?.at ?? 0) - left).toBeLessThan(500)
  })

  test("runs into its time limit before the first byte", async () => {
    fake.next(Faults.hangAfter(0)(text("one")))
    await expect(client.messages.create(request, { timeout: 200 })).rejects.toBeInstanceOf(APIConnectionTimeoutError)
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "client", sent: 0 })
  })
})

const post = (body: object | string, headers: Record<string, string> = {}) =>
  fetch(`${fake.baseUrl}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": fake.apiKey, "anthropic-version": "2023-06-01", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body)
  })

describe("on the wire", () => {
  test("a stream names its events, and counts at its beginning and end", async () => {
    fake.next(message({ blocks: [{ text: "Hi there", pieces: ["Hi", " there"] }, { raw: { type: "new_block" } }] }))
    const response = await post({ ...request, stream: true })
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8")
    expect(response.headers.get("openai-version")).toBeNull()
    const events = (await response.text()).split("\n\n").filter((event) => event !== "")
    const read = events.map((event) => {
      const [, name = "", data = ""] = /^event: (\S+)\ndata: (.*)$/u.exec(event) ?? []
      const json: { readonly type: string } = JSON.parse(data)
      expect(json.type).toBe(name)
      return json
    })
    expect(read).toMatchObject([
      { type: "message_start", message: { content: [], stop_reason: null, usage: { output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "ping" },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: " there" } },
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: { type: "new_block" } },
      { type: "content_block_stop", index: 1 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { input_tokens: 12, output_tokens: 4 } },
      { type: "message_stop" }
    ])
  })

  const use = { type: "tool_use", id: "a", name: "weather", input: {} }
  const result = { type: "tool_result", tool_use_id: "a" }
  const user = (...content: ReadonlyArray<object>) => ({ role: "user", content })
  const assistant = (...content: ReadonlyArray<object>) => ({ role: "assistant", content })
  const system = { role: "system", content: "Be brief." }
  const hi = { type: "text", text: "Hi" }
  const thinking = { type: "enabled", budget_tokens: 1024 }

  test.each<[name: string, body: object | string, said: RegExp]>([
    ["no JSON", "{", /not valid JSON/u],
    ["no limit", { model, messages }, /^max_tokens: Field required/u],
    ["no messages", { ...request, messages: [] }, /at least one message/u],
    ["an unknown field", { ...request, seed: 7 }, /^seed: Extra inputs are not permitted/u],
    ["another field's value", { ...request, service_tier: "default" }, /^service_tier: /u],
    ["a temperature above 1", { ...request, temperature: 1.5 }, /^temperature: /u],
    ["another role", { ...request, messages: [{ role: "tool", content: "1" }] }, /^messages\.0/u],
    ["a block of another kind", { ...request, messages: [user({ type: "input_audio" })] }, /^messages\.0\.content/u],
    ["blank text", { ...request, messages: [user({ type: "text", text: " " })] }, /non-whitespace/u],
    ["a message of nothing", { ...request, messages: [user()] }, /non-empty content/u],
    ["an id with other characters", { ...request, messages: [user(hi), assistant({ ...use, id: "a:1" })] }, /pattern/u],
    [
      "a call without its result",
      { ...request, messages: [user(hi), assistant(use), user(hi)] },
      /without `tool_result`/u
    ],
    ["a result without its call", { ...request, messages: [user(result)] }, /unexpected `tool_use_id`/u],
    ["a choice without tools", { ...request, tool_choice: { type: "auto" } }, /while providing tools/u],
    ["a schema of no object", { ...request, tools: [{ name: "f", input_schema: {} }] }, /^tools\.0\.input_schema/u],
    [
      "an insecure address",
      { ...request, messages: [user({ type: "image", source: { type: "url", url: "http://a" } })] },
      /^messages\.0/u
    ],
    [
      "thinking that was changed",
      {
        ...request,
        messages: [user(hi), assistant({ type: "thinking", thinking: "Hm!", signature: sign("Hm.") }), user(hi)]
      },
      /Invalid `signature`/u
    ],
    ["instructions first", { ...request, messages: [system, user(hi)] }, /role 'system'/u],
    ["instructions for an older model", { ...request, model: older, messages: [user(hi), system] }, /not supported/u],
    ["a budget for a newer model", { ...request, max_tokens: 2000, thinking }, /thinking\.type\.enabled/u],
    [
      "no thinking for a model that always does",
      { ...request, thinking: { type: "disabled" } },
      /thinking\.type\.disabled/u
    ],
    ["adaptive thinking of an older model", { ...request, model: older, thinking: { type: "adaptive" } }, /adaptive/u],
    ["a budget above the limit", { ...request, model: older, thinking }, /must be greater than/u],
    [
      "a budget for a turn without its thinking",
      {
        ...request,
        model: older,
        max_tokens: 2000,
        thinking,
        tools: [weather],
        messages: [user(hi), assistant(use), user(result)]
      },
      /Expected `thinking`/u
    ],
    ["a temperature for a newer model", { ...request, temperature: 0.5 }, /deprecated for this model/u],
    ["a forced call of a newer model", { ...request, tools: [weather], tool_choice: { type: "any" } }, /not supported/u]
  ])("%s is refused", async (_, body, said) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      type: "error",
      error: { type: "invalid_request_error", message: expect.stringMatching(said) },
      request_id: response.headers.get("request-id")
    })
    expect(fake.requests).toHaveLength(0)
  })

  test("sampling is for older models in the older version only", async () => {
    const warm = { ...request, model: older, temperature: 0.5 }
    expect((await post(warm)).status).toBe(200)
    const response = await post(warm, { "anthropic-version": "2026-10-21" })
    expect(await response.json()).toMatchObject({ error: { message: "temperature: Extra inputs are not permitted" } })
  })

  test("a request without key, version or route is refused", async () => {
    const statusOf = async (path: string, headers: Record<string, string>) =>
      (await fetch(fake.baseUrl + path, { method: "POST", headers, body: "{}" })).status
    const key = { "x-api-key": fake.apiKey }
    expect(await statusOf("/v1/messages", {})).toBe(401)
    expect(await statusOf("/v1/messages", { authorization: "Bearer sk-ant-wrong" })).toBe(401)
    expect(await statusOf("/v1/messages", key)).toBe(400)
    expect(await statusOf("/v1/messages", { ...key, "anthropic-version": "2022-01-01" })).toBe(400)
    expect(await statusOf("/messages", key)).toBe(404)
  })
})

test("lives as long as its scope", async () => {
  const url = await fakeAnthropic().pipe(
    Effect.map((fake) => fake.baseUrl),
    Effect.scoped,
    Effect.runPromise
  )
  await expect(fetch(`${url}/v1/messages`)).rejects.toThrow()
})
