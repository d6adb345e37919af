import { describe, expect, it, test } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import fc from "fast-check"
import { anthropic } from "../../../src/adapters/vendors/drivers/Anthropic.ts"
import { anthropicMessages } from "../../../src/adapters/vendors/protocols/AnthropicMessages.ts"
import type { Choice, Completion } from "../../../src/domain/completion/Completion.ts"
import type { CompletionEvent, Delta, UsageReported } from "../../../src/domain/completion/CompletionEvent.ts"
import { detach, payloadOf } from "../../../src/domain/completion/Continuation.ts"

const usage = { input_tokens: 7, output_tokens: 3, service_tier: "standard" }

/** A whole answer. */
const message = (content: ReadonlyArray<object>, fields: object = {}) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-opus-5-5",
  content,
  stop_reason: "end_turn",
  stop_sequence: null,
  stop_details: null,
  usage,
  ...fields
})

const read = (body: unknown): Completion =>
  Result.getOrThrowWith(anthropicMessages.read(body), (failure) => new Error(JSON.stringify(failure)))

/** The events of a stream of these frames, as the vendor sends them. */
const stream = (...frames: ReadonlyArray<object>): ReadonlyArray<CompletionEvent> => {
  const reader = anthropicMessages.reader()
  const events = frames.flatMap((frame) =>
    Result.getOrThrowWith(reader.read(JSON.stringify(frame)), (failure) => new Error(JSON.stringify(failure)))
  )
  return reader.isDone() ? [...events, ...reader.finish()] : expect.fail("the stream is not done")
}

const started = (reported: unknown = { input_tokens: 7, output_tokens: 1, service_tier: "standard" }) => ({
  type: "message_start",
  message: { ...message([]), stop_reason: null, usage: reported }
})

const ended = (delta: object = { stop_reason: "end_turn" }, reported: unknown = { output_tokens: 3 }) => [
  { type: "message_delta", delta: { stop_sequence: null, ...delta }, usage: reported },
  { type: "message_stop" }
]

const block = (index: number, content_block: object, ...deltas: ReadonlyArray<object>) => [
  { type: "content_block_start", index, content_block },
  ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
  { type: "content_block_stop", index }
]

type Pieces = ReadonlyArray<string>

interface Thought {
  readonly type: "thinking"
  readonly pieces: Pieces
  readonly signature: string
}

/** A block of an answer, by the pieces in which it is streamed. */
type Said =
  | Thought
  | { readonly type: "text"; readonly pieces: Pieces }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | { readonly type: "tool_use"; readonly id: string; readonly input: Readonly<Record<string, string>> }
  | { readonly type: "server_tool_use" }

const wholeBlock = (said: Said): object => {
  switch (said.type) {
    case "text":
      return { type: "text", text: said.pieces.join(""), citations: null }
    case "thinking":
      return { type: "thinking", thinking: said.pieces.join(""), signature: said.signature }
    case "tool_use":
      return { ...said, name: "look", caller: { type: "direct" } }
    case "server_tool_use":
      return { type: "server_tool_use", id: "srv", name: "web_search", input: {}, text: 7 }
    case "redacted_thinking":
      return said
  }
}

const streamedBlock = (said: Said, index: number): ReadonlyArray<object> => {
  switch (said.type) {
    case "text":
      return block(index, { type: "text", text: "" }, ...said.pieces.map((text) => ({ type: "text_delta", text })), {
        type: "citations_delta",
        citation: {}
      })
    case "thinking":
      return block(
        index,
        { type: "thinking", thinking: "", signature: "" },
        ...said.pieces.map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature: said.signature }
      )
    case "tool_use": {
      const json = JSON.stringify(said.input)
      const pieces = json === "{}" ? [""] : ["", json.slice(0, 2), json.slice(2)]
      return block(
        index,
        { type: "tool_use", id: said.id, name: "look", input: {} },
        ...pieces.map((partial_json) => ({ type: "input_json_delta", partial_json }))
      )
    }
    case "server_tool_use":
      return block(index, wholeBlock(said), { type: "input_json_delta", partial_json: "{}" }, { type: "new_delta" })
    case "redacted_thinking":
      return block(index, said)
  }
}

const whole = (said: ReadonlyArray<Said>, fields?: object): Completion => read(message(said.map(wholeBlock), fields))

const streamed = (said: ReadonlyArray<Said>, delta?: object): ReadonlyArray<CompletionEvent> =>
  stream(started(), { type: "ping" }, ...said.flatMap(streamedBlock), { type: "new_event" }, ...ended(delta))

