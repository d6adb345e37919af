import { Effect } from "effect"
import OpenAI, {
  APIConnectionTimeoutError,
  APIError,
  AuthenticationError,
  BadRequestError,
  RateLimitError
} from "openai"
import type { ResponseStreamEvent } from "openai/resources/responses/responses"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import * as Errors from "../fixtures/openai/Errors.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { plain } from "../fixtures/openai/Reply.ts"
import { type FakeResponses, fakeResponses, startFakeResponses } from "../fixtures/responses/FakeResponses.ts"
import { answer, frame, text, usage } from "../fixtures/responses/Responses.ts"

let fake: FakeResponses
let client: OpenAI

beforeAll(async () => {
  fake = await startFakeResponses({ models: ["gpt-fake", "gpt-4o"] })
  client = new OpenAI({ baseURL: fake.baseUrl, apiKey: fake.apiKey, maxRetries: 0, logLevel: "off" })
})
afterAll(() => fake.close())
beforeEach(() => fake.clear())

const model = "gpt-fake"
const input = "Hi"
const weather = { type: "function" as const, name: "weather", parameters: { type: "object" }, strict: false }
const sealed = { include: ["reasoning.encrypted_content" as const], store: false }

const events = async (body: object = {}): Promise<ReadonlyArray<ResponseStreamEvent>> => {
  const stream = await client.responses.create({ model, input, ...body, stream: true })
  const events: Array<ResponseStreamEvent> = []
  for await (const event of stream) events.push(event)
  return events
}

const textIn = (events: ReadonlyArray<ResponseStreamEvent>) =>
  events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : [])).join("")

const post = (body: unknown, headers: Record<string, string> = { authorization: `Bearer ${fake.apiKey}` }) =>
  fetch(`${fake.baseUrl}/responses`, {
    method: "POST",
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body)
  })

