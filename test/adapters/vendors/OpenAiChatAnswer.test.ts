import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"
import type { Completion } from "../../../src/domain/completion/Completion.ts"
import type { CompletionEvent, Delta } from "../../../src/domain/completion/CompletionEvent.ts"

const answer = (fields: object = {}, message: object = { content: "Hi" }) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
  ...fields
})

const read = (body: unknown): Completion =>
  Result.getOrThrowWith(openAiChat.read(body), (failure) => new Error(JSON.stringify(failure)))

/** The events of a stream of these chunks, as the vendor sends them. */
const stream = (...chunks: ReadonlyArray<object | string>): ReadonlyArray<CompletionEvent> => {
  const reader = openAiChat.reader()
  const events = chunks.flatMap((chunk) =>
    Result.getOrThrowWith(
      reader.read(typeof chunk === "string" ? chunk : JSON.stringify(chunk)),
      (failure) => new Error(JSON.stringify(failure))
    )
  )
  return reader.isComplete() ? [...events, ...reader.finish()] : expect.fail("the stream is not complete")
}

const delta = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }]
})

const deltas = (events: ReadonlyArray<CompletionEvent>): ReadonlyArray<Delta> =>
  events.filter((event) => event._tag === "Delta")

describe("the usage that a vendor reports", () => {
  const usageOf = (usage: unknown) => read(answer({ usage })).usage

  test.each([
    [
      "with cached and reasoning tokens inside",
      {
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
        completion_tokens_details: { reasoning_tokens: 40 }
      },
      { input: 50, cacheRead: 30, cacheWrite: 20, output: 10, reasoning: 40 }
    ],
    [
      "with reasoning outside of the output, as the total shows",
      {
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 190,
        completion_tokens_details: { reasoning_tokens: 40 }
      },
      { input: 100, cacheRead: 0, cacheWrite: 0, output: 50, reasoning: 40 }
    ],
    [
      "without details",
      { prompt_tokens: 7, completion_tokens: 0 },
      { input: 7, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 }
    ],
    [
      "of nothing, which is believed",
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 }
    ],
    [
      "with details that are null",
      { prompt_tokens: 7, completion_tokens: 1, prompt_tokens_details: null, completion_tokens_details: null },
      { input: 7, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 }
    ],
    [
      "with more cached than there was",
      { prompt_tokens: 7, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 9 } },
      { input: 0, cacheRead: 7, cacheWrite: 0, output: 1, reasoning: 0 }
    ],
    [
      "with more reasoning than there was",
      { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, completion_tokens_details: { reasoning_tokens: 9 } },
      { input: 7, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 3 }
    ]
  ])("is told apart by price: %s", (_, usage, buckets) => {
    expect(usageOf(usage)).toEqual(buckets)
    expect(stream(delta({ content: "Hi" }, "stop"), { choices: [], usage }).at(-1)).toEqual({
      _tag: "Usage",
      usage: buckets
    })
  })

  test.each([
    ["none", undefined],
    ["null", null],
    ["negative", { prompt_tokens: -5, completion_tokens: 3 }],
    ["fractions", { prompt_tokens: 1.5, completion_tokens: 3 }],
    ["text", { prompt_tokens: "12", completion_tokens: "3" }],
    ["astronomic", { prompt_tokens: 1e15, completion_tokens: 3 }],
    ["half", { prompt_tokens: 12 }],
    ["no object", "12 tokens"],
    ["a list", [12, 3]],
    ["odd details", { prompt_tokens: 12, completion_tokens: 3, prompt_tokens_details: "cached" }]
  ])("counts for nothing when it cannot be, but the answer does: %s", (_, usage) => {
    expect(read(answer({ usage }))).toEqual({
      choices: [{ index: 0, finishReason: "stop", content: "Hi" }]
    })
    const events = stream(delta({ content: "Hi" }, "stop"), { choices: [], usage })
    expect(events).toEqual([{ _tag: "Delta", index: 0, content: "Hi", finishReason: "stop" }])
  })

  test("is never negative, and keeps the vendor's totals", () => {
    const count = fc.oneof(fc.nat(1_000), fc.constant(0))
    fc.assert(
      fc.property(count, count, count, count, count, (prompt, completion, cached, written, reasoning) => {
        const usage = usageOf({
          prompt_tokens: prompt,
          completion_tokens: completion,
          total_tokens: prompt + completion,
          prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
          completion_tokens_details: { reasoning_tokens: reasoning }
        })
        const { cacheRead, cacheWrite, input, output, reasoning: thought } = usage ?? expect.fail("no usage")
        expect(Math.min(cacheRead, cacheWrite, input, output, thought)).toBeGreaterThanOrEqual(0)
        expect(input + cacheRead + cacheWrite).toBe(prompt)
        expect(output + thought).toBe(completion)
      })
    )
  })
})

