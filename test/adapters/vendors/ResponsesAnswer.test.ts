import { Option, Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { openAiResponses, subscriptionResponses } from "../../../src/adapters/vendors/protocols/OpenAiResponses.ts"
import type { Completion } from "../../../src/domain/completion/Completion.ts"
import type { CompletionEvent } from "../../../src/domain/completion/CompletionEvent.ts"
import { detach, payloadOf } from "../../../src/domain/completion/Continuation.ts"
import { Folded } from "../../../src/domain/completion/Folded.ts"

const message = (...texts: ReadonlyArray<string>) => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: texts.map((text) => ({ type: "output_text", text, annotations: [] }))
})

const refusal = (refusal: string) => ({ ...message(), content: [{ type: "refusal", refusal }] })

const reasoning = (id: string, ...summary: ReadonlyArray<string>) => ({
  type: "reasoning",
  id,
  summary: summary.map((text) => ({ type: "summary_text", text })),
  encrypted_content: `sealed ${id}`
})

const call = (call_id: string, args = "{}") => ({
  type: "function_call",
  id: `fc_${call_id}`,
  call_id,
  name: "look",
  arguments: args,
  status: "completed"
})

type Item =
  | ReturnType<typeof message>
  | ReturnType<typeof refusal>
  | ReturnType<typeof reasoning>
  | ReturnType<typeof call>

const response = (output: ReadonlyArray<unknown>, fields: object = {}) => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  error: null,
  incomplete_details: null,
  output,
  ...fields
})

const read = (body: unknown): Completion =>
  Result.getOrThrowWith(openAiResponses.read(body), (failure) => new Error(JSON.stringify(failure)))

/** The events of an answer's items as the vendor streams them, every text in pieces of this length. */
const eventsOf = (output: ReadonlyArray<Item>, length = 3): ReadonlyArray<object> => [
  { type: "response.created", response: response([], { status: "in_progress" }) },
  { type: "response.in_progress", response: response([], { status: "in_progress" }) },
  ...output.flatMap((item, output_index) => {
    const pieces = (type: string, text: string, fields: object = {}) =>
      (text.match(new RegExp(`[^]{1,${length}}`, "gu")) ?? [""]).map((delta) => ({
        type,
        output_index,
        delta,
        ...fields
      }))
    const around = (begun: object, ...events: ReadonlyArray<object>) => [
      { type: "response.output_item.added", output_index, item: begun },
      ...events,
      { type: "response.output_item.done", output_index, item }
    ]
    if ("call_id" in item) {
      return around(
        { ...item, arguments: "", status: "in_progress" },
        ...pieces("response.function_call_arguments.delta", item.arguments),
        { type: "response.function_call_arguments.done", output_index, arguments: item.arguments }
      )
    }
    if ("summary" in item) {
      return around(
        { ...item, summary: [], encrypted_content: "not all of it yet" },
        ...item.summary.flatMap(({ text }, summary_index) => [
          { type: "response.reasoning_summary_part.added", output_index, summary_index },
          ...pieces("response.reasoning_summary_text.delta", text, { summary_index }),
          { type: "response.reasoning_summary_text.done", output_index, summary_index, text }
        ])
      )
    }
    return around(
      { ...item, content: [] },
      ...item.content.flatMap((part, content_index) =>
        "text" in part
          ? pieces("response.output_text.delta", part.text, { content_index })
          : pieces("response.refusal.delta", part.refusal, { content_index })
      )
    )
  })
]

const ended = (fields: object = {}, type = "response.completed") => ({ type, response: response([], fields) })

/** What a stream of these events tells, once the vendor said that it is complete. */
const stream = (...events: ReadonlyArray<object | string>): ReadonlyArray<CompletionEvent> => {
  const reader = openAiResponses.reader()
  const told = events.flatMap((event) =>
    Result.getOrThrowWith(
      reader.read(typeof event === "string" ? event : JSON.stringify(event)),
      (failure) => new Error(JSON.stringify(failure))
    )
  )
  return reader.isComplete() ? [...told, ...reader.finish()] : expect.fail("the stream is not complete")
}

