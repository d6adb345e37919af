import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { APICallError, generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai"
import { Schema } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { json, text, toolCalls, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import {
  type Account,
  prepareService,
  type ServiceProcess,
  setUpAccounts,
  anyStore
} from "../fixtures/ServiceProcess.ts"

const place = jsonSchema<{ city: string }>({
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
})
/** A red dot. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
const prompt = "Hi"

describe.each(anyStore)("the Vercel AI SDK, on $store", ({ options }) => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let rich: Account
  let poor: Account
  let busy: Account

  const modelOf = ({ key }: Pick<Account, "key">, name = "fake-model") =>
    createOpenAICompatible({
      name: "gateway",
      baseURL: `${service.baseUrl}/v1`,
      apiKey: key,
      includeUsage: true,
      supportsStructuredOutputs: true
    })(name)

  beforeAll(async () => {
    fake = await startFakeOpenAi({ models: ["gpt-fake"] })
    service = await prepareService({ fake, ...(await options()) })
    ;({ busy, poor, rich } = await setUpAccounts(service, { rich: 100, poor: 0, busy: 100 }))
    await service.start()
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  test("JSON, with usage and cost", async () => {
    fake.next(text("Good morning.", { usage: usage({ prompt: 1_000, cached: 400, completion: 100, reasoning: 20 }) }))
    const result = await generateText({ model: modelOf(rich), prompt })
    expect(result.text).toBe("Good morning.")
    expect(result.finishReason).toBe("stop")
    expect(result.usage).toMatchObject({
      inputTokens: 1_000,
      inputTokenDetails: { noCacheTokens: 600, cacheReadTokens: 400 },
      outputTokens: 100,
      outputTokenDetails: { textTokens: 80, reasoningTokens: 20 },
      raw: { cost: 0.003 }
    })
    expect(result.warnings ?? []).toEqual([])
  })

  test("a stream, with usage and cost", async () => {
    fake.next(text("Zwölf Boxkämpfer 🥊.", { usage: usage({ prompt: 1_000, cached: 400, completion: 100 }) }))
    const result = streamText({ model: modelOf(rich), prompt })
    const pieces: Array<string> = []
    for await (const piece of result.textStream) pieces.push(piece)
    expect(pieces.length).toBeGreaterThan(1)
    expect(pieces.join("")).toBe("Zwölf Boxkämpfer 🥊.")
    expect(await result.finishReason).toBe("stop")
    expect(await result.usage).toMatchObject({ inputTokens: 1_000, outputTokens: 100, raw: { cost: 0.003 } })
  })

  test("reasoning, streamed and not", async () => {
    const answer = text("Forty-two.", { reasoning: { field: "reasoning_content", text: "Six times seven." } })
    fake.next(answer, answer)
    expect((await generateText({ model: modelOf(rich), prompt })).reasoningText).toBe("Six times seven.")
    expect(await streamText({ model: modelOf(rich), prompt }).reasoningText).toBe("Six times seven.")
  })

  describe.each(["generateText", "streamText"])("%s", (way) => {
    test("runs tools and brings their results back", async () => {
      fake.next(
        toolCalls([
          { id: "call_oslo", name: "weather", arguments: { city: "Oslo" } },
          { id: "call_rome", name: "weather", arguments: { city: "Rome" } }
        ]),
        text("Snow in Oslo, sun in Rome.")
      )
      const settings = {
        model: modelOf(rich),
        prompt: "What is the weather?",
        stopWhen: isStepCount(3),
        tools: {
          weather: tool({
            description: "The weather of a city",
            inputSchema: place,
            execute: async ({ city }) => ({ sky: city === "Oslo" ? "snow" : "sun" })
          })
        }
      }
      const answered = way === "generateText" ? (await generateText(settings)).text : await streamText(settings).text
      expect(answered).toBe("Snow in Oslo, sun in Rome.")
      expect(fake.requests).toHaveLength(2)
      expect(fake.requests[0]?.body.tools).toMatchObject([{ type: "function", function: { name: "weather" } }])
      expect(fake.requests[1]?.body.messages).toMatchObject([
        { role: "user", content: "What is the weather?" },
        {
          role: "assistant",
          tool_calls: [
            { id: "call_oslo", type: "function", function: { name: "weather", arguments: `{"city":"Oslo"}` } },
            { id: "call_rome", type: "function", function: { name: "weather", arguments: `{"city":"Rome"}` } }
          ]
        },
        { role: "tool", tool_call_id: "call_oslo", content: `{"sky":"snow"}` },
        { role: "tool", tool_call_id: "call_rome", content: `{"sky":"sun"}` }
      ])
    })

    test("gets JSON under a schema", async () => {
      fake.next(json({ city: "Oslo" }))
      const settings = { model: modelOf(rich), prompt, output: Output.object({ schema: place }) }
      const output = way === "generateText" ? (await generateText(settings)).output : await streamText(settings).output
      expect(output).toEqual({ city: "Oslo" })
      expect(fake.requests[0]?.body.response_format).toMatchObject({
        type: "json_schema",
        json_schema: { schema: { type: "object", required: ["city"] } }
      })
    })
  })

  test("an image, a file and a sound", async () => {
    fake.next(text("A red dot."))
    await generateText({
      model: modelOf(rich),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "file", data: png, mediaType: "image/png" },
            { type: "file", data: "JVBERi0=", mediaType: "application/pdf", filename: "a.pdf" },
            { type: "file", data: "UklGRg==", mediaType: "audio/wav" }
          ]
        }
      ]
    })
    expect(fake.requests[0]?.body.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0=" } },
          { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }
        ]
      }
    ])
  })

  test("leaving in the middle of a stream ends the upstream's within a second", async () => {
    fake.next(Faults.every(50)(text("word ".repeat(400))))
    const leave = new AbortController()
    const { stream } = streamText({ model: modelOf(rich), prompt, abortSignal: leave.signal })
    const parts: Array<string> = []
    let left = Infinity
    for await (const { type } of stream) {
      parts.push(type)
      if (type !== "text-delta" || leave.signal.aborted) continue
      left = Date.now()
      leave.abort()
    }
    expect(parts.at(-1)).toBe("abort")
    const ending = await fake.requests[0]?.ended
    expect(ending?.by).toBe("client")
    expect((ending?.at ?? Infinity) - left).toBeLessThan(1_000)
  })

  describe("errors", () => {
    const ask = (model: ReturnType<typeof modelOf>, temperature = 0) =>
      generateText({ model, prompt, temperature, maxRetries: 0 })

    /** The error of a call, with the same request id in header and body. */
    const errorOf = async (asked: Promise<unknown>) => {
      const error = await asked.then(
        () => expect.fail("no error was raised"),
        (error: unknown) => error
      )
      if (!APICallError.isInstance(error)) throw error
      const body = envelope(error.responseBody).error
      expect(error.responseHeaders?.["x-request-id"]).toBe(body.requestId)
      expect(error.message).toBe(body.message)
      expect(error.data).toMatchObject({ error: { code: body.code } })
      return { status: error.statusCode, code: body.code, retryable: error.isRetryable, body }
    }

    test("400 names the field, and no vendor is asked", async () => {
      const refused = await errorOf(
        generateText({ model: modelOf(rich), prompt, maxRetries: 0, providerOptions: { gateway: { extra: 1 } } })
      )
      expect(refused).toMatchObject({ status: 400, code: "invalid_request", retryable: false })
      expect(refused.body.details).toMatchObject({ issues: [{ path: "extra" }] })
      expect(fake.log).toHaveLength(0)
    })

    test("401", async () => {
      const refused = await errorOf(ask(modelOf({ key: "sk-gw-unknown" })))
      expect(refused).toMatchObject({ status: 401, code: "unauthorized", retryable: false })
    })

    test("402, and no vendor is asked", async () => {
      const refused = await errorOf(ask(modelOf(poor)))
      expect(refused).toMatchObject({ status: 402, code: "insufficient_credits", retryable: false })
      expect(fake.log).toHaveLength(0)
    })

    test("404", async () => {
      const refused = await errorOf(ask(modelOf(rich, "none")))
      expect(refused).toMatchObject({ status: 404, code: "model_not_found", retryable: false })
    })

    test("429 when the account asks too often", async () => {
      const model = modelOf(busy)
      // The limit is 600 a minute; a minute may end while the test counts.
      let served = 0
      const oneMore = () => ask(model).then(() => void served++)
      const untilRefused = async () => {
        while (served < 1_200) await Promise.all(Array.from({ length: 20 }, oneMore))
      }
      const refused = await errorOf(untilRefused())
      expect(refused).toMatchObject({ status: 429, code: "rate_limited", retryable: true })
      expect(served).toBeGreaterThanOrEqual(600)
    }, 60_000)

    test("502 when the vendor keeps failing", async () => {
      fake.respond(Errors.serverError)
      const refused = await errorOf(ask(modelOf(rich)))
      expect(refused).toMatchObject({ status: 502, code: "upstream_error", retryable: true })
    })

    test("a stream refused before it begins carries the same error", async () => {
      const seen: Array<unknown> = []
      const { stream } = streamText({ model: modelOf(poor), prompt, onError: ({ error }) => void seen.push(error) })
      const parts: Array<string> = []
      for await (const { type } of stream) parts.push(type)
      expect(parts).toContain("error")
      expect(await errorOf(Promise.reject(seen[0]))).toMatchObject({ status: 402, code: "insufficient_credits" })
    })

    test("a stream that breaks has an error part after what was said", async () => {
      fake.next(Faults.resetAfter(4)(text("one two three four five")))
      const { stream } = streamText({ model: modelOf(rich), prompt, onError: () => undefined })
      let said = ""
      const errors: Array<unknown> = []
      for await (const part of stream) {
        if (part.type === "text-delta") said += part.text
        if (part.type === "error") errors.push(part.error)
      }
      expect(said).toBe("one two three")
      expect(errors).toMatchObject([{ code: "upstream_error" }])
    })
  })
})

const envelope = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Struct({
      error: Schema.Struct({
        code: Schema.NonEmptyString,
        message: Schema.String,
        requestId: Schema.NonEmptyString,
        retryable: Schema.Boolean,
        details: Schema.optionalKey(Schema.Json)
      })
    })
  ),
  { onExcessProperty: "error" }
)
