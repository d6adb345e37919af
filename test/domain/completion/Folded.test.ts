import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { none } from "../../../src/domain/billing/Usage.ts"
import type { Choice, Completion, FinishReason } from "../../../src/domain/completion/Completion.ts"
import type { CompletionEvent, Delta, ToolCallDelta } from "../../../src/domain/completion/CompletionEvent.ts"
import { Folded } from "../../../src/domain/completion/Folded.ts"

const folded = (events: ReadonlyArray<CompletionEvent>): Completion => {
  const fold = new Folded()
  for (const event of events) fold.add(event)
  return fold.completion
}

const text = fc.string({ unit: "binary", maxLength: 12 })

const call = fc.record({
  id: fc.string({ minLength: 1, maxLength: 8 }),
  type: fc.constant("function" as const),
  function: fc.record({ name: fc.string({ minLength: 1, maxLength: 8 }), arguments: text })
})

const choice = fc.record(
  {
    finishReason: fc.constantFrom<FinishReason | null>("content_filter", "length", "stop", "tool_calls", null),
    content: fc.option(text),
    reasoning: text,
    refusal: text,
    toolCalls: fc.array(call, { minLength: 1, maxLength: 3 })
  },
  { requiredKeys: ["finishReason", "content"] }
)

const count = fc.nat(1_000)

const completions = fc.record(
  {
    choices: fc
      .array(choice, { minLength: 1, maxLength: 3 })
      .map((choices) => choices.map((choice, index): Choice => ({ index, ...choice }))),
    serviceTier: fc.constantFrom("default" as const, "priority" as const),
    usage: fc.record({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: count })
  },
  { requiredKeys: ["choices"] }
)

/** A text in pieces; an empty one is one empty piece. `cut` says how long the next one is. */
const pieces = (whole: string, cut: () => number): ReadonlyArray<string> => {
  const pieces: Array<string> = []
  for (let rest = whole; rest !== ""; rest = rest.slice(pieces.at(-1)?.length)) pieces.push(rest.slice(0, cut()))
  return pieces.length === 0 ? [""] : pieces
}

/** A completion as a stream of small events, each choice's in order. */
const split = (choice: Choice, cut: () => number): ReadonlyArray<Delta> => {
  const { content, finishReason, index, reasoning, refusal, toolCalls = [] } = choice
  const delta = (fields: Partial<Delta>): Delta => ({ _tag: "Delta", index, ...fields })
  const begun = (id: string, at: number, name: string): ToolCallDelta => ({ index: at, id, name })
  return [
    delta({ role: "assistant" }),
    ...(reasoning === undefined ? [] : pieces(reasoning, cut).map((piece) => delta({ reasoning: piece }))),
    ...(content === null ? [] : pieces(content, cut).map((piece) => delta({ content: piece }))),
    ...(refusal === undefined ? [] : pieces(refusal, cut).map((piece) => delta({ refusal: piece }))),
    ...toolCalls.flatMap(({ function: called, id }, at) => [
      delta({ toolCalls: [begun(id, at, called.name)] }),
      ...pieces(called.arguments, cut).map((piece) => delta({ toolCalls: [{ index: at, arguments: piece }] }))
    ]),
    ...(finishReason === null ? [] : [delta({ finishReason })])
  ]
}

/** Some order of all events in which those of one choice keep theirs. */
const interleaved = (streams: ReadonlyArray<ReadonlyArray<Delta>>, pick: () => number): ReadonlyArray<Delta> => {
  const left = streams.map((stream) => [...stream])
  const events: Array<Delta> = []
  while (left.some((stream) => stream.length > 0)) {
    const open = left.filter((stream) => stream.length > 0)
    const next = open[pick() % open.length]?.shift()
    if (next !== undefined) events.push(next)
  }
  return events
}

describe("the fold of a stream", () => {
  test("gives back the completion that was split into it", () => {
    fc.assert(
      fc.property(completions, fc.infiniteStream(fc.integer({ min: 1, max: 5 })), (completion, numbers) => {
        const next = (): number => numbers.next().value ?? 1
        const { choices, serviceTier, usage } = completion
        const deltas = interleaved(
          choices.map((choice) => split(choice, next)),
          next
        )
        const events: ReadonlyArray<CompletionEvent> = [
          ...deltas.map((event) => (serviceTier === undefined ? event : { ...event, serviceTier })),
          ...(usage === undefined ? [] : [{ _tag: "Usage" as const, usage }])
        ]
        expect(folded(events)).toEqual(completion)
      })
    )
  })

  test("of nothing has no choices", () => {
    expect(folded([])).toEqual({ choices: [] })
  })

  test("puts choices and calls into the order of their indexes", () => {
    const events: ReadonlyArray<CompletionEvent> = [
      { _tag: "Delta", index: 1, content: "b" },
      { _tag: "Delta", index: 0, toolCalls: [{ index: 1, id: "y", name: "g", arguments: "2" }] },
      {
        _tag: "Delta",
        index: 0,
        toolCalls: [{ index: 0, id: "x", name: "f", arguments: "1" }],
        finishReason: "tool_calls"
      }
    ]
    expect(folded(events).choices).toEqual([
      {
        index: 0,
        finishReason: "tool_calls",
        content: null,
        toolCalls: [
          { id: "x", type: "function", function: { name: "f", arguments: "1" } },
          { id: "y", type: "function", function: { name: "g", arguments: "2" } }
        ]
      },
      { index: 1, finishReason: null, content: "b" }
    ])
  })

  test("believes the last usage and the last tier", () => {
    const events: ReadonlyArray<CompletionEvent> = [
      { _tag: "Usage", usage: { ...none, output: 1 } },
      { _tag: "Delta", index: 0, content: "a", serviceTier: "default" },
      { _tag: "Delta", index: 0, finishReason: "stop", serviceTier: "priority" },
      { _tag: "Usage", usage: { ...none, output: 2 } }
    ]
    expect(folded(events)).toEqual({
      choices: [{ index: 0, finishReason: "stop", content: "a" }],
      serviceTier: "priority",
      usage: { ...none, output: 2 }
    })
  })
})