describe("the official SDK", () => {
  test("gets a response, and the request is recorded", async () => {
    const used = usage({ input: 9, cached: 4, cacheWrite: 1, output: 7, reasoning: 5 })
    fake.next(text("Good morning.", { usage: used }))
    const response = await client.responses.create({ model, input, service_tier: "fast" })
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model: "gpt-fake-2026-08-07",
      output_text: "Good morning.",
      usage: used,
      service_tier: "priority",
      _request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/u)
    })
    expect(fake.requests.map(({ body }) => body)).toEqual([{ model, input, service_tier: "fast" }])
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "server" })
  })

  test("gets a stream and puts it together again", async () => {
    fake.next(
      answer([
        { reasoning: ["First of all.", "And then."] },
        { text: ["Good ", "morning."] },
        { call: "weather", arguments: { city: "Oslo" }, id: "call_1" },
        { refusal: "No more." }
      ])
    )
    const reasoning = { summary: "auto" as const }
    const response = await client.responses.stream({ model, input, reasoning, ...sealed }).finalResponse()
    expect(response.output).toMatchObject([
      {
        type: "reasoning",
        summary: [{ text: "First of all." }, { text: "And then." }],
        encrypted_content: expect.stringMatching(/^gAAAAA./u)
      },
      { type: "message", content: [{ text: "Good " }, { text: "morning." }] },
      { type: "function_call", call_id: "call_1", name: "weather", arguments: `{"city":"Oslo"}` },
      { type: "message", content: [{ type: "refusal", refusal: "No more." }] }
    ])
    expect(response.usage).toMatchObject({ input_tokens: 12 })
  })

  test("gets events in the vendor's order, numbered", async () => {
    fake.next(answer([{ reasoning: ["Hm."] }, { call: "weather", arguments: {} }, { text: "Good morning." }]))
    const got = await events({ reasoning: { summary: "auto" }, stream_options: { include_obfuscation: true } })
    expect(got.map(({ sequence_number }) => sequence_number)).toEqual(got.map((_, index) => index))
    expect(got.map(({ type }) => type.replace("response.", ""))).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "reasoning_summary_part.added",
      "reasoning_summary_text.delta",
      "reasoning_summary_text.done",
      "reasoning_summary_part.done",
      "output_item.done",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "completed"
    ])
  })

  test("goes on with sealed reasoning after a call, and only with what was sealed here", async () => {
    fake.next(answer([{ reasoning: [] }, { call: "weather", arguments: {}, id: "call_1" }]))
    const first = await client.responses.create({ model, input, tools: [weather], ...sealed })
    const result = { type: "function_call_output" as const, call_id: "call_1", output: "sunny" }
    const question = { role: "user" as const, content: input }
    const output = first.output.flatMap((item) =>
      item.type === "reasoning" || item.type === "function_call" ? [item] : []
    )
    const second = await client.responses.create({ model, input: [question, ...output, result], ...sealed })
    expect(second.status).toBe("completed")

    const forged = output.map((item) => (item.type === "reasoning" ? { ...item, id: "rs_other" } : item))
    await expect(client.responses.create({ model, input: [question, ...forged, result] })).rejects.toMatchObject({
      status: 400,
      code: "invalid_encrypted_content"
    })
    const open = output.map((item) => (item.type === "reasoning" ? { ...item, encrypted_content: null } : item))
    await expect(client.responses.create({ model, input: [question, ...open, result] })).rejects.toMatchObject({
      status: 404,
      message: expect.stringContaining("Items are not persisted")
    })
  })

  test.each(["max_output_tokens", "content_filter"] as const)("gets an answer cut short by %s", async (reason) => {
    fake.next(text("Good", { incomplete: reason }), text("Good", { incomplete: reason }))
    const whole = await client.responses.create({ model, input })
    expect(whole).toMatchObject({ status: "incomplete", incomplete_details: { reason } })
    expect((await events()).at(-1)).toMatchObject({ type: "response.incomplete", response: { status: "incomplete" } })
  })

  test("gets a failure as an answer", async () => {
    const error = { code: "server_error" as const, message: "Overloaded" }
    fake.next(text("Good", { error }), text("Good", { error }))
    expect(await client.responses.create({ model, input })).toMatchObject({ status: "failed", error })
    expect((await events()).at(-1)).toMatchObject({ type: "response.failed", response: { error } })
  })

  test("raises its typed errors", async () => {
    const stranger = client.withOptions({ apiKey: "sk-wrong-0123456789" })
    await expect(stranger.responses.create({ model, input })).rejects.toBeInstanceOf(AuthenticationError)
    await expect(client.responses.create({ model: "gpt-none", input })).rejects.toMatchObject({
      code: "model_not_found"
    })
    fake.next(Errors.rateLimited("7"))
    await expect(client.responses.create({ model, input })).rejects.toSatisfy(
      (error) => error instanceof RateLimitError && error.headers.get("retry-after") === "7"
    )
    await expect(client.responses.create({ model: "gpt-4o", input, ...sealed })).rejects.toSatisfy(
      (error) => error instanceof BadRequestError && error.param === "include"
    )
    // Only what reached the model counts as a request.
    expect(fake.requests).toHaveLength(1)
    expect(fake.log.map(({ status }) => status)).toEqual([400, 429, 400])
  })

  test("is seen to leave in the middle of a stream", async () => {
    fake.next(Faults.every(50)(text("word ".repeat(200))))
    const stream = await client.responses.create({ model, input, stream: true })
    await stream[Symbol.asyncIterator]().next()
    const left = Date.now()
    stream.controller.abort()
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect((ending?.at ?? 0) - left).toBeLessThan(500)
  })
})