/** The choice that a stream comes to, for the comparison with the whole answer. */
const folded = (events: ReadonlyArray<CompletionEvent>): Choice => {
  const deltas = events.filter((event): event is Delta => event._tag === "Delta")
  const joined = (read: (delta: Delta) => string | undefined) => {
    const pieces = deltas.flatMap((delta) => read(delta) ?? [])
    return pieces.length === 0 ? undefined : pieces.join("")
  }
  const calls: Array<{ id: string; name: string; arguments: string }> = []
  for (const { arguments: json = "", id, index, name } of deltas.flatMap(({ toolCalls }) => toolCalls ?? [])) {
    const call = (calls[index] ??= {
      id: id ?? expect.fail("no id"),
      name: name ?? expect.fail("no name"),
      arguments: ""
    })
    call.arguments += json
  }
  const reasoning = joined((delta) => delta.reasoning)
  const refusal = joined((delta) => delta.refusal)
  const finishes = deltas.flatMap(({ finishReason }) => finishReason ?? [])
  expect(finishes).toHaveLength(1)
  return {
    index: 0,
    finishReason: finishes[0] ?? null,
    content: joined((delta) => delta.content) ?? null,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(refusal === undefined ? {} : { refusal }),
    ...(calls.length === 0
      ? {}
      : {
          toolCalls: calls.map(({ id, ...called }) => ({ id, type: "function" as const, function: called }))
        })
  }
}

const text = (...pieces: Pieces): Said => ({ type: "text", pieces })
const thinking = (signature: string, ...pieces: Pieces): Said => ({ type: "thinking", pieces, signature })
const redacted: Said = { type: "redacted_thinking", data: "xx" }
const toolUse = (id: string, input: Readonly<Record<string, string>> = {}): Said => ({ type: "tool_use", id, input })
const called = (id: string, json = "{}") => ({ id, type: "function", function: { name: "look", arguments: json } })

describe("an answer, whole and streamed, has", () => {
  test.each<[name: string, said: ReadonlyArray<Said>, expected: Partial<Choice>]>([
    ["text", [text("Hel", "lo.")], { content: "Hello." }],
    ["several blocks of text as one", [text("a"), text("b", "c")], { content: "abc" }],
    ["nothing", [], {}],
    ["thinking", [thinking("s", "H", "m."), text("Hi")], { reasoning: "Hm.", content: "Hi" }],
    [
      "several thoughts apart",
      [thinking("s", "One."), thinking("t"), redacted, thinking("u", "Two."), text("Hi")],
      { reasoning: "One.\n\nTwo.", content: "Hi" }
    ],
    ["no thinking that is not shown", [thinking("s"), text("Hi")], { content: "Hi" }],
    ["none of the blocks that nobody here knows", [{ type: "server_tool_use" }, text("Hi")], { content: "Hi" }]
  ])("%s", (_, said, expected) => {
    const choice = { index: 0, finishReason: "stop", content: null, ...expected }
    expect(whole(said).choices).toEqual([choice])
    expect(folded(streamed(said))).toEqual(choice)
  })

  test("calls, with arguments that are JSON though there are none", () => {
    const said = [text("Let me look."), toolUse("a", { x: "ü" }), toolUse("b")]
    const choice = {
      index: 0,
      finishReason: "tool_calls",
      content: "Let me look.",
      toolCalls: [called("a", `{"x":"ü"}`), called("b")]
    }
    expect(whole(said, { stop_reason: "tool_use" }).choices).toEqual([choice])
    expect(folded(streamed(said, { stop_reason: "tool_use" }))).toEqual(choice)
  })

  test.each<[reason: string | null, expected: string]>([
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["pause_turn", "length"],
    ["tool_use", "tool_calls"],
    ["refusal", "content_filter"],
    ["new_reason", "stop"],
    [null, "stop"]
  ])("ended for the reason %s, which is the contract's %s", (stop_reason, expected) => {
    expect(whole([text("Hi")], { stop_reason }).choices[0]?.finishReason).toBe(expected)
    expect(folded(streamed([text("Hi")], { stop_reason })).finishReason).toBe(expected)
  })

  test("the reason of a refusal", () => {
    const stop_details = { type: "refusal", category: "bio", explanation: "Not this." }
    const choice = { index: 0, finishReason: "content_filter", content: "Well", refusal: "Not this." }
    expect(whole([text("Well")], { stop_reason: "refusal", stop_details }).choices).toEqual([choice])
    expect(folded(streamed([text("Well")], { stop_reason: "refusal", stop_details }))).toEqual(choice)
    const untold = { stop_reason: "refusal", stop_details: { ...stop_details, explanation: null } }
    expect(whole([text("Well")], untold).choices[0]).not.toHaveProperty("refusal")
  })

  test.each([
    ["standard", { serviceTier: "default" }],
    ["priority", { serviceTier: "priority" }],
    ["batch", {}],
    [null, {}]
  ])("the tier that was served: %s", (service_tier, expected) => {
    const { choices: _, usage: __, ...rest } = read(message([], { usage: { ...usage, service_tier } }))
    expect(rest).toEqual(expected)
    expect(stream(started({ ...usage, service_tier }), ...ended())[0]).toEqual({
      _tag: "Delta",
      index: 0,
      role: "assistant",
      ...expected
    })
  })

  test("the same content either way, however it is cut", () => {
    const piece = fc.string({ unit: "binary" })
    const said = fc.oneof(
      fc.array(piece, { minLength: 1 }).map((pieces): Said => text(...pieces)),
      fc
        .record({ pieces: fc.array(piece), signature: piece })
        .map((thought): Said => ({ type: "thinking", ...thought })),
      fc.constant<Said>({ type: "server_tool_use" }),
      fc.constant(redacted),
      fc
        .record({ id: fc.uuid(), input: fc.dictionary(fc.constantFrom("x", "y"), piece) })
        .map((call): Said => ({ type: "tool_use", ...call }))
    )
    fc.assert(
      fc.property(fc.array(said, { maxLength: 6 }), (blocks) => {
        // Lone surrogates become U+FFFD in JSON of UTF-8 only; here they pass through both ways alike.
        expect(folded(streamed(blocks))).toEqual(whole(blocks).choices[0])
      })
    )
  })
})

