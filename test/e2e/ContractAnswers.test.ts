import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest"
import * as Contract from "../adapters/http/ContractSchemas.ts"
import { brokenStreamOf, chunksOf, errorOf, finishOf, messageOf, replyOf } from "../adapters/http/Replies.ts"
import { completion, type Completion, frame, text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type Answer, plain } from "../fixtures/openai/Reply.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"

const model = "fake-model"
const messages = [{ role: "user", content: "Hi" }]

/** The prices of the model, USD per token. */
const price = { input: 2.5e-6, cached: 1.25e-6, output: 10e-6 }

const calls = [
  { id: "call_1", name: "weather", arguments: { city: "Oslo" } },
  { id: "call_2", name: "weather", arguments: { city: "Tromsø 🥶" } }
]
const calledTools = calls.map(({ id, name, arguments: given }) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(given) }
}))

/** What a vendor may say, and what of it reaches the client: the same in one answer and in pieces. */
const forms: ReadonlyArray<{
  readonly form: string
  readonly said: Completion
  readonly message: object
  readonly finish?: string
  readonly tier?: string | undefined
}> = [
  { form: "text", said: { text: "Good morning." }, message: { content: "Good morning." } },
  {
    form: "text in other scripts",
    said: { text: "Zwölf Boxkämpfer 🥊 \u2028 <|endoftext|> \0" },
    message: { content: "Zwölf Boxkämpfer 🥊 \u2028 <|endoftext|> \0" }
  },
  { form: "no text", said: { text: "" }, message: { content: "" } },
  {
    form: "parallel tool calls",
    said: { toolCalls: calls },
    message: { tool_calls: calledTools },
    finish: "tool_calls"
  },
  {
    form: "a tool call without arguments",
    said: { toolCalls: [{ id: "call_1", name: "now", arguments: "" }] },
    message: { tool_calls: [{ id: "call_1", type: "function", function: { name: "now", arguments: "" } }] },
    finish: "tool_calls"
  },
  {
    form: "text and a tool call",
    said: { text: "Let me look.", toolCalls: calls.slice(0, 1) },
    message: { content: "Let me look.", tool_calls: calledTools.slice(0, 1) },
    finish: "tool_calls"
  },
  { form: "a refusal", said: { refusal: "I cannot do that." }, message: { refusal: "I cannot do that." } },
  ...(["reasoning", "reasoning_content"] as const).map((field) => ({
    form: `reasoning in the field ${field}`,
    said: { text: "42", reasoning: { field, text: "Six times seven." } },
    message: { content: "42", reasoning: "Six times seven.", reasoning_content: "Six times seven." }
  })),
  {
    form: "text that was cut",
    said: { text: "One", finishReason: "length" },
    message: { content: "One" },
    finish: "length"
  },
  {
    form: "text that was filtered",
    said: { text: "One", finishReason: "content_filter" },
    message: { content: "One" },
    finish: "content_filter"
  },
  ...(["default", "priority", "flex"] as const).map((serviceTier) => ({
    form: `text in the tier ${serviceTier}`,
    said: { text: "Hi", serviceTier },
    message: { content: "Hi" },
    tier: serviceTier === "flex" ? undefined : serviceTier
  }))
]