describe("on the wire", () => {
  test("every event has a line with its name, and nothing follows the last one", async () => {
    fake.next(text("Good morning."))
    const response = await post({ model, input, stream: true })
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8")
    const frames = (await response.text()).split("\n\n")
    expect(frames.pop()).toBe("")
    for (const one of frames) {
      const [, name, data = ""] = /^event: (\S+)\ndata: (\{.*\})$/u.exec(one) ?? expect.fail(`no event: ${one}`)
      expect(JSON.parse(data)).toMatchObject({ type: name })
    }
    expect(frames.at(-1)).toMatch(/^event: response\.completed\n/u)
  })

  const user = (content: unknown) => [{ role: "user", content }]
  const called = { type: "function_call", call_id: "a", name: "f", arguments: "{}" }
  const result = { type: "function_call_output", call_id: "a", output: "1" }

  test.each<[string, object | string, { readonly param?: string | null; readonly code?: string | null }]>([
    ["no JSON", "{", { code: null, param: null }],
    ["messages", { model, messages: [] }, { code: "unsupported_parameter" }],
    ["no model", { input }, { code: "missing_required_parameter", param: "model" }],
    ["no input", { model }, { code: "missing_required_parameter", param: "input" }],
    ["empty input", { model, input: [] }, { code: "empty_array", param: "input" }],
    ["an unknown parameter", { model, input, seed: 7 }, { code: "unknown_parameter", param: "seed" }],
    ["a limit that is too low", { model, input, max_output_tokens: 15 }, { param: "max_output_tokens" }],
    ["an item of no kind", { model, input: [{ type: "x" }] }, { code: "invalid_value", param: "input[0].type" }],
    ["a role of no kind", { model, input: [{ role: "tool", content: "" }] }, { param: "input[0].role" }],
    [
      "a part of chat completions",
      { model, input: user([{ type: "text", text: "" }]) },
      { param: "input[0].content[0]" }
    ],
    [
      "a part that only answers have",
      { model, input: user([{ type: "output_text", text: "" }]) },
      { param: "input[0].content[0]" }
    ],
    [
      "a part that only questions have",
      { model, input: [{ role: "assistant", content: [{ type: "input_text", text: "" }] }] },
      { param: "input[0].content[0]" }
    ],
    ["sound", { model, input: user([{ type: "input_audio", input_audio: {} }]) }, { code: "invalid_value" }],
    [
      "an image from nowhere",
      { model, input: user([{ type: "input_image", image_url: "gs://a" }]) },
      { param: "input[0].content[0].image_url" }
    ],
    [
      "a named address",
      { model, input: user([{ type: "input_file", file_url: "https://a", filename: "a" }]) },
      { code: "mutually_exclusive_parameters" }
    ],
    [
      "bare file data",
      { model, input: user([{ type: "input_file", file_data: "AAAA", filename: "a" }]) },
      { param: "input[0].content[0].file_data" }
    ],
    [
      "nameless file data",
      { model, input: user([{ type: "input_file", file_data: "data:a/b;base64,AAAA" }]) },
      { param: "input[0].content[0].filename" }
    ],
    ["a call without answer", { model, input: [called] }, { param: "input" }],
    ["an answer without call", { model, input: [result] }, { param: "input" }],
    [
      "a long id",
      { model, input: [{ ...called, call_id: "a".repeat(65) }, result] },
      { code: "string_above_max_length" }
    ],
    [
      "an unknown field of an item",
      { model, input: [{ ...called, index: 0 }, result] },
      { code: "unknown_parameter", param: "input[0].index" }
    ],
    [
      "a nested tool",
      { model, input, tools: [{ type: "function", function: { name: "f" } }] },
      { param: "tools[0].name" }
    ],
    [
      "a nested choice",
      { model, input, tool_choice: { type: "function", function: { name: "f" } } },
      { param: "tool_choice.name" }
    ],
    [
      "a nested format",
      { model, input, text: { format: { type: "json_schema", json_schema: {} } } },
      { param: "text.format.name" }
    ],
    ["JSON that nobody speaks of", { model, input, text: { format: { type: "json_object" } } }, { param: "input" }],
    ["thinking of another kind", { model, input, reasoning: { max_tokens: 1 } }, { param: "reasoning.max_tokens" }],
    [
      "thinking of a model that does not",
      { model: "gpt-4o", input, reasoning: { effort: "low" } },
      { code: "unsupported_parameter" }
    ],
    ["stream options without a stream", { model, input, stream_options: {} }, { param: "stream_options" }]
  ])("%s is refused", async (_, body, error) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error", ...error } })
    expect(fake.requests).toHaveLength(0)
  })

  test("no key and another path are refused", async () => {
    expect((await post({ model, input }, {})).status).toBe(401)
    const elsewhere = await fetch(`${fake.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${fake.apiKey}` }
    })
    expect(elsewhere.status).toBe(404)
  })
})