describe("the thinking before tool calls", () => {
  const said = [
    thinking("s1", "Hm", "."),
    text("On", "e."),
    redacted,
    toolUse("a"),
    toolUse("b"),
    text("Two"),
    thinking("s2"),
    toolUse("c"),
    text("…")
  ]
  const idsOf = (choice: Choice | undefined) => (choice?.toolCalls ?? []).map(({ id }) => id)
  const both = [idsOf(whole(said).choices[0]), idsOf(folded(streamed(said)))]

  test("travels in the ids of the calls that it stands before", () => {
    for (const ids of both) {
      expect(ids.map(detach)).toEqual(["a", "b", "c"])
      expect(ids.map((id) => Option.getOrUndefined(payloadOf(id)))).toEqual([
        {
          anthropic: {
            call: 0,
            before: [
              { type: "thinking", thinking: "Hm.", signature: "s1" },
              4,
              { type: "redacted_thinking", data: "xx" }
            ]
          }
        },
        undefined,
        { anthropic: { call: 2, before: [3, { type: "thinking", thinking: "", signature: "s2" }] } }
      ])
    }
  })

  test("comes back to the vendor as it was", () => {
    for (const choice of [whole(said).choices[0], folded(streamed(said))]) {
      const { content, toolCalls = [] } = choice ?? expect.fail("no choice")
      const body = anthropicMessages.write(
        {
          route: { method: "service", upstream: "anthropic", upstreamModel: "claude-opus-5-5" },
          request: {
            model: "m",
            messages: [
              { role: "user", content: "Hi" },
              { role: "assistant", content, tool_calls: toolCalls },
              ...toolCalls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: "1" }))
            ]
          },
          outputCap: undefined,
          outputLimit: 100
        },
        anthropic.dialect
      )
      const sent = said.map(wholeBlock).map((block) => expect.objectContaining(without(block)))
      expect(Result.getOrThrow(body)).toMatchObject({ messages: [{}, { role: "assistant", content: sent }, {}] })
    }
  })

  test("is not kept without a signature, and not without thinking", () => {
    for (const blocks of [
      [thinking("", "Hm."), toolUse("a")],
      [text("One."), toolUse("a")],
      [toolUse("a"), thinking("s")]
    ]) {
      expect(idsOf(whole(blocks).choices[0])).toEqual(["a"])
      expect(idsOf(folded(streamed(blocks)))).toEqual(["a"])
    }
  })
})

/** Blocks without what only answers have. */
const without = (block: object): object =>
  Object.fromEntries(Object.entries(block).filter(([key]) => key !== "caller" && key !== "citations"))

