import { Effect } from "effect"
import OpenAI, { APIConnectionTimeoutError, APIError, AuthenticationError, NotFoundError, RateLimitError } from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { frame, json, refusal, text, toolCalls, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, fakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"

let fake: FakeOpenAi
let client: OpenAI

beforeAll(async () => {
  fake = await startFakeOpenAi({ models: ["gpt-fake"] })
  client = new OpenAI({ baseURL: fake.baseUrl, apiKey: fake.apiKey, maxRetries: 0, logLevel: "off" })
})
afterAll(() => fake.close())
beforeEach(() => fake.clear())

const model = "gpt-fake"
const messages = [{ role: "user" as const, content: "Hi" }]
const ask = () => client.chat.completions.create({ model, messages })
const weather = { type: "function" as const, function: { name: "weather", parameters: { type: "object" } } }

/** The whole text of a stream, with the finish reason that came with it. */
const read = async (options: OpenAI.RequestOptions = {}) => {
  const stream = await client.chat.completions.create({ model, messages, stream: true }, options)
  const read: { text: string; finish: string | null } = { text: "", finish: null }
  for await (const { choices } of stream) {
    read.text += choices[0]?.delta.content ?? ""
    read.finish = choices[0]?.finish_reason ?? read.finish
  }
  return read
}

const key = () => ({ authorization: `Bearer ${fake.apiKey}` })

const post = (body: string, headers: Record<string, string> = key(), signal: AbortSignal | null = null) =>
  fetch(`${fake.baseUrl}/chat/completions`, { method: "POST", headers, body, signal })

describe("the official SDK", () => {
  test("gets a completion, and the request is recorded", async () => {
    fake.next(text("Good morning.", { usage: usage({ prompt: 9, cached: 4, completion: 7, reasoning: 5 }) }))
    const completion = await client.chat.completions.create({ model, messages, seed: 7, service_tier: "fast" })
    expect(completion).toMatchObject({
      object: "chat.completion",
      model: "gpt-fake-2026-08-07",
      choices: [{ index: 0, message: { role: "assistant", content: "Good morning.", refusal: null }, logprobs: null }],
      usage: {
        prompt_tokens: 9,
        total_tokens: 16,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 5 }
      },
      service_tier: "priority",
      _request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/u)
    })
    expect(fake.requests.map(({ body }) => body)).toEqual([{ model, messages, seed: 7, service_tier: "fast" }])
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "server" })
  })

  test("gets a stream", async () => {
    fake.next(text("Good morning, world."))
    expect(await read()).toEqual({ text: "Good morning, world.", finish: "stop" })
  })

  test("gets the usage of a stream on a chunk without choices, when it asks", async () => {
    const stream = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true }
    })
    const chunks: Array<OpenAI.ChatCompletionChunk> = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.slice(0, -1).map((chunk) => chunk.usage)).toEqual(Array(chunks.length - 1).fill(null))
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 12, completion_tokens: 4 } })
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1)
  })

  test.each([false, true])("gets tool calls (stream: %s)", async (streamed) => {
    const calls = ["Oslo", "Rome"].map((city) => ({ id: `call_${city}`, name: "weather", arguments: { city } }))
    fake.next(toolCalls(calls))
    const body = { model, messages, tools: [weather] }
    const completion = streamed
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.create(body)
    const [choice] = completion.choices
    expect(choice?.finish_reason).toBe("tool_calls")
    expect(choice?.message.content).toBeNull()
    expect(choice?.message.tool_calls?.map((call) => (call.type === "function" ? call.function : call))).toMatchObject([
      { name: "weather", arguments: `{"city":"Oslo"}` },
      { name: "weather", arguments: `{"city":"Rome"}` }
    ])
  })

  test("gets JSON under a schema", async () => {
    fake.next(json({ city: "Oslo" }))
    const schema = { type: "object", properties: { city: { type: "string" } } }
    const completion = await client.chat.completions.create({
      model,
      messages,
      response_format: { type: "json_schema", json_schema: { name: "place", schema } }
    })
    expect(JSON.parse(completion.choices[0]?.message.content ?? "")).toEqual({ city: "Oslo" })
  })

  test.each([false, true])("gets a refusal (stream: %s)", async (streamed) => {
    fake.next(refusal("I cannot help with that."))
    const { message } = await (
      streamed ? client.chat.completions.stream({ model, messages }).finalChatCompletion() : ask()
    ).then(({ choices: [choice] }) => choice ?? expect.fail("no choice"))
    expect(message.refusal).toBe("I cannot help with that.")
  })

  test("lists the models", async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["gpt-fake"])
  })

  test("raises its typed errors", async () => {
    const stranger = client.withOptions({ apiKey: "sk-wrong-0123456789" })
    await expect(stranger.chat.completions.create({ model, messages })).rejects.toSatisfy(
      (error) => error instanceof AuthenticationError && error.code === "invalid_api_key"
    )
    await expect(client.chat.completions.create({ model: "gpt-none", messages })).rejects.toSatisfy(
      (error) => error instanceof NotFoundError && error.code === "model_not_found"
    )
    fake.next(Errors.rateLimited("7"))
    await expect(ask()).rejects.toSatisfy(
      (error) => error instanceof RateLimitError && error.headers.get("retry-after") === "7"
    )
    const unknown = { model, messages, access_method: "x" }
    await expect(client.chat.completions.create(unknown)).rejects.toMatchObject({
      status: 400,
      param: "access_method",
      code: "unknown_parameter"
    })
    // Only what reached the model counts as a request.
    expect(fake.requests).toHaveLength(1)
    expect(fake.log.map(({ status }) => status)).toEqual([404, 429, 400])
  })

  test("retries a failure", async () => {
    fake.next(Errors.serverError, text("Second time lucky."))
    const completion = await client.chat.completions.create({ model, messages }, { maxRetries: 1 })
    expect(completion.choices[0]?.message.content).toBe("Second time lucky.")
    expect(fake.requests).toHaveLength(2)
  })

  test("is seen to leave in the middle of a stream", async () => {
    fake.next(Faults.every(50)(text("word ".repeat(200))))
    const stream = await client.chat.completions.create({ model, messages, stream: true })
    const iterator = stream[Symbol.asyncIterator]()
    await iterator.next()
    const left = Date.now()
    stream.controller.abort()
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect((ending?.at ?? 0) - left).toBeLessThan(500)
  })
})