describe("a fault", () => {
  test.each([
    ["a byte at a time", Faults.packets(1)],
    ["all at once", Faults.atOnce],
    ["with CR LF", Faults.carriageReturns],
    ["with comments", Faults.comments]
  ])("that is none says the same: %s", async (_, fault) => {
    const said = "Zwölf Boxkämpfer 🥊 jagen Viktor."
    fake.next(fault(text(said)))
    expect(textIn(await events())).toBe(said)
  })

  test("of a stream cut short leaves it without its end", async () => {
    fake.next(Faults.truncateAfter(6)(text("one two three")))
    const got = await events()
    expect(textIn(got)).toBe("one two")
    expect(got.at(-1)?.type).toBe("response.output_text.delta")
  })

  test.each([
    ["reset", Faults.resetAfter(5)],
    ["cut", Faults.cutAfter(5)],
    ["a malformed frame", Faults.insertAt(5, 'event: x\ndata: {"type":\n\n')]
  ])("%s fails the stream", async (_, fault) => {
    fake.next(fault(text("one two three")))
    await expect(events()).rejects.toThrow()
  })

  test("of an error event fails the stream", async () => {
    const event = { type: "error", code: "server_error", message: "Overloaded", param: null, sequence_number: 5 }
    fake.next(Faults.insertAt(5, frame(event))(text("one two three")))
    await expect(events()).rejects.toBeInstanceOf(APIError)
  })

  test("of a late answer runs into the time limit of the client, who is seen to leave", async () => {
    fake.next(Faults.after(5_000)(text("one")))
    const asked = client.responses.create({ model, input }, { timeout: 200 })
    await expect(asked).rejects.toBeInstanceOf(APIConnectionTimeoutError)
    expect(await fake.requests[0]?.ended).toMatchObject({ by: "client", sent: 0 })
  })

  test("may be any answer at all", async () => {
    fake.next(plain(502, "<html>Bad gateway</html>"))
    expect((await post({ model, input })).status).toBe(502)
  })
})

describe("the server behind subscriptions", () => {
  const account = "0f6a-b2"
  const body = {
    model,
    instructions: "Be brief.",
    input: [{ role: "user", content: "Hi" }],
    store: false,
    stream: true
  }

  const asked = async (change: object, headers: Record<string, string> = {}, models?: ReadonlyArray<string>) => {
    const program = fakeResponses({
      server: "subscription",
      account,
      ...(models === undefined ? {} : { models })
    }).pipe(
      Effect.flatMap(({ apiKey, baseUrl }) =>
        Effect.promise(async () => {
          const response = await fetch(`${baseUrl}/responses`, {
            method: "POST",
            headers: { authorization: `Bearer ${apiKey}`, "chatgpt-account-id": account, ...headers },
            body: JSON.stringify({ ...body, ...change })
          })
          return { status: response.status, text: await response.text() }
        })
      ),
      Effect.scoped
    )
    return await Effect.runPromise(program)
  }

  test("answers a stream", async () => {
    expect(await asked({})).toMatchObject({ status: 200, text: expect.stringMatching(/^event: response\.created\n/u) })
  })

  test.each([
    [{ instructions: undefined }, "Instructions are required"],
    [{ instructions: "" }, "Instructions are required"],
    [{ input: "Hi" }, "Input must be a list"],
    [{ store: undefined }, "Store must be set to false"],
    [{ stream: false }, "Stream must be set to true"],
    [{ temperature: 1 }, "Unsupported parameter: temperature"],
    [{ max_output_tokens: 100 }, "Unsupported parameter: max_output_tokens"],
    [{ user: "u" }, "Unsupported parameter: user"],
    [{ input: [{ role: "system", content: "Hi" }] }, "System messages are not allowed"]
  ])("refuses in its own form: %j", async (change, detail) => {
    expect(await asked(change)).toEqual({ status: 400, text: JSON.stringify({ detail }) })
  })

  test("knows the token and the account", async () => {
    for (const headers of [{ authorization: "Bearer other" }, { "chatgpt-account-id": "other" }]) {
      expect((await asked({}, headers)).status).toBe(401)
    }
    expect(await asked({}, {}, ["gpt-other"])).toMatchObject({
      status: 400,
      text: expect.stringContaining("not supported")
    })
  })
})