describe("a whole answer", () => {
  test.each([
    ["stop", "stop"],
    ["length", "length"],
    ["max_tokens", "length"],
    ["model_length", "length"],
    ["content_filter", "content_filter"],
    ["tool_calls", "tool_calls"],
    ["function_call", "tool_calls"],
    ["eos", "stop"],
    ["", "stop"],
    [null, "stop"]
  ])("that ended for the reason %s ended for the contract's %s", (finish_reason, expected) => {
    const body = { choices: [{ index: 0, message: { content: "Hi" }, finish_reason }] }
    expect(read(body).choices[0]?.finishReason).toBe(expected)
  })

  test("has the reasoning under either name, the refusal and the calls", () => {
    const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } }
    const message = { content: null, refusal: "No.", tool_calls: [{ index: 0, ...call }] }
    for (const name of ["reasoning", "reasoning_content"]) {
      expect(read(answer({}, { ...message, [name]: "Hm." })).choices).toEqual([
        { index: 0, finishReason: "tool_calls", content: null, reasoning: "Hm.", refusal: "No.", toolCalls: [call] }
      ])
    }
  })

  test("in parts is one text and one thought (Mistral)", () => {
    const content = [
      {
        type: "thinking",
        thinking: [
          { type: "text", text: "Hm." },
          { type: "text", text: " Yes." }
        ],
        closed: true
      },
      { type: "text", text: "Hello" },
      { type: "text", text: " there." }
    ]
    expect(read(answer({}, { content })).choices[0]).toMatchObject({ content: "Hello there.", reasoning: "Hm. Yes." })
    const events = deltas(
      stream(delta({ content: content.slice(0, 1) }), delta({ content: content.slice(1) }), delta({}, "stop"))
    )
    expect(events).toEqual([
      { _tag: "Delta", index: 0, reasoning: "Hm. Yes." },
      { _tag: "Delta", index: 0, content: "Hello there." },
      { _tag: "Delta", index: 0, finishReason: "stop" }
    ])
  })

  test.each([
    ["OpenAI's object", { error: { message: "Too long.", code: null } }, "Too long."],
    [
      "a list of one (Google)",
      [{ error: { code: 400, message: "Too long.", status: "INVALID_ARGUMENT" } }],
      "Too long."
    ],
    ["a message alone", { object: "error", message: "Too long.", type: "invalid_request_error" }, "Too long."],
    [
      "places (Mistral)",
      {
        detail: [{ type: "extra_forbidden", loc: ["body", "messages", 0, "x"], msg: "Extra inputs are not permitted" }]
      },
      "body.messages.0.x: Extra inputs are not permitted"
    ],
    [
      "places in a message (Mistral)",
      { object: "error", message: { detail: [{ loc: ["body", "user"], msg: "Extra inputs are not permitted" }] } },
      "body.user: Extra inputs are not permitted"
    ],
    ["nothing known", { status: "bad" }, undefined],
    ["an empty list", [], undefined],
    ["no JSON", undefined, undefined]
  ])("that is a refusal has the vendor's words: %s", (_, body, words) => {
    expect(openAiChat.errorText(body)).toBe(words)
  })

  test.each([
    ["priority", { serviceTier: "priority" }],
    ["fast", { serviceTier: "priority" }],
    ["default", { serviceTier: "default" }],
    ["flex", {}],
    [null, {}]
  ])("served in the tier %s", (service_tier, expected) => {
    const { choices: _, ...rest } = read(answer({ service_tier }))
    expect(rest).toEqual(expected)
  })

  test.each([
    ["no object", "Hi"],
    ["no choices", { choices: [] }],
    ["a choice without message", { choices: [{ index: 0 }] }],
    ["a call without name", answer({}, { tool_calls: [{ id: "a", type: "function", function: { arguments: "" } }] })]
  ])("that is malformed is a failure: %s", (_, body) => {
    expect(Result.isFailure(openAiChat.read(body))).toBe(true)
  })

  test("in which the vendor put an error is a failure with its words", () => {
    for (const body of [
      { error: { message: "Overloaded", code: 503 } },
      answer({ error: { message: "Overloaded" } })
    ]) {
      expect(openAiChat.read(body)).toMatchObject({ failure: { _tag: "UpstreamSaid", detail: "Overloaded" } })
    }
    expect(read(answer({ error: null })).choices).toHaveLength(1)
  })

  test("never has a negative index", () => {
    const body = { choices: [{ index: -1, message: { content: "Hi" }, finish_reason: "stop" }] }
    expect(read(body).choices[0]?.index).toBe(0)
  })
})