const fold = (events: ReadonlyArray<CompletionEvent>): Completion => {
  const folded = new Folded()
  for (const event of events) folded.add(event)
  return folded.completion
}

const failure = (result: Result.Result<unknown, unknown>): unknown =>
  Result.isFailure(result) ? result.failure : expect.fail("it did not fail")

describe("the usage that the vendor reports", () => {
  const usageOf = (usage: unknown) => read(response([message("Hi")], { usage })).usage

  test.each([
    [
      "with cached, written and reasoning tokens inside",
      {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 30, cache_write_tokens: 20 },
        output_tokens: 50,
        output_tokens_details: { reasoning_tokens: 40 },
        total_tokens: 150
      },
      { input: 50, cacheRead: 30, cacheWrite: 20, output: 10, reasoning: 40 }
    ],
    [
      "without details",
      { input_tokens: 7, output_tokens: 0 },
      { input: 7, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 }
    ],
    [
      "of nothing, which is believed",
      { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
      { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 }
    ],
    [
      "with details that are null",
      { input_tokens: 7, output_tokens: 1, input_tokens_details: null, output_tokens_details: null },
      { input: 7, cacheRead: 0, cacheWrite: 0, output: 1, reasoning: 0 }
    ],
    [
      "with more in the details than there was",
      {
        input_tokens: 7,
        output_tokens: 3,
        input_tokens_details: { cached_tokens: 5, cache_write_tokens: 9 },
        output_tokens_details: { reasoning_tokens: 9 }
      },
      { input: 0, cacheRead: 5, cacheWrite: 2, output: 0, reasoning: 3 }
    ]
  ])("is told apart by price: %s", (_, usage, buckets) => {
    expect(usageOf(usage)).toEqual(buckets)
    expect(stream(...eventsOf([message("Hi")]), ended({ usage })).at(-1)).toEqual({ _tag: "Usage", usage: buckets })
  })

  test.each([
    ["none", undefined],
    ["null", null],
    ["negative", { input_tokens: -5, output_tokens: 3 }],
    ["fractions", { input_tokens: 1.5, output_tokens: 3 }],
    ["text", { input_tokens: "12", output_tokens: "3" }],
    ["astronomic", { input_tokens: 1e15, output_tokens: 3 }],
    ["half", { input_tokens: 12 }],
    ["no object", "12 tokens"],
    ["a list", [12, 3]],
    ["odd details", { input_tokens: 12, output_tokens: 3, input_tokens_details: "cached" }]
  ])("counts for nothing when it cannot be, but the answer does: %s", (_, usage) => {
    const completion = { choices: [{ index: 0, finishReason: "stop", content: "Hi" }] }
    expect(read(response([message("Hi")], { usage }))).toEqual(completion)
    expect(fold(stream(...eventsOf([message("Hi")]), ended({ usage })))).toEqual(completion)
  })

  test("is never negative, and keeps the vendor's totals", () => {
    const count = fc.oneof(fc.nat(1_000), fc.constant(0))
    fc.assert(
      fc.property(count, count, count, count, count, (input_tokens, output_tokens, cached, written, thought) => {
        const usage = usageOf({
          input_tokens,
          input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
          output_tokens,
          output_tokens_details: { reasoning_tokens: thought },
          total_tokens: input_tokens + output_tokens
        })
        const { cacheRead, cacheWrite, input, output, reasoning } = usage ?? expect.fail("no usage")
        expect(Math.min(cacheRead, cacheWrite, input, output, reasoning)).toBeGreaterThanOrEqual(0)
        expect(input + cacheRead + cacheWrite).toBe(input_tokens)
        expect(output + reasoning).toBe(output_tokens)
        expect(cacheRead).toBe(Math.min(cached, input_tokens))
        expect(reasoning).toBe(Math.min(thought, output_tokens))
      })
    )
  })
})