describe("answers of chat completions", () => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let key: string

  beforeAll(async () => {
    fake = await startFakeOpenAi({ strict: false })
    service = await prepareService({ fake, env: { RATE_LIMIT_CHAT: "100000" } })
    await service.start()
    key = service.printedKey()
  })
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })
  beforeEach(() => fake.clear())

  const ask = async (fields: object = {}) =>
    replyOf(
      await fetch(`${service.baseUrl}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ model, messages, ...fields })
      })
    )

  const whole = async (answer: Answer, fields: object = {}) => {
    fake.next(answer)
    const reply = await ask(fields)
    expect({ status: reply.status, type: reply.headers.get("content-type") }).toEqual({
      status: 200,
      type: "application/json"
    })
    return Contract.chatCompletion(JSON.parse(reply.text))
  }

  const streamed = async (
    answer: Answer,
    { includeUsage = false, ...fields }: { readonly includeUsage?: boolean; readonly include_reasoning?: boolean } = {}
  ) => {
    fake.next(answer)
    const reply = await ask({
      ...fields,
      stream: true,
      ...(includeUsage ? { stream_options: { include_usage: true } } : {})
    })
    return chunksOf(reply, { includeUsage, model })
  }

  test("the list of models is as section 2.1 has it", async () => {
    const reply = await replyOf(
      await fetch(`${service.baseUrl}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
    )
    const { data } = Contract.modelList(JSON.parse(reply.text))
    expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(["echo", model]))
  })

  describe.each(forms)("$form", ({ finish = "stop", message, said, ...rest }) => {
    const tier = "tier" in rest ? rest.tier : "default"

    test("in one answer", async () => {
      const { choices, created, model: named, service_tier } = await whole(completion(said))
      expect(choices).toEqual([
        { index: 0, finish_reason: finish, message: { role: "assistant", content: null, ...message } }
      ])
      expect(named).toBe(model)
      expect(service_tier).toBe(tier)
      expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(60)
    })

    test.each([false, true])("as a stream (usage: %s)", async (includeUsage) => {
      const chunks = await streamed(completion(said), { includeUsage })
      expect({ content: "", ...messageOf(chunks) }).toEqual({ content: "", ...message })
      expect(finishOf(chunks)).toEqual([finish])
      expect(
        new Set(chunks.flatMap(({ choices, service_tier }) => (choices.length > 0 ? [service_tier] : [])))
      ).toEqual(new Set([tier]))
    })
  })

  describe("reasoning that the caller does not want", () => {
    const said = { text: "42", reasoning: { field: "reasoning", text: "Six times seven." } } as const

    test("is left out of an answer", async () => {
      const { choices } = await whole(completion(said), { include_reasoning: false })
      expect(choices[0].message).toEqual({ role: "assistant", content: "42" })
    })

    test("is left out of a stream", async () => {
      const chunks = await streamed(completion(said), { include_reasoning: false })
      expect(messageOf(chunks)).toEqual({ content: "42" })
    })
  })

  describe("usage", () => {
    const reported = usage({ prompt: 1_000, cached: 400, cacheWrite: 100, completion: 100, reasoning: 40 })
    const cost = 500 * price.input + 400 * price.cached + 100 * price.input + 100 * price.output
    const told = {
      prompt_tokens: 1_000,
      completion_tokens: 100,
      total_tokens: 1_100,
      cost: expect.closeTo(cost, 9),
      prompt_tokens_details: { cached_tokens: 400, cache_write_tokens: 100 },
      completion_tokens_details: { reasoning_tokens: 40 }
    }

    test("is the vendor's, with its cost, in an answer", async () => {
      expect((await whole(text("Hi", { usage: reported }))).usage).toEqual(told)
    })

    test.each([false, true])(
      "is the vendor's, with its cost, in a stream (beside the end: %s)",
      async (usageWithFinish) => {
        const chunks = await streamed(text("Hi", { usage: reported, usageWithFinish }), { includeUsage: true })
        expect(chunks.at(-1)?.usage).toEqual(told)
      }
    )

    test("is counted here when the vendor reports none", async () => {
      const answer = "The quick brown fox jumps over the lazy dog."
      const counted = (await whole(text(answer, { usage: null }))).usage
      expect(counted).toMatchObject({ completion_tokens: 10, prompt_tokens: expect.any(Number) })
      expect(counted.prompt_tokens).toBeGreaterThan(0)
      expect(counted.cost).toBeCloseTo(counted.prompt_tokens * price.input + 10 * price.output, 9)
      const chunks = await streamed(text(answer, { usage: null }), { includeUsage: true })
      expect(chunks.at(-1)?.usage).toEqual(counted)
    })

    test("is counted here when the vendor's cannot be", async () => {
      const nonsense = [
        usage({ prompt: -10, completion: 5 }),
        usage({ prompt: 10, completion: 0.5 }),
        usage({ prompt: 1e13, completion: 5 })
      ]
      const counted = (await whole(text("Hello there", { usage: null }))).usage
      for (const wrong of nonsense) {
        expect((await whole(text("Hello there", { usage: wrong }))).usage).toEqual(counted)
        const chunks = await streamed(text("Hello there", { usage: wrong }), { includeUsage: true })
        expect(chunks.at(-1)?.usage).toEqual(counted)
      }
    })

    test("of nothing is believed", async () => {
      const zero = text("Hi", { usage: usage({ prompt: 0, completion: 0 }) })
      const told = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, cost: 0 }
      expect((await whole(zero)).usage).toMatchObject(told)
      expect((await streamed(zero, { includeUsage: true })).at(-1)?.usage).toMatchObject(told)
    })

    test("of no answer is what the input costs", async () => {
      const { usage: told } = await whole(text("", { usage: usage({ prompt: 1_000, completion: 0 }) }))
      expect(told).toMatchObject({ prompt_tokens: 1_000, completion_tokens: 0, cost: 1_000 * price.input })
    })
  })

  describe("streams in the forms that vendors write them", () => {
    const said = text("Zwölf Boxkämpfer 🥊 jagen Viktor.")

    test.each([
      ["in tiny packets", Faults.packets(3)],
      ["in one packet", Faults.atOnce],
      ["with carriage returns", Faults.carriageReturns],
      ["with comments", Faults.comments],
      ["in several data lines", Faults.severalDataLines],
      ["without the last line break", Faults.withoutLastLineBreak],
      ["without its end", Faults.truncateAfter(8)]
    ])("%s come out in one form", async (_, form) => {
      const chunks = await streamed(form(said), { includeUsage: true })
      expect(messageOf(chunks)).toEqual({ content: "Zwölf Boxkämpfer 🥊 jagen Viktor." })
      expect(finishOf(chunks)).toEqual(["stop"])
    })

    test("end once, though the vendor says so twice", async () => {
      const end = frame({ choices: [{ index: 0, delta: { content: "" }, finish_reason: "length" }] })
      const chunks = await streamed(Faults.insertAt(5, end)(text("one two", { finishReason: "length" })))
      expect(finishOf(chunks)).toEqual(["length"])
    })
  })

  describe("failures", () => {
    // Five in a row would open the upstream's circuit breaker.
    afterEach(async () => {
      fake.clear()
      fake.next(text("Well again."))
      expect((await ask()).status).toBe(200)
    })

    const before: ReadonlyArray<readonly [string, Answer]> = [
      ["an error", Errors.serverError],
      ["a refused key", Errors.wrongKey("sk-operator-0123456789")],
      ["a page of HTML", plain(200, "<html>Welcome</html>", { "content-type": "text/html" })],
      ["nothing", plain(200, "")],
      ["an error in place of an answer", plain(200, JSON.stringify({ error: { message: "Overloaded" } }))],
      ["an error in place of a chunk", plain(200, frame({ error: { message: "Overloaded" } }))],
      ["half an answer", Faults.cutAfter(0)(text("Hi"))],
      ["a redirect", plain(302, "", { location: "http://127.0.0.1:1/" })],
      ["no content", plain(204, "")]
    ]

    describe.each([false, true])("before anything was said (stream: %s)", (stream) => {
      test.each(before)("are an envelope: %s", async (_, answer) => {
        fake.respond(answer)
        const { message } = errorOf(await ask({ stream }), "upstream_error")
        expect(message).not.toMatch(/sk-|Overloaded|html/)
      })

      test("of the request itself are an envelope with the vendor's words, and not retryable", async () => {
        fake.next(Errors.contextLengthExceeded)
        const reply = await ask({ stream })
        const error = errorOf(reply, "upstream_error")
        expect(reply.status).toBe(502)
        expect(error.retryable).toBe(false)
        expect(error.message).toContain("maximum context length")
      })
    })

    const error = frame({ error: { message: "secret words", type: "server_error" } })

    describe.each([false, true])("after something was said (usage: %s)", (includeUsage) => {
      test.each([
        ["a reset", Faults.resetAfter(4)],
        ["a connection that closes", Faults.cutAfter(4)],
        ["an end before the end", Faults.truncateAfter(4)],
        ["an error", Faults.insertAt(4, error)],
        ["no JSON", Faults.insertAt(4, "data: {oops\n\n")],
        ["no chunk", Faults.insertAt(4, frame({ choices: "none" }))],
        ["a line without end", Faults.endlessLineAfter(4)]
      ])("are the last chunk: %s", async (_, fault) => {
        fake.next(fault(text("one two three four")))
        const reply = await ask({ stream: true, ...(includeUsage ? { stream_options: { include_usage: true } } : {}) })
        const { chunks, error } = brokenStreamOf(reply, includeUsage)
        expect(messageOf(chunks)).toEqual({ content: "one two three" })
        expect(error).toMatchObject({ code: "upstream_error", retryable: true })
        expect(error.message).not.toContain("secret words")
      })
    })
  })

  test("echo answers in the same forms without a vendor", async () => {
    const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }]
    for (const fields of [
      {},
      { tools, tool_choice: "required" },
      { max_tokens: 1, messages: [{ role: "user", content: "a b c" }] }
    ]) {
      const reply = await ask({ model: "echo", ...fields })
      const { choices } = Contract.chatCompletion(JSON.parse(reply.text))
      const stream = await ask({ model: "echo", stream: true, stream_options: { include_usage: true }, ...fields })
      const chunks = chunksOf(stream, { includeUsage: true, model: "echo" })
      const { content, role: _, ...rest } = choices[0].message
      expect({ content: "", ...messageOf(chunks) }).toEqual({ content: content ?? "", ...rest })
      expect(finishOf(chunks)).toEqual([choices[0].finish_reason])
    }
    expect(fake.log).toHaveLength(0)
  })
})
