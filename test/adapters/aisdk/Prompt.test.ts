import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { PartReader } from "../../../src/adapters/aisdk/Parts.ts"
import { callOptions } from "../../../src/adapters/aisdk/Prompt.ts"
import type { PartOf, StreamPart } from "../../../src/adapters/aisdk/Sdk.ts"
import type { ChatMessage } from "../../../src/domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../../src/domain/completion/ChatRequest.ts"
import type { CompletionEvent } from "../../../src/domain/completion/CompletionEvent.ts"
import { Folded } from "../../../src/domain/completion/Folded.ts"

const shape = { provider: "vendor", takesThoughts: false }

const written = (request: Partial<ChatRequest>, more: Partial<typeof shape> = {}) =>
  callOptions({ model: "m", messages: [{ role: "user", content: "Hi" }], ...request }, { ...shape, ...more })

const promptOf = (messages: ReadonlyArray<ChatMessage>, more: Partial<typeof shape> = {}) =>
  Result.getOrThrow(written({ messages }, more)).prompt

const issuesOf = (request: Partial<ChatRequest>) =>
  Result.match(written(request), {
    onSuccess: () => [],
    onFailure: ({ issues }) => issues.map(({ path }) => path)
  })

const file = (mediaType: string, data: string) =>
  ({ type: "file", mediaType, data: { type: "data", data } }) satisfies PartOf<"user">

describe("requests in the words of the SDK", () => {
  it("have every message", () => {
    assert.deepEqual(
      promptOf([
        { role: "system", content: "Be kind." },
        {
          role: "developer",
          content: [
            { type: "text", text: "Be" },
            { type: "text", text: "brief." }
          ]
        },
        {
          role: "user",
          content: [
            { type: "text", text: "Look" },
            { type: "image_url", image_url: { url: "data:image/PNG;base64,AAAA" } },
            { type: "file", file: { file_data: "BBBB", filename: "b.pdf" } },
            { type: "file", file: { file_data: "data:text/plain;base64,CCCC" } },
            { type: "input_audio", input_audio: { data: "DDDD", format: "mp3" } },
            { type: "input_audio", input_audio: { data: "EEEE", format: "wav" } }
          ]
        },
        {
          role: "assistant",
          content: null,
          reasoning: "hm",
          tool_calls: [
            { id: "1", type: "function", function: { name: "look", arguments: '{"at":"it"}' } },
            { id: "2", type: "function", function: { name: "wait", arguments: "" } },
            { id: "3", type: "function", function: { name: "look", arguments: "{no" } }
          ]
        },
        { role: "tool", tool_call_id: "1", content: "seen" },
        {
          role: "tool",
          tool_call_id: "2",
          content: [
            { type: "text", text: "one" },
            { type: "text", text: "two" }
          ]
        },
        {
          role: "tool",
          tool_call_id: "gone",
          name: "old",
          content: [
            { type: "text", text: "a picture" },
            { type: "media", data: "FFFF", mediaType: "audio/wav" },
            { type: "image", image: "GGGG" },
            { type: "file", data: "HHHH", mimeType: "application/pdf" },
            { type: "image_url", image_url: { url: "data:image/gif;base64,IIII" } }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "Well." },
            { type: "refusal", refusal: "No." }
          ]
        }
      ]),
      [
        { role: "system", content: "Be kind." },
        { role: "system", content: "Be\nbrief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look" },
            file("image/png", "AAAA"),
            { ...file("application/pdf", "BBBB"), filename: "b.pdf" },
            file("text/plain", "CCCC"),
            file("audio/mpeg", "DDDD"),
            file("audio/wav", "EEEE")
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "tool-call", toolCallId: "1", toolName: "look", input: { at: "it" } },
            { type: "tool-call", toolCallId: "2", toolName: "wait", input: {} },
            { type: "tool-call", toolCallId: "3", toolName: "look", input: "{no" }
          ]
        },
        {
          role: "tool",
          content: [{ type: "tool-result", toolCallId: "1", toolName: "look", output: { type: "text", value: "seen" } }]
        },
        {
          role: "tool",
          content: [
            { type: "tool-result", toolCallId: "2", toolName: "wait", output: { type: "text", value: "one\ntwo" } }
          ]
        },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              toolCallId: "gone",
              toolName: "old",
              output: {
                type: "content",
                value: [
                  { type: "text", text: "a picture" },
                  file("audio/wav", "FFFF"),
                  file("image/png", "GGGG"),
                  file("application/pdf", "HHHH"),
                  file("image/gif", "IIII")
                ]
              }
            }
          ]
        },
        { role: "assistant", content: [{ type: "text", text: "Well.\nNo." }] }
      ]
    )
  })

  it("have every setting", () => {
    const options = Result.getOrThrow(
      written({
        max_tokens: 5,
        temperature: 0.1,
        top_p: 0.2,
        frequency_penalty: 0.3,
        presence_penalty: 0.4,
        seed: 6,
        stop: "end",
        reasoning_effort: "low",
        tools: [{ type: "function", function: { name: "look", description: "Looks." } }],
        tool_choice: { type: "function", function: { name: "look" } },
        response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } }
      })
    )
    assert.deepEqual(options, {
      prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      maxOutputTokens: 5,
      temperature: 0.1,
      topP: 0.2,
      frequencyPenalty: 0.3,
      presencePenalty: 0.4,
      seed: 6,
      stopSequences: ["end"],
      reasoning: "low",
      tools: [
        { type: "function", name: "look", description: "Looks.", inputSchema: { type: "object", properties: {} } }
      ],
      toolChoice: { type: "tool", toolName: "look" },
      responseFormat: { type: "json", name: "answer", schema: { type: "object" } }
    })
  })

  it("leave nothing out in silence", () => {
    assert.deepStrictEqual(
      issuesOf({ user: "me", verbosity: "low", service_tier: "fast", parallel_tool_calls: false }),
      ["parallel_tool_calls", "service_tier", "user", "verbosity"]
    )
    assert.deepStrictEqual(issuesOf({ reasoning_effort: "a bit" }), ["reasoning_effort"])
    const image = { type: "image_url", image_url: { url: "https://example.org/a.png" } } as const
    assert.deepStrictEqual(issuesOf({ messages: [{ role: "user", content: [image] }] }), [
      "messages[0].content[0].image_url.url"
    ])
  })

  it("have what was thought before where it can be read", () => {
    const answer: ChatMessage = { role: "assistant", content: "Yes.", reasoning_content: "Is it?" }
    assert.deepEqual(promptOf([answer], { takesThoughts: true })[0]?.content, [
      { type: "reasoning", text: "Is it?" },
      { type: "text", text: "Yes." }
    ])
  })
})