describe("on the wire", () => {
  test("a stream has the role first, each name once, the finish reason, and [DONE]", async () => {
    fake.next(toolCalls([{ id: "call_1", name: "weather", arguments: { city: "Oslo" } }]))
    const response = await post(JSON.stringify({ model, messages, stream: true }))
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8")
    const events = (await response.text()).split("\n\n")
    expect(events.slice(-2)).toEqual(["data: [DONE]", ""])
    const chunks = events
      .slice(0, -2)
      .map((event): OpenAI.ChatCompletionChunk => JSON.parse(event.replace(/^data: /u, "")))
    expect(chunks[0]?.choices[0]?.delta).toEqual({
      role: "assistant",
      content: null,
      tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "" } }],
      refusal: null
    })
    expect(chunks[1]?.choices[0]?.delta).toEqual({ tool_calls: [{ index: 0, function: { arguments: `{"city` } }] })
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: "tool_calls" }])
    for (const chunk of chunks) {
      expect(chunk).not.toHaveProperty("usage")
      expect(chunk.obfuscation).toBeTypeOf("string")
    }
  })

  test.each([
    ["no key", "{}", {}, 401, { code: null, type: "invalid_request_error" }],
    ["no JSON", "{", undefined, 400, { code: null, param: null }],
    ["no messages", `{"model":"gpt-fake"}`, undefined, 400, { code: "missing_required_parameter", param: "messages" }],
    [
      "a part that the role cannot have",
      JSON.stringify({ model, messages: [{ role: "tool", content: [{ type: "media" }] }] }),
      undefined,
      400,
      { code: "invalid_value", param: "messages[0].content[0].type" }
    ],
    [
      "stream options without a stream",
      JSON.stringify({ model, messages, stream_options: { include_usage: true } }),
      undefined,
      400,
      { code: null, param: "stream_options" }
    ]
  ])("%s is refused", async (_, body, headers, status, error) => {
    const response = await post(body, headers)
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ error })
    expect(fake.requests).toHaveLength(0)
  })
})

