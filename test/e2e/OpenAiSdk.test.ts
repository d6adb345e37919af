import { Schema } from "effect"
import OpenAI, {
  APIConnectionTimeoutError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError
} from "openai"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { json, refusal, text, toolCalls, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type Account, prepareService, type ServiceProcess, setUpAccounts, stores } from "../fixtures/ServiceProcess.ts"

const model = "fake-model"
const messages = [{ role: "user" as const, content: "Hi" }]
const weather = {
  type: "function" as const,
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
  }
}
/** A red dot. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

describe.each(stores)("the official OpenAI SDK, on $store", ({ options }) => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let rich: Account
  let poor: Account
  let busy: Account
  let client: OpenAI

  const clientOf = ({ key }: Pick<Account, "key">) =>
    new OpenAI({ baseURL: `${service.baseUrl}/v1`, apiKey: key, maxRetries: 0, logLevel: "off" })

  beforeAll(async () => {
    fake = await startFakeOpenAi({ models: ["gpt-fake"] })
    service = await prepareService({ fake, ...(await options()) })
    ;({ busy, poor, rich } = await setUpAccounts(service, { rich: 100, poor: 0, busy: 1 }))
    await service.start()
    client = clientOf(rich)
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  describe("completions", () => {
    test("lists the models", async () => {
      const { data } = await client.models.list()
      expect(data.find(({ id }) => id === model)).toEqual({
        id: model,
        object: "model",
        owned_by: "service",
        created: expect.any(Number),
        access_methods: ["service"],
        capabilities: {
          input: ["text", "image", "file", "audio"],
          output: ["text"],
          maxInputTokens: 128_000,
          reasoning: expect.any(Boolean),
          supportsToolCall: expect.any(Boolean)
        },
        pricing: {
          inputPerM: 2.5,
          outputPerM: 10,
          cacheReadPerM: 1.25,
          cacheWritePerM: null,
          reasoningPerM: null,
          contextOver200kPerM: null
        }
      })
    })

    test("JSON, with the cost of the vendor's usage", async () => {
      fake.next(text("Good morning.", { usage: usage({ prompt: 1_000, cached: 400, completion: 100, reasoning: 20 }) }))
      const completion = await client.chat.completions.create({ model, messages })
      expect(completion).toMatchObject({
        id: expect.stringMatching(/./u),
        object: "chat.completion",
        created: expect.any(Number),
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "Good morning." } }],
        usage: {
          prompt_tokens: 1_000,
          completion_tokens: 100,
          total_tokens: 1_100,
          // 600 input at 2.5, 400 cached at 1.25, 100 output at 10 USD per million.
          cost: 0.003,
          prompt_tokens_details: { cached_tokens: 400 },
          completion_tokens_details: { reasoning_tokens: 20 }
        }
      })
      expect(fake.requests.map(({ body }) => body)).toMatchObject([{ model: "gpt-fake", messages }])
      expect(fake.requests[0]?.headers.authorization).toBe(`Bearer ${fake.apiKey}`)
    })

    test("every optional field reaches the vendor", async () => {
      const given = {
        temperature: 0.5,
        top_p: 0.9,
        frequency_penalty: 0.1,
        presence_penalty: -0.1,
        seed: 7,
        stop: ["END"],
        max_completion_tokens: 64,
        verbosity: "low",
        reasoning_effort: "high",
        parallel_tool_calls: false,
        prompt_cache_key: "cache",
        user: "somebody",
        service_tier: "priority",
        tools: [weather],
        tool_choice: "auto"
      } as const
      const completion = await client.chat.completions.create({
        model,
        messages,
        ...given,
        stop: [...given.stop],
        tools: [weather]
      })
      expect(fake.requests[0]?.body).toMatchObject(given)
      expect(completion.service_tier).toBe("priority")
    })

    test("a stream", async () => {
      fake.next(text("Zwölf Boxkämpfer 🥊 jagen Viktor."))
      const stream = await client.chat.completions.create({ model, messages, stream: true })
      const chunks = await all(stream)
      expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
        "Zwölf Boxkämpfer 🥊 jagen Viktor."
      )
      expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant")
      expect(chunks.filter(({ choices }) => choices[0]?.finish_reason === "stop")).toHaveLength(1)
      expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
      for (const chunk of chunks) expect(chunk.usage ?? null).toBeNull()
    })

    test("a stream with usage", async () => {
      fake.next(text("Good morning.", { usage: usage({ prompt: 1_000, cached: 400, completion: 100 }) }))
      const chunks = await all(
        await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })
      )
      expect(chunks.slice(0, -1).map((chunk) => chunk.usage)).toEqual(Array(chunks.length - 1).fill(null))
      expect(chunks.at(-1)).toMatchObject({
        choices: [],
        usage: { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100, cost: 0.003 }
      })
    })

    test.each([false, true])("a tool call and its result (stream: %s)", async (streamed) => {
      const ask = async (body: OpenAI.ChatCompletionCreateParamsNonStreaming) => {
        const asked = streamed
          ? client.chat.completions.stream({ ...body, stream: true }).finalChatCompletion()
          : client.chat.completions.create(body)
        const [choice] = (await asked).choices
        return choice ?? expect.fail("no choice")
      }
      const tools = [weather]
      fake.next(
        toolCalls([
          { id: "call_oslo", name: "weather", arguments: { city: "Oslo" } },
          { id: "call_rome", name: "weather", arguments: { city: "Rome" } }
        ]),
        text("Snow in Oslo, sun in Rome.")
      )
      const called = await ask({ model, messages, tools })
      expect(called.finish_reason).toBe("tool_calls")
      expect(called.message.tool_calls).toMatchObject([
        { id: "call_oslo", type: "function", function: { name: "weather", arguments: `{"city":"Oslo"}` } },
        { id: "call_rome", type: "function", function: { name: "weather", arguments: `{"city":"Rome"}` } }
      ])

      const results = [
        { role: "tool" as const, tool_call_id: "call_oslo", content: "snow" },
        { role: "tool" as const, tool_call_id: "call_rome", content: [{ type: "text" as const, text: "sun" }] }
      ]
      const assistant = { role: "assistant" as const, content: null, tool_calls: called.message.tool_calls ?? [] }
      const calls = assistant.tool_calls.flatMap((call) =>
        call.type === "function"
          ? [
              {
                id: call.id,
                type: call.type,
                function: { name: call.function.name, arguments: call.function.arguments }
              }
            ]
          : []
      )
      const conversation = [...messages, { ...assistant, tool_calls: calls }, ...results]
      const answered = await ask({ model, messages: conversation, tools })
      expect(answered).toMatchObject({ finish_reason: "stop", message: { content: "Snow in Oslo, sun in Rome." } })
      expect(fake.requests[1]?.body.messages).toEqual(conversation)
      expect(fake.requests[1]?.body.tools).toEqual(tools)
    })

    test("a JSON schema", async () => {
      const schema = {
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
        additionalProperties: false
      }
      const response_format = { type: "json_schema" as const, json_schema: { name: "place", schema, strict: true } }
      fake.next(json({ city: "Oslo" }))
      const completion = await client.chat.completions.parse({ model, messages, response_format })
      expect(completion.choices[0]?.message.parsed).toEqual({ city: "Oslo" })
      expect(fake.requests[0]?.body.response_format).toEqual(response_format)
    })

    test("a refusal in a stream", async () => {
      fake.next(refusal("I cannot help with that."))
      const { choices } = await client.chat.completions.stream({ model, messages }).finalChatCompletion()
      expect(choices[0]?.message.refusal).toBe("I cannot help with that.")
    })

    test("an image, a file and a sound", async () => {
      const parts = [
        { type: "text" as const, text: "What is this?" },
        { type: "image_url" as const, image_url: { url: `data:image/png;base64,${png}` } },
        { type: "file" as const, file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" } },
        { type: "input_audio" as const, input_audio: { data: "UklGRg==", format: "wav" as const } }
      ]
      fake.next(text("A red dot."))
      await client.chat.completions.create({ model, messages: [{ role: "user", content: parts }] })
      expect(fake.requests[0]?.body.messages).toEqual([{ role: "user", content: parts }])
    })
  })

  describe("leaving", () => {
    test("in the middle of a stream ends the upstream's within a second, and what was said is paid once", async () => {
      const before = await spending(client)
      fake.next(Faults.every(50)(text("word ".repeat(400))))
      const stream = await client.chat.completions.create({ model, messages, stream: true })
      let seen = 0
      for await (const { choices } of stream) if (choices[0]?.delta.content && ++seen === 3) break
      const left = Date.now()
      const ending = await fake.requests[0]?.ended
      expect(ending?.by).toBe("client")
      expect((ending?.at ?? Infinity) - left).toBeLessThan(1_000)

      await expect.poll(async () => (await spending(client)).events, { timeout: 5_000 }).toBe(before.events + 1)
      const after = await spending(client)
      expect(after.cost).toBeGreaterThan(before.cost)
      expect(after.balance).toBeCloseTo(before.balance - (after.cost - before.cost), 9)
      // What a second can bring at most, never the 400 words that were not delivered.
      expect(after.cost - before.cost).toBeLessThan((100 * 2.5 + 60 * 10) / 1e6)
    })

    test.each([false, true])(
      "before the first byte ends the upstream's request within a second (stream: %s)",
      async (stream) => {
        fake.next(Faults.hangAfter(0)(text("never")))
        const arrived = fake.arrival()
        const leave = new AbortController()
        const asked = client.chat.completions.create({ model, messages, stream }, { signal: leave.signal })
        const failure = expect(asked).rejects.toThrow()
        const { ended } = await arrived
        const left = Date.now()
        leave.abort()
        await failure
        const ending = await ended
        expect(ending.by).toBe("client")
        expect(ending.at - left).toBeLessThan(1_000)
      }
    )

    test("by its own time limit does the same", async () => {
      fake.next(Faults.hangAfter(0)(text("never")))
      const asked = client.chat.completions.create({ model, messages }, { timeout: 300 })
      await expect(asked).rejects.toBeInstanceOf(APIConnectionTimeoutError)
      expect(await fake.requests[0]?.ended).toMatchObject({ by: "client" })
    })
  })

  describe("errors", () => {
    /** The error of a call, with our code and the same request id in header and body. */
    const errorOf = async (asked: Promise<unknown>) => {
      const error = await asked.then(
        () => expect.fail("no error was raised"),
        (error: unknown) => error
      )
      if (!(error instanceof APIError)) throw error
      const body = envelope(error.error)
      expect(error.requestID).toBe(body.requestId)
      expect(error.headers?.get("x-should-retry")).toBe(String(body.retryable))
      return { error, body }
    }

    test("400 names the field, and no vendor is asked", async () => {
      const wrong = { model, messages, temperature: "hot" as unknown as number }
      const { error, body } = await errorOf(client.chat.completions.create(wrong))
      expect(error).toBeInstanceOf(BadRequestError)
      expect(error.code).toBe("invalid_request")
      expect(body).toMatchObject({ retryable: false, details: { issues: [{ path: "temperature" }] } })
      expect(fake.log).toHaveLength(0)
    })

    test("400 for a field that the contract does not have", async () => {
      const unknown = { model, messages: [{ ...messages[0], extra: 1 }] as unknown as typeof messages }
      const { error, body } = await errorOf(client.chat.completions.create(unknown))
      expect(error).toBeInstanceOf(BadRequestError)
      expect(body).toMatchObject({ details: { issues: [{ path: "messages[0].extra" }] } })
      expect(fake.log).toHaveLength(0)
    })

    test("400 of the vendor is passed on with its words", async () => {
      fake.next(Errors.contextLengthExceeded)
      const { error } = await errorOf(client.chat.completions.create({ model, messages }))
      expect(error.message).toContain("maximum context length")
      expect(fake.requests).toHaveLength(1)
    })

    test("401", async () => {
      const stranger = clientOf({ key: `${rich.key.slice(0, -1)}${rich.key.endsWith("a") ? "b" : "a"}` })
      const requests = [() => stranger.chat.completions.create({ model, messages }), () => stranger.get("/models")]
      for (const request of requests) {
        const { error } = await errorOf(request())
        expect(error).toBeInstanceOf(AuthenticationError)
        expect(error.code).toBe("unauthorized")
        expect(error.headers?.get("www-authenticate")).toBe("Bearer")
      }
      expect(fake.log).toHaveLength(0)
    })

    test.each([false, true])("402 (stream: %s), and no vendor is asked", async (stream) => {
      const { error, body } = await errorOf(clientOf(poor).chat.completions.create({ model, messages, stream }))
      expect(error).toMatchObject({ status: 402, code: "insufficient_credits" })
      expect(body.retryable).toBe(false)
      expect(fake.log).toHaveLength(0)
    })

    test("404 for a model, and for a route", async () => {
      const { error } = await errorOf(client.chat.completions.create({ model: "none", messages }))
      expect(error).toBeInstanceOf(NotFoundError)
      expect(error.code).toBe("model_not_found")
      const route = await errorOf(client.get("/nothing"))
      expect(route.error).toMatchObject({ status: 404, code: "not_found" })
    })

    test("429 when the account asks too often, and only for that operation", async () => {
      const asking = clientOf(busy)
      // The limit is 120 a minute; a minute may end while the test counts.
      let served = 0
      const oneMore = () => asking.get("/billing/summary").then(() => void served++)
      const untilRefused = async () => {
        while (served < 240) await Promise.all(Array.from({ length: 20 }, oneMore))
      }
      const { error, body } = await errorOf(untilRefused())
      expect(served).toBeGreaterThanOrEqual(120)
      expect(error).toBeInstanceOf(RateLimitError)
      expect(error.code).toBe("rate_limited")
      expect(body.retryable).toBe(true)
      expect(error.headers?.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/u)
      expect((await asking.chat.completions.create({ model, messages })).choices).toHaveLength(1)
    })

    test.each([false, true])("502 when the vendor keeps failing, without its words (stream: %s)", async (stream) => {
      const secret = "sk-secret-of-the-vendor"
      fake.respond(Errors.error(500, { message: `The server had an error: ${secret}`, type: "server_error" }))
      const { error, body } = await errorOf(client.chat.completions.create({ model, messages, stream }))
      expect(error).toBeInstanceOf(InternalServerError)
      expect(error).toMatchObject({ status: 502, code: "upstream_error" })
      expect(body.retryable).toBe(true)
      expect(JSON.stringify(error.error)).not.toContain(secret)
      // Once, and two retries.
      expect(fake.requests).toHaveLength(3)
    })

    test("a failure of the vendor that passes is not seen", async () => {
      fake.next(Errors.overloaded, Errors.rateLimited("1"), text("Third time lucky."))
      const completion = await client.chat.completions.create({ model, messages })
      expect(completion.choices[0]?.message.content).toBe("Third time lucky.")
    })

    test.each([
      ["reset", Faults.resetAfter(4)],
      ["cut off", Faults.cutAfter(4)],
      ["truncated", Faults.truncateAfter(4)]
    ])("a stream that is %s raises an error after what was said", async (_, fault) => {
      fake.next(fault(text("one two three four five")))
      const { data: stream, request_id } = await client.chat.completions
        .create({ model, messages, stream: true })
        .withResponse()
      let said = ""
      const reading = async () => {
        for await (const { choices } of stream) said += choices[0]?.delta.content ?? ""
      }
      const error = await reading().then(
        () => expect.fail("no error was raised"),
        (error: unknown) => error
      )
      expect(error).toBeInstanceOf(APIError)
      expect(error).toMatchObject({ code: "upstream_error", error: { requestId: request_id } })
      expect(said).toBe("one two three")
    })

    test("the SDK's own retries repeat what may be repeated, and nothing else", async () => {
      const eager = clientOf(poor).withOptions({ maxRetries: 2 })
      const asked = Date.now()
      await expect(eager.chat.completions.create({ model, messages })).rejects.toMatchObject({ status: 402 })
      expect(Date.now() - asked).toBeLessThan(400)
    })

    test("the request id of the caller comes back", async () => {
      const headers = { "X-Request-Id": "caller-1234" }
      const { request_id } = await client.chat.completions.create({ model, messages }, { headers }).withResponse()
      expect(request_id).toBe("caller-1234")
    })
  })
})

const all = async (stream: AsyncIterable<OpenAI.ChatCompletionChunk>) => {
  const chunks: Array<OpenAI.ChatCompletionChunk> = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

const envelope = Schema.decodeUnknownSync(
  Schema.Struct({
    code: Schema.NonEmptyString,
    message: Schema.String,
    requestId: Schema.NonEmptyString,
    retryable: Schema.Boolean,
    details: Schema.optionalKey(Schema.Json)
  }),
  { onExcessProperty: "error" }
)

const summary = Schema.decodeUnknownSync(
  Schema.Struct({
    balance_usd: Schema.Finite,
    last_30_days: Schema.Struct({
      since: Schema.String,
      total_cost_usd: Schema.Finite,
      total_usage_events: Schema.Int
    })
  })
)

const spending = async (client: OpenAI) => {
  const { balance_usd, last_30_days } = summary(await client.get("/billing/summary"))
  return { balance: balance_usd, cost: last_30_days.total_cost_usd, events: last_30_days.total_usage_events }
}