describe("parts of an answer", () => {
  const read = (reader: PartReader, ...parts: ReadonlyArray<StreamPart>): ReadonlyArray<CompletionEvent> =>
    parts.flatMap((part) => {
      const events = reader.read(part)
      if ("_tag" in events) throw new Error(events._tag)
      return events
    })

  const finish = (
    unified: Extract<StreamPart, { type: "finish" }>["finishReason"]["unified"],
    raw: string | undefined = unified
  ): StreamPart => ({
    type: "finish",
    finishReason: { unified, raw },
    usage: {
      inputTokens: { total: 10, noCache: undefined, cacheRead: 3, cacheWrite: 2 },
      outputTokens: { total: 7, text: undefined, reasoning: 4 }
    }
  })

  it("are counted in disjoint buckets, whatever the library leaves open", () => {
    const [ended, usage] = read(new PartReader("vendor"), finish("stop"))
    assert.deepStrictEqual(ended, { _tag: "Delta", index: 0, finishReason: "stop" })
    assert.deepStrictEqual(usage, {
      _tag: "Usage",
      usage: { input: 5, cacheRead: 3, cacheWrite: 2, output: 3, reasoning: 4 }
    })
  })

  it("bring what the vendor has to get back with its calls, and only back to it", () => {
    const reader = new PartReader("vendor")
    const folded = new Folded()
    const events = read(
      reader,
      { type: "reasoning-start", id: "r" },
      { type: "reasoning-delta", id: "r", delta: "Hm, " },
      { type: "reasoning-delta", id: "r", delta: "two." },
      { type: "reasoning-end", id: "r", providerMetadata: { vendor: { signature: "signed" } } },
      { type: "tool-call", toolCallId: "a", toolName: "look", input: "{}" },
      {
        type: "tool-call",
        toolCallId: "b",
        toolName: "look",
        input: "{}",
        providerMetadata: { vendor: { thoughtSignature: "own", nothing: undefined } }
      },
      { type: "tool-call", toolCallId: "c", toolName: "theirs", input: "{}", providerExecuted: true },
      finish("tool-calls")
    )
    for (const event of events) folded.add(event)
    const [choice] = folded.completion.choices
    const calls = choice?.toolCalls ?? []
    assert.strictEqual(choice?.reasoning, "Hm, two.")
    assert.lengthOf(calls, 2)

    const answer: ChatMessage = { role: "assistant", content: null, tool_calls: calls }
    const called = (toolCallId: string) =>
      ({ type: "tool-call", toolCallId, toolName: "look", input: {} }) satisfies PartOf<"assistant">
    assert.deepEqual(promptOf([answer])[0]?.content, [
      { type: "reasoning", text: "Hm, two.", providerOptions: { vendor: { signature: "signed" } } },
      called("a"),
      { ...called("b"), providerOptions: { vendor: { thoughtSignature: "own" } } }
    ])
    assert.deepEqual(promptOf([answer], { provider: "another" })[0]?.content, [called("a"), called("b")])
  })

  it("say whether the answer is complete", () => {
    for (const reason of ["interrupted", "error"] as const) {
      assert.deepStrictEqual(new PartReader("vendor").read(finish(reason)), { _tag: "CutOff" })
    }
    const reader = new PartReader("vendor")
    read(reader, { type: "text-delta", id: "1", delta: "Hi" })
    assert.isFalse(reader.isComplete)
    read(reader, finish("other", "pause"))
    assert.isTrue(reader.isComplete)
  })
})