describe("an answer, whole and streamed", () => {
  /** The same whole, in pieces, and with nothing but its finished items. */
  const everyWay = (output: ReadonlyArray<Item>, fields: object = {}, type = "response.completed") => [
    read(response(output, fields)),
    fold(stream(...eventsOf(output), ended(fields, type))),
    fold(stream(...eventsOf(output, 1), ended(fields, type))),
    fold(
      stream(
        ...output.map((item, output_index) => ({ type: "response.output_item.done", output_index, item })),
        ended(fields, type)
      )
    )
  ]

  test.each<[string, ReadonlyArray<Item>, object]>([
    ["text", [message("Hi")], { content: "Hi" }],
    ["text of several parts", [message("Good ", "morning")], { content: "Good morning" }],
    ["an empty text", [message("")], { content: "" }],
    ["nothing", [], { content: null }],
    ["several messages", [message("I look."), message("Done.")], { content: "I look.\n\nDone." }],
    ["a refusal", [refusal("No.")], { content: null, refusal: "No." }],
    [
      "reasoning",
      [reasoning("rs_1", "First.", "Then."), message("Hi")],
      { reasoning: "First.\n\nThen.", content: "Hi" }
    ],
    [
      "reasoning twice",
      [reasoning("rs_1", "First."), message("Hm"), reasoning("rs_2", "Then."), message("Hi")],
      { reasoning: "First.\n\nThen.", content: "Hm\n\nHi" }
    ],
    ["reasoning that is not shown", [reasoning("rs_1"), message("Hi")], { content: "Hi" }],
    [
      "calls",
      [message("I look."), call("a", `{"city":"Oslo"}`), call("b", "")],
      {
        content: "I look.",
        finishReason: "tool_calls",
        toolCalls: [
          { id: "a", type: "function", function: { name: "look", arguments: `{"city":"Oslo"}` } },
          { id: "b", type: "function", function: { name: "look", arguments: "" } }
        ]
      }
    ]
  ])("has its %s", (_, output, expected) => {
    for (const completion of everyWay(output)) {
      expect(completion).toEqual({ choices: [{ index: 0, finishReason: "stop", ...expected }] })
    }
  })

  test("is the same in pieces of any length", () => {
    const item = fc.oneof(
      fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }).map((texts) => message(...texts)),
      fc.string({ minLength: 1 }).map(refusal),
      fc.array(fc.string({ minLength: 1 }), { maxLength: 3 }).map((texts) => reasoning("rs_1", ...texts)),
      fc.json().map((args) => call("call_1", args))
    )
    fc.assert(
      fc.property(fc.array(item, { maxLength: 5 }), fc.integer({ min: 1, max: 9 }), (output, length) => {
        expect(fold(stream(...eventsOf(output, length), ended()))).toEqual(read(response(output)))
      })
    )
  })

  test.each([
    ["completed", null, "stop"],
    ["incomplete", "max_output_tokens", "length"],
    ["incomplete", "content_filter", "content_filter"],
    ["incomplete", "something_new", "length"],
    ["incomplete", null, "length"]
  ])("that is %s for the reason %s ended for the contract's %s", (status, reason, finishReason) => {
    const fields = { status, incomplete_details: reason === null ? null : { reason } }
    for (const completion of everyWay([message("Hi")], fields, `response.${status}`)) {
      expect(completion.choices).toEqual([{ index: 0, finishReason, content: "Hi" }])
    }
  })

  test("that was cut in a call ended for that reason, not for the call", () => {
    const fields = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }
    for (const completion of everyWay([call("a", `{"ci`)], fields, "response.incomplete")) {
      expect(completion.choices[0]).toMatchObject({ finishReason: "length", toolCalls: [{ id: "a" }] })
    }
  })

  test.each([
    ["priority", { serviceTier: "priority" }],
    ["fast", { serviceTier: "priority" }],
    ["default", { serviceTier: "default" }],
    ["flex", {}],
    [null, {}]
  ])("served in the tier %s", (service_tier, expected) => {
    for (const { choices: _, ...rest } of everyWay([message("Hi")], { service_tier })) expect(rest).toEqual(expected)
  })

  test("passes over items and events of other kinds", () => {
    const search = { type: "web_search_call", id: "ws_1", status: "completed", action: {} }
    expect(read(response([search, message("Hi")])).choices[0]?.content).toBe("Hi")
    const events = [
      { type: "response.output_item.added", output_index: 0, item: search },
      { type: "response.web_search_call.searching", output_index: 0 },
      { type: "response.output_item.done", output_index: 0, item: search },
      { type: "keepalive" },
      { type: "response.output_text.annotation.added", output_index: 1, annotation: {} }
    ]
    expect(stream(...events, ended())).toEqual([{ _tag: "Delta", index: 0, finishReason: "stop" }])
  })

  test("of a model that shows what it thinks has that as its reasoning", () => {
    const item = { ...reasoning("rs_1"), content: [{ type: "reasoning_text", text: "Hm." }] }
    expect(read(response([item, message("Hi")])).choices[0]?.reasoning).toBe("Hm.")
    const events = stream(
      { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "H" },
      { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "m." },
      { type: "response.output_item.done", output_index: 0, item },
      ended()
    )
    expect(fold(events).choices[0]?.reasoning).toBe("Hm.")
  })
})