describe("a streamed answer", () => {
  test("gives the pieces of text, reasoning and refusal in order, and the end", () => {
    const piece = fc.oneof(
      fc.string({ unit: "binary" }).map((content) => ({ content })),
      fc.string().map((reasoning) => ({ reasoning })),
      fc.string().map((reasoning_content) => ({ reasoning_content })),
      fc.string().map((refusal) => ({ refusal })),
      fc.constantFrom({}, { role: "assistant" }, { content: null }, { role: "assistant", content: "", refusal: null })
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 10 }), (pieces) => {
        const events = deltas(stream(...pieces.map((one) => delta(one)), delta({}, "stop"), "[DONE]"))
        const said = (read: (piece: Record<string, string | null>) => string | null | undefined) =>
          pieces.map((one: Record<string, string | null>) => read(one) ?? "").join("")
        expect(events.map(({ content }) => content ?? "").join("")).toBe(said(({ content }) => content))
        expect(events.map(({ refusal }) => refusal ?? "").join("")).toBe(said(({ refusal }) => refusal))
        expect(events.map(({ reasoning }) => reasoning ?? "").join("")).toBe(
          said(({ reasoning, reasoning_content }) => reasoning ?? reasoning_content)
        )
        expect(events.filter(({ finishReason }) => finishReason !== undefined)).toHaveLength(1)
      })
    )
  })

  test("names each call on its first piece only, however often the vendor does", () => {
    const call = (index: number, text: string, head: object = {}) =>
      delta({ tool_calls: [{ index, ...head, function: { arguments: text, ...head } }] })
    const events = deltas(
      stream(
        call(0, "", { id: "a", name: "one" }),
        call(0, `{"x"`, { id: "a", name: "one" }),
        call(1, "{", { id: "b", name: "two" }),
        call(0, ":1}", { id: null, name: null }),
        call(1, "}"),
        delta({}, "tool_calls")
      )
    )
    expect(events.flatMap(({ toolCalls }) => toolCalls ?? [])).toEqual([
      { index: 0, id: "a", name: "one", arguments: "" },
      { index: 0, arguments: `{"x"` },
      { index: 1, id: "b", name: "two", arguments: "{" },
      { index: 0, arguments: ":1}" },
      { index: 1, arguments: "}" }
    ])
  })

  test("tells calls apart that have one index or none (Google), and keeps a call whose pieces have ids of their own", () => {
    const whole = (id: string, head: object = {}) =>
      delta({ tool_calls: [{ ...head, id, type: "function", function: { name: "f", arguments: `{"id":"${id}"}` } }] })
    for (const head of [{}, { index: 0 }]) {
      const events = deltas(stream(whole("a", head), whole("b", head), delta({}, "stop")))
      expect(events.flatMap(({ toolCalls }) => toolCalls ?? [])).toEqual([
        { index: 0, id: "a", name: "f", arguments: `{"id":"a"}` },
        { index: 1, id: "b", name: "f", arguments: `{"id":"b"}` }
      ])
      expect(events.at(-1)?.finishReason).toBe("tool_calls")
    }
    const pieces = stream(
      delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: "{" } }] }),
      delta({ tool_calls: [{ index: 0, id: "z", function: { name: null, arguments: "}" } }] }),
      delta({}, "tool_calls")
    )
    expect(deltas(pieces).flatMap(({ toolCalls }) => toolCalls ?? [])).toEqual([
      { index: 0, id: "a", name: "f", arguments: "{" },
      { index: 0, arguments: "}" }
    ])
  })

  test("ends once, when the vendor repeats the reason, and though it never tells one", () => {
    const ends = (...chunks: ReadonlyArray<object | string>) =>
      deltas(stream(...chunks)).flatMap(({ finishReason }) => finishReason ?? [])
    expect(ends(delta({ content: "Hi" }, "length"), delta({ content: "" }, "length"), "[DONE]")).toEqual(["length"])
    expect(ends(delta({ content: "Hi" }), "[DONE]")).toEqual(["stop"])
    expect(
      ends(delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: "{}" } }] }), "[DONE]")
    ).toEqual(["tool_calls"])
  })

  test("is not complete before the vendor says so", () => {
    const reader = openAiChat.reader()
    reader.read(JSON.stringify(delta({ content: "Hi" })))
    expect(reader.isComplete()).toBe(false)
    reader.read(JSON.stringify(delta({}, "stop")))
    expect(reader.isComplete()).toBe(true)
    expect(reader.isDone()).toBe(false)
    reader.read("[DONE]")
    expect(reader.isDone()).toBe(true)
  })

  test.each([
    ["no JSON", "{", "Malformed"],
    ["no object", "[1]", "Malformed"],
    ["choices of another type", `{"choices":{}}`, "Malformed"],
    ["text of another type", JSON.stringify(delta({ content: 7 })), "Malformed"],
    ["an error", `{"error":{"message":"Overloaded"}}`, "UpstreamSaid"],
    ["an error without message", `{"error":"overloaded"}`, "UpstreamSaid"]
  ])("fails at a frame that is %s", (_, data, tag) => {
    expect(openAiChat.reader().read(data)).toMatchObject({ failure: { _tag: tag } })
  })

  test.each([`{}`, `{"choices":[]}`, `{"choices":[],"prompt_filter_results":[]}`, `{"choices":null,"usage":null}`])(
    "passes over %s",
    (data) => {
      expect(openAiChat.reader().read(data)).toMatchObject({ success: [] })
    }
  )
})