/** What is told before the answer is of its input only. */
const isFinalUsage = (event: CompletionEvent): event is UsageReported =>
  event._tag === "Usage" && event.isOfInput !== true

describe("the usage that the vendor reports", () => {
  const wholeUsage = (reported: unknown) => read(message([], { usage: reported })).usage
  const streamedUsage = (start: unknown, end: unknown) => {
    const [last] = stream(started(start), ...ended(undefined, end)).filter(isFinalUsage)
    return last?.usage
  }

  const Count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }))

  it.effect.prop(
    "keeps its totals in buckets that do not overlap, whole and streamed",
    {
      input: Count,
      output: Count,
      written: Schema.NullOr(Count),
      read: Schema.NullOr(Count),
      thought: Schema.NullOr(Count),
      early: Count
    },
    ({ early, input, output, read, thought, written }) =>
      Effect.sync(() => {
        const inputs = {
          input_tokens: input,
          cache_creation_input_tokens: written,
          cache_read_input_tokens: read,
          service_tier: "standard"
        }
        const outputs = {
          output_tokens: output,
          output_tokens_details: thought === null ? null : { thinking_tokens: thought }
        }
        const buckets = wholeUsage({ ...inputs, ...outputs }) ?? expect.fail("no usage")
        expect(buckets.input).toBe(input)
        expect(buckets.cacheWrite).toBe(written ?? 0)
        expect(buckets.cacheRead).toBe(read ?? 0)
        expect(buckets.output + buckets.reasoning).toBe(output)
        expect(buckets.reasoning).toBe(Math.min(thought ?? 0, output))
        // The counts of a stream's end are totals; those that it leaves out or nulls are the ones of its start.
        const start = { ...inputs, output_tokens: early }
        expect(streamedUsage(start, outputs)).toEqual(buckets)
        expect(streamedUsage({ ...start, input_tokens: early }, { ...inputs, ...outputs })).toEqual(buckets)
        expect(streamedUsage(start, { ...outputs, input_tokens: null })).toEqual(buckets)
      })
  )

  it.effect.prop(
    "is none, or has no negative count, whatever it is",
    {
      input: Schema.Unknown,
      output: Schema.Unknown,
      read: Schema.Unknown,
      thought: Schema.Unknown
    },
    ({ input, output, read, thought }) =>
      Effect.sync(() => {
        const reported = {
          input_tokens: input,
          output_tokens: output,
          cache_read_input_tokens: read,
          output_tokens_details: { thinking_tokens: thought }
        }
        for (const buckets of [wholeUsage(reported), streamedUsage(reported, reported)]) {
          for (const count of Object.values(buckets ?? {})) {
            expect(Number.isSafeInteger(count) && count >= 0 && count <= 1_000_000_000).toBe(true)
          }
        }
      })
  )

  test.each([
    ["none", undefined],
    ["null", null],
    ["negative", { ...usage, input_tokens: -5 }],
    ["fractions", { ...usage, output_tokens: 1.5 }],
    ["text", { ...usage, output_tokens: "3" }],
    ["astronomic", { ...usage, input_tokens: 1e15 }],
    ["half", { output_tokens: 3 }],
    ["no object", "12 tokens"],
    ["a list", [12, 3]],
    ["odd details", { ...usage, output_tokens_details: "thinking" }]
  ])("counts for nothing when it cannot be, but the answer does: %s", (_, reported) => {
    expect(wholeUsage(reported)).toBeUndefined()
    const inStream = reported ?? null
    const events = stream(started(inStream), ...block(0, { type: "text", text: "Hi" }), ...ended(undefined, inStream))
    expect(events.filter((event) => event._tag === "Usage")).toEqual([])
    expect(folded(events).content).toBe("Hi")
  })

  test("of caches and thinking counts as none when it cannot be", () => {
    const odd = { cache_read_input_tokens: -1, output_tokens_details: { thinking_tokens: "many" } }
    expect(wholeUsage({ ...usage, ...odd })).toEqual({ input: 7, cacheRead: 0, cacheWrite: 0, output: 3, reasoning: 0 })
  })

  test("is told of the input before the answer, and of all of it at the end", () => {
    const events = streamed([text("Hi")])
    expect(events.map(({ _tag }) => _tag)).toEqual(["Delta", "Usage", "Delta", "Delta", "Usage"])
    expect(events.filter(isFinalUsage)).toEqual(events.slice(-1))
  })
})