describe("what the vendor wants back", () => {
  const wanted = (...ids: ReadonlyArray<string>) =>
    Option.some({
      wire: "responses",
      form: "platform",
      reasoning: ids.map((id) => ({ id, encrypted_content: `sealed ${id}`, summary: [] }))
    })

  test("comes in the id of the call that follows it, whole and in the first piece of that call", () => {
    const output = [reasoning("rs_1"), reasoning("rs_2"), call("a"), call("b"), reasoning("rs_3"), call("c")]
    const whole = read(response(output)).choices[0]?.toolCalls?.map(({ id }) => id) ?? []
    const events = stream(...eventsOf(output, 1), ended())
    const streamed = events.flatMap((event) =>
      event._tag === "Delta" ? (event.toolCalls ?? []).flatMap(({ id }) => (id === undefined ? [] : [id])) : []
    )
    expect(whole).toEqual(streamed)
    expect(whole.map(detach)).toEqual(["a", "b", "c"])
    expect(whole[1]).toBe("b")
    expect(payloadOf(whole[0] ?? "")).toEqual(wanted("rs_1", "rs_2"))
    expect(payloadOf(whole[2] ?? "")).toEqual(wanted("rs_3"))
  })

  test("goes back as it was", () => {
    const thought = reasoning("rs_1", "Hm.")
    const [choice] = read(response([thought, call("a")])).choices
    const { reasoning: shown, toolCalls = [] } = choice ?? expect.fail("no choice")
    const written = openAiResponses.write(
      {
        route: { method: "service", upstream: "any", upstreamModel: "gpt-5" },
        request: {
          model: "m",
          messages: [
            { role: "user", content: "Hi" },
            { role: "assistant", content: null, reasoning: shown ?? "", tool_calls: toolCalls },
            { role: "tool", tool_call_id: toolCalls[0]?.id ?? "", content: "42" }
          ]
        },
        outputCap: undefined,
        outputLimit: 1
      },
      { outputLimit: "max_tokens", extensions: false }
    )
    expect(Result.getOrThrow(written)).toMatchObject({
      input: [
        { role: "user" },
        thought,
        { type: "function_call", call_id: "a" },
        { type: "function_call_output", call_id: "a", output: "42" }
      ]
    })
  })

  test("is nothing when the vendor sealed nothing", () => {
    const open = { type: "reasoning", id: "rs_1", summary: [] }
    expect(read(response([open, call("a")])).choices[0]?.toolCalls?.[0]?.id).toBe("a")
    expect(read(response([{ ...open, encrypted_content: null }, call("a")])).choices[0]?.toolCalls?.[0]?.id).toBe("a")
  })
})

