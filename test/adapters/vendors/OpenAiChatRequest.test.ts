import { Result, Schema } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { compatible, strict } from "../../../src/adapters/vendors/drivers/Compatible.ts"
import { openAi } from "../../../src/adapters/vendors/drivers/OpenAi.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"
import { ChatRequest } from "../../../src/domain/completion/ChatRequest.ts"
import { attach } from "../../../src/domain/completion/Continuation.ts"
import { chatRequests } from "../../domain/completion/ChatRequests.ts"
import { isObject, type Json, type JsonObject, write } from "../../domain/completion/Rules.ts"
import { expectArrival, fieldsBeyond } from "./Lowering.ts"

const decode = Schema.decodeUnknownSync(ChatRequest, { onExcessProperty: "error" })

const route = { method: "service", upstream: "any", upstreamModel: "vendor/model-1" } as const

/** What is sent to a vendor, or the fields that it cannot be told. */
const lowered = (request: JsonObject, dialect: typeof compatible, outputCap?: number) =>
  Result.mapBoth(openAiChat.write({ route, request: decode(request), outputCap, outputLimit: 1024 }, dialect), {
    onFailure: ({ issues }) => issues.map(({ path }) => path),
    onSuccess: (body): JsonObject => parsed(JSON.stringify(body))
  })

const parsed = (text: string): JsonObject => {
  const value: Json = JSON.parse(text)
  return isObject(value) ? value : expect.fail("what is sent is no object")
}

const sent = (request: JsonObject, dialect: typeof compatible, outputCap?: number): JsonObject =>
  Result.getOrThrowWith(lowered(request, dialect, outputCap), (paths) => new Error(`refused: ${paths.join()}`))

const hi = [{ role: "user", content: "Hi" }]