describe("an answer that is none", () => {
  test.each([
    ["no object", "Hi"],
    ["no message", { type: "completion", content: [] }],
    ["no content", { type: "message" }],
    ["a call without a name", message([{ type: "tool_use", id: "a", input: {} }])],
    ["a call with odd arguments", message([{ type: "tool_use", id: "a", name: "f", input: [1] }])],
    ["text that is none", message([{ type: "text", text: 7 }])],
    ["a block without a type", message([{ text: "Hi" }])]
  ])("is a failure: %s", (_, body) => {
    expect(Result.isFailure(anthropicMessages.read(body))).toBe(true)
  })

  const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" }, request_id: "req_1" }

  test("but an error has the vendor's words, in a body and in a stream", () => {
    const said = { failure: { _tag: "UpstreamSaid", detail: "Overloaded" } }
    expect(anthropicMessages.read(error)).toMatchObject(said)
    expect(anthropicMessages.reader().read(JSON.stringify(error))).toMatchObject(said)
    expect(anthropicMessages.errorText(error)).toBe("Overloaded")
    expect(anthropicMessages.errorText({ error: "Overloaded" })).toBeUndefined()
    expect(anthropicMessages.read({ type: "error" })).toMatchObject({ failure: { detail: `{"type":"error"}` } })
  })
})

describe("a stream", () => {
  test("is complete when the vendor says why it ended, and done when it says so", () => {
    const reader = anthropicMessages.reader()
    const [last, stop] = ended().map((frame) => JSON.stringify(frame))
    reader.read(JSON.stringify(started()))
    expect(reader.isComplete()).toBe(false)
    reader.read(last ?? "")
    expect([reader.isComplete(), reader.isDone()]).toEqual([true, false])
    expect(reader.finish()).toEqual([])
    reader.read(stop ?? "")
    expect([reader.isComplete(), reader.isDone()]).toEqual([true, true])
  })

  test("has one reason for its end, though the vendor repeats it or tells none", () => {
    const ends = (...frames: ReadonlyArray<object>) =>
      stream(started(), ...frames).flatMap((event) => (event._tag === "Delta" ? (event.finishReason ?? []) : []))
    const [max] = ended({ stop_reason: "max_tokens" })
    expect(ends(...(max === undefined ? [] : [max]), ...ended({ stop_reason: "max_tokens" }))).toEqual(["length"])
    expect(ends({ type: "message_stop" })).toEqual(["stop"])
    expect(ends(...streamedBlock(toolUse("a"), 0), { type: "message_stop" })).toEqual(["tool_calls"])
  })

  test("names a call on its first piece only", () => {
    const events = stream(started(), ...streamedBlock(toolUse("a", { x: "1" }), 0), ...ended())
    expect(events.flatMap((event) => (event._tag === "Delta" ? (event.toolCalls ?? []) : []))).toEqual([
      { index: 0, id: "a", name: "look", arguments: "" },
      { index: 0, arguments: `{"` },
      { index: 0, arguments: `x":"1"}` }
    ])
  })

  test("may have the beginning of a block at its start", () => {
    const frames = [
      ...block(0, { type: "thinking", thinking: "Hm" }, { type: "thinking_delta", thinking: "." }),
      ...block(1, { type: "text", text: "He" }, { type: "text_delta", text: "y" }),
      ...block(2, { type: "tool_use", id: "a", name: "look", input: { x: 1 } })
    ]
    expect(folded(stream(started(), ...frames, ...ended()))).toMatchObject({
      reasoning: "Hm.",
      content: "Hey",
      toolCalls: [called("a", `{"x":1}`)]
    })
  })

  const textStart = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }

  test.each<[name: string, ...frames: ReadonlyArray<string | object>]>([
    ["no JSON", "{"],
    ["no object", "[1]"],
    ["without a type", {}],
    ["a start without a block", { type: "content_block_start", index: 0 }],
    ["a call without a name", { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "a" } }],
    [
      "text of another type",
      textStart,
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: 7 } }
    ],
    [
      "a delta of another kind than its block",
      textStart,
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: "{" } }
    ],
    ["an end without a delta", { type: "message_delta" }]
  ])("fails at a frame that is malformed: %s", (_, ...frames) => {
    const reader = anthropicMessages.reader()
    const results = frames.map((frame) => reader.read(typeof frame === "string" ? frame : JSON.stringify(frame)))
    expect(results.at(-1)).toMatchObject({ failure: { _tag: "Malformed" } })
  })
})