describe("an answer that failed", () => {
  const error = { code: "server_error", message: "Overloaded" }

  test.each([
    ["an error object", { error }],
    ["a failed response", response([], { status: "failed", error })]
  ])("has the vendor's words: %s", (_, body) => {
    expect(failure(openAiResponses.read(body))).toEqual({ _tag: "UpstreamSaid", detail: "Overloaded" })
  })

  test.each(["failed", "cancelled", "queued", "in_progress"])("is none, whatever it has: %s", (status) => {
    expect(failure(openAiResponses.read(response([message("Hi")], { status })))).toMatchObject({ _tag: "UpstreamSaid" })
  })

  test.each<[string, object]>([
    ["an event of its own", { type: "error", code: "x", message: "Overloaded", param: null }],
    ["the same with an object", { type: "error", error: { message: "Overloaded" } }],
    ["a failed response", { type: "response.failed", response: response([], { status: "failed", error }) }],
    ["no event", { error }]
  ])("in a stream has the vendor's words: %s", (_, event) => {
    const reader = openAiResponses.reader()
    for (const before of eventsOf([message("Hi")]))
      expect(Result.isSuccess(reader.read(JSON.stringify(before)))).toBe(true)
    expect(failure(reader.read(JSON.stringify(event)))).toEqual({ _tag: "UpstreamSaid", detail: "Overloaded" })
    expect(reader.isComplete()).toBe(false)
  })

  test("in a stream without words says what came", () => {
    const event = { type: "response.failed", response: { error: null } }
    expect(failure(openAiResponses.reader().read(JSON.stringify(event)))).toEqual({
      _tag: "UpstreamSaid",
      detail: JSON.stringify(event)
    })
  })

  test.each([
    ["no object", "Hi"],
    ["no output", { status: "completed" }],
    ["an item without type", response([{ id: "x" }])],
    ["a message without content", response([{ type: "message" }])],
    ["a call without name", response([{ type: "function_call", call_id: "a", arguments: "" }])]
  ])("is malformed: %s", (_, body) => {
    expect(failure(openAiResponses.read(body))).not.toHaveProperty("_tag", "UpstreamSaid")
  })

  test.each([
    "{",
    "7",
    "[]",
    "{}",
    `{"type":7}`,
    `{"type":"response.output_text.delta","output_index":0}`,
    `{"type":"response.output_text.delta","output_index":"0","delta":"a"}`,
    `{"type":"response.refusal.delta","delta":"a"}`,
    `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call"}}`,
    `{"type":"response.completed"}`
  ])("is malformed in a stream: %s", (data) => {
    expect(failure(openAiResponses.reader().read(data))).toMatchObject({ _tag: "Malformed" })
  })

  test("is not complete before the vendor says so, even where it says that nothing follows", () => {
    const reader = openAiResponses.reader()
    for (const event of eventsOf([message("Hi")])) reader.read(JSON.stringify(event))
    expect([reader.isComplete(), reader.isDone()]).toEqual([false, false])
    reader.read("[DONE]")
    expect([reader.isComplete(), reader.isDone()]).toEqual([false, true])
  })

  test("has the words of either server in an error's body", () => {
    const { errorText } = subscriptionResponses
    expect(errorText({ error: { message: "No such model", code: "x" } })).toBe("No such model")
    expect(errorText({ detail: "Unsupported parameter: temperature" })).toBe("Unsupported parameter: temperature")
    for (const other of ["text", {}, { detail: [{}] }, { error: "no" }, undefined])
      expect(errorText(other)).toBeUndefined()
  })
})