describe("a request to a vendor of OpenAI's kind", () => {
  test("has every field and message, when the vendor takes extensions", () => {
    const wire = { model: route.upstreamModel, extensions: true, outputLimit: "max_tokens" } as const
    fc.assert(
      fc.property(chatRequests, (given) => {
        const request = parsed(write(given))
        expectArrival(request, sent(request, compatible), wire)
      }),
      { numRuns: 300 }
    )
  })

  test.each([
    ["openai", openAi.dialect],
    ["strict", strict]
  ])("has every field and message, or the caller learns which one the vendor cannot be told (%s)", (_, dialect) => {
    const wire = { model: route.upstreamModel, extensions: false, outputLimit: dialect.outputLimit }
    let refused = 0
    fc.assert(
      fc.property(chatRequests, (given) => {
        const request = parsed(write(given))
        const beyond = fieldsBeyond(request)
        const result = lowered(request, dialect)
        if (Result.isFailure(result)) {
          refused++
          expect(result.failure.toSorted()).toEqual([...beyond].toSorted())
        } else {
          expect(beyond).toEqual([])
          expectArrival(request, result.success, wire)
        }
      }),
      { numRuns: 300 }
    )
    expect(refused).toBeGreaterThan(20)
    expect(refused).toBeLessThan(280)
  })

  test.each([
    ["effort", { effort: "high" }, []],
    ["the same effort twice", { effort: "low" }, []],
    ["another effort than reasoning_effort", { effort: "medium" }, ["reasoning.effort"]],
    ["an effort that is no text", { effort: 3 }, ["reasoning.effort"]],
    ["a budget", { max_tokens: 100 }, ["reasoning.max_tokens"]]
  ])("takes of free-form reasoning what the vendor has a field for: %s", (name, reasoning, beyond) => {
    const both = name.includes("twice") || name.includes("another") ? { reasoning_effort: "low" } : {}
    const result = lowered({ model: "m", messages: hi, reasoning, ...both }, openAi.dialect)
    expect(Result.isFailure(result) ? result.failure : []).toEqual(beyond)
    if (Result.isSuccess(result))
      expect(result.success).toMatchObject({ reasoning_effort: Object.values(reasoning)[0] })
  })

  test("limits the output to what is held, where the caller set no limit", () => {
    const request = { model: "m", messages: hi }
    expect(sent(request, openAi.dialect, 50)["max_completion_tokens"]).toBe(50)
    expect(sent(request, compatible, 50)["max_tokens"]).toBe(50)
    expect(sent({ ...request, max_tokens: 20 }, openAi.dialect)).toMatchObject({ max_completion_tokens: 20 })
    expect(sent({ ...request, max_tokens: 20 }, openAi.dialect)).not.toHaveProperty("max_tokens")
  })

  test("asks for the usage of every stream, and of nothing else", () => {
    const request = { model: "m", messages: hi, stream_options: { include_usage: false } }
    expect(sent({ ...request, stream: true }, openAi.dialect)["stream_options"]).toEqual({ include_usage: true })
    expect(sent({ ...request, stream: false }, openAi.dialect)).not.toHaveProperty("stream_options")
    expect(sent(request, openAi.dialect)).not.toHaveProperty("stream")
  })

  test("puts the media of tools' answers behind the last of these answers, in the vendor's parts", () => {
    const messages = [
      ...hi,
      {
        role: "assistant",
        tool_calls: ["a", "b"].map((id) => ({ id, type: "function", function: { name: "look", arguments: "{}" } }))
      },
      {
        role: "tool",
        tool_call_id: "a",
        content: [
          { type: "text", text: "two images" },
          { type: "image", image: "AAAA" },
          { type: "image_url", image_url: { url: "https://example.org/a.png" } }
        ]
      },
      {
        role: "tool",
        tool_call_id: "b",
        name: "look",
        content: [
          { type: "media", data: "BBBB", mediaType: "audio/mpeg" },
          { type: "file", data: "CCCC", mimeType: "application/pdf" },
          { type: "file", data: "DDDD", mimeType: "image/jpeg" }
        ]
      },
      { role: "user", content: "What are they?" }
    ]
    expect(sent({ model: "m", messages }, openAi.dialect)["messages"]).toEqual([
      ...messages.slice(0, 2),
      {
        role: "tool",
        tool_call_id: "a",
        content: [
          { type: "text", text: "two images" },
          { type: "text", text: "(attachments follow)" }
        ]
      },
      { role: "tool", tool_call_id: "b", name: "look", content: [{ type: "text", text: "(attachments follow)" }] },
      {
        role: "user",
        content: [
          { type: "text", text: "Attached to the answer of tool call a:" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
          { type: "image_url", image_url: { url: "https://example.org/a.png" } },
          { type: "text", text: "Attached to the answer of tool call b:" },
          { type: "input_audio", input_audio: { data: "BBBB", format: "mp3" } },
          { type: "file", file: { filename: "attachment", file_data: "data:application/pdf;base64,CCCC" } },
          { type: "image_url", image_url: { url: "data:image/jpeg;base64,DDDD" } }
        ]
      },
      { role: "user", content: "What are they?" }
    ])
  })

  test("has the vendor's own ids, without what other wires keep in them", () => {
    const id = attach("call_1", { other: ["thoughts"] })
    const called = { type: "function", function: { name: "look", arguments: "{}" } }
    const image = { type: "image", image: "AAAA" }
    const messages = [
      ...hi,
      { role: "assistant", tool_calls: [{ id, ...called }] },
      { role: "tool", tool_call_id: id, content: [image] }
    ]
    const body = sent({ model: "m", messages }, openAi.dialect)
    expect(body["messages"]).toMatchObject([
      ...hi,
      { role: "assistant", tool_calls: [{ id: "call_1", ...called }] },
      { role: "tool", tool_call_id: "call_1" },
      { role: "user", content: [{ text: "Attached to the answer of tool call call_1:" }, {}] }
    ])
    expect(JSON.stringify(body)).not.toContain("~r1~")
  })

  test("has a signature that the vendor wants back, beside the call it came with, for that vendor only", () => {
    const extra_content = { google: { thought_signature: "c2lnbmVk" } }
    const answer = openAiChat.read({
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: {
            content: null,
            tool_calls: ["a", "b"].map((id) => ({
              id,
              type: "function",
              function: { name: "look", arguments: "{}" },
              ...(id === "a" ? { extra_content } : {})
            }))
          }
        }
      ]
    })
    const [choice = expect.fail("no choice")] = Result.getOrThrow(answer).choices
    const calls = parsed(JSON.stringify({ calls: choice.toolCalls ?? [] }))["calls"] ?? []
    const ids = (choice.toolCalls ?? []).map(({ id }) => id)
    const messages = [
      ...hi,
      { role: "assistant", tool_calls: calls },
      ...ids.map((tool_call_id) => ({ role: "tool", tool_call_id, content: "" }))
    ]
    const signed = sent({ model: "m", messages }, { ...strict, signsCalls: true })
    const called = { type: "function", function: { name: "look", arguments: "{}" } }
    expect(signed["messages"]).toEqual([
      ...hi,
      {
        role: "assistant",
        tool_calls: [
          { id: "a", ...called, extra_content },
          { id: "b", ...called }
        ]
      },
      { role: "tool", tool_call_id: "a", content: "" },
      { role: "tool", tool_call_id: "b", content: "" }
    ])
    expect(JSON.stringify(sent({ model: "m", messages }, openAi.dialect))).not.toContain("extra_content")
    const foreign = attach("a", { wire: "responses", extra_content })
    expect(
      JSON.stringify(
        sent(
          { model: "m", messages: [{ role: "assistant", tool_calls: [{ id: foreign, ...called }] }] },
          { ...strict, signsCalls: true }
        )
      )
    ).not.toContain("extra_content")
  })

  test.each([
    ["reasoning", { content: "Hello.", reasoning: "Hm." }],
    ["reasoning_content", { content: "Hello.", reasoning_content: "Hm." }],
    [
      "parts",
      {
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "Hm." }] },
          { type: "text", text: "Hello." }
        ]
      }
    ]
  ] as const)("has earlier thoughts where the vendor wants them, however they are named: %s", (thoughts, expected) => {
    for (const named of [{ reasoning: "Hm." }, { reasoning_content: "Hm." }]) {
      for (const base of [strict, compatible]) {
        const messages = [...hi, { role: "assistant", content: "Hello.", ...named }, ...hi]
        expect(sent({ model: "m", messages }, { ...base, thoughts })["messages"]).toEqual([
          ...hi,
          { role: "assistant", ...expected },
          ...hi
        ])
      }
    }
    const silent = [...hi, { role: "assistant", content: "Hello.", reasoning: "" }]
    expect(sent({ model: "m", messages: silent }, { ...strict, thoughts })["messages"]).toEqual([
      ...hi,
      { role: "assistant", content: "Hello." }
    ])
  })

  test("says what a vendor calls otherwise in its words, and refuses what it has no word for", () => {
    const request = {
      model: "m",
      stream: true,
      seed: 7,
      messages: [{ role: "developer", content: "Be brief." }, ...hi]
    }
    const quirks = { systemOnly: true, usageUnasked: true, seed: "random_seed", lacks: ["user", "verbosity"] } as const
    expect(sent(request, { ...strict, ...quirks })).toEqual({
      model: route.upstreamModel,
      stream: true,
      random_seed: 7,
      messages: [{ role: "system", content: "Be brief." }, ...hi]
    })
    const result = lowered({ ...request, verbosity: "low", user: "u" }, { ...strict, ...quirks })
    expect(Result.isFailure(result) ? result.failure : []).toEqual(["user", "verbosity"])
  })

  test("has no empty lists, which vendors refuse", () => {
    const messages = [...hi, { role: "assistant", content: [], tool_calls: [] }, ...hi]
    expect(sent({ model: "m", messages, tools: [] }, openAi.dialect)).toEqual({
      model: route.upstreamModel,
      messages: [...hi, { role: "assistant", content: "" }, ...hi]
    })
  })
})