describe("an unusual but right stream says the same", () => {
  const said = "Zwölf Boxkämpfer 🥊 jagen Viktor – quer über den Sylter Deich. 👩‍👩‍👧‍👦"

  test.each([
    ["a byte at a time", Faults.packets(1)],
    ["all at once", Faults.atOnce],
    ["with CR LF", Faults.carriageReturns],
    ["with comments", Faults.comments],
    ["on several data lines", Faults.severalDataLines],
    ["without a last line break", Faults.withoutLastLineBreak],
    ["slowly", Faults.every(5)]
  ])("%s", async (_, fault) => {
    fake.next(fault(text(said)))
    expect(await read()).toEqual({ text: said, finish: "stop" })
  })

  test("everything at once", async () => {
    const { carriageReturns, comments, packets, severalDataLines } = Faults
    fake.next(packets(3)(carriageReturns(comments(severalDataLines(text(said))))))
    expect(await read()).toEqual({ text: said, finish: "stop" })
  })
})

describe("a fault", () => {
  test("a truncated stream ends without a finish reason", async () => {
    fake.next(Faults.truncateAfter(3)(text("one two three")))
    expect(await read()).toEqual({ text: "one two", finish: null })
  })

  test.each([
    ["reset", Faults.resetAfter(3)],
    ["cut", Faults.cutAfter(3)],
    ["a malformed frame", Faults.insertAt(3, 'data: {"id":\n\n')]
  ])("%s fails the stream", async (_, fault) => {
    fake.next(fault(text("one two three")))
    await expect(read()).rejects.toThrow()
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "server" })
  })

  test("an error object after status 200 fails the stream", async () => {
    const error = { message: "The server had an error.", type: "server_error", param: null, code: null }
    fake.next(Faults.insertAt(2, frame({ error }))(text("one two three")))
    await expect(read()).rejects.toSatisfy((raised) => raised instanceof APIError && raised.type === "server_error")
  })

  test.each([
    ["hanging", Faults.hangAfter(0)],
    ["late", Faults.after(5_000)]
  ])("%s before the first byte runs into the time limit of the client, who is seen to leave", async (_, fault) => {
    fake.next(fault(text("one two three")))
    const asked = client.chat.completions.create({ model, messages }, { timeout: 200 })
    await expect(asked).rejects.toBeInstanceOf(APIConnectionTimeoutError)
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "client", sent: 0 })
  })

  test("hanging after the headers leaves the client with a status and no body", async () => {
    fake.next(Faults.hangAfterHeaders(text("one two three")))
    const response = await post(JSON.stringify({ model, messages }), undefined, AbortSignal.timeout(300))
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "client", sent: 0 })
  })

  test("an endless line flows as fast as it is read, and stops when the reader leaves", async () => {
    fake.next(Faults.endlessLineAfter(1)(text("one")))
    const leave = new AbortController()
    const response = await post(JSON.stringify({ model, messages, stream: true }), key(), leave.signal)
    let size = 0
    for await (const part of response.body ?? []) {
      size += part.length
      if (size > 10_000_000) break
    }
    leave.abort()
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect(ending?.sent).toBeGreaterThan(10_000_000)
  })

  test("a pause lasts until the test ends it", async () => {
    const gate = Promise.withResolvers<void>()
    fake.next(Faults.pauseAt(2, gate.promise)(text("one two three")))
    const stream = await client.chat.completions.create({ model, messages, stream: true })
    let pieces = 0
    for await (const _ of stream) if (++pieces === 2) gate.resolve()
    expect(pieces).toBe(5)
  })
})

test("lives as long as its scope", async () => {
  const url = await fakeOpenAi().pipe(
    Effect.map((fake) => fake.baseUrl),
    Effect.scoped,
    Effect.runPromise
  )
  await expect(fetch(`${url}/models`)).rejects.toThrow()
})
