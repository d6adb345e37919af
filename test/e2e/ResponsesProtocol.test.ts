import { Result } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { openAiChatSubscription } from "../../src/adapters/vendors/drivers/OpenAiChatSubscription.ts"
import { ServerSentEvents } from "../../src/adapters/vendors/framing/ServerSentEvents.ts"
import type { Protocol } from "../../src/adapters/vendors/Protocol.ts"
import { openAiResponses, subscriptionResponses } from "../../src/adapters/vendors/protocols/OpenAiResponses.ts"
import type { ChatMessage } from "../../src/domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../src/domain/completion/ChatRequest.ts"
import type { Completion } from "../../src/domain/completion/Completion.ts"
import { Folded } from "../../src/domain/completion/Folded.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { type FakeResponses, startFakeResponses } from "../fixtures/responses/FakeResponses.ts"
import { answer, text, usage } from "../fixtures/responses/Responses.ts"

/** The token of a subscription: its account stands in its claims. */
const account = "0f6a-b2"
const claims = { "https://api.openai.com/auth": { chatgpt_account_id: account } }
const token = `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.x`

interface Side {
  readonly protocol: Protocol
  readonly fake: FakeResponses
}

let platform: Side
let subscription: Side

beforeAll(async () => {
  platform = { protocol: openAiResponses, fake: await startFakeResponses() }
  subscription = {
    protocol: subscriptionResponses,
    fake: await startFakeResponses({ server: "subscription", apiKey: token, account })
  }
})
afterAll(() => Promise.all([platform.fake.close(), subscription.fake.close()]))
beforeEach(() => {
  platform.fake.clear()
  subscription.fake.clear()
})

/** The protocol's request to the fake, and its reading of the answer, streamed or whole. */
const ask = async ({ fake, protocol }: Side, request: ChatRequest): Promise<Completion> => {
  const body = Result.getOrThrow(
    protocol.write(
      {
        route: { method: "service", upstream: "any", upstreamModel: "gpt-fake" },
        request,
        outputCap: undefined,
        outputLimit: 1024
      },
      openAiChatSubscription.dialect
    )
  )
  const response = await fetch(`${fake.baseUrl}${protocol.path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${fake.apiKey}`,
      ...protocol.headers,
      ...openAiChatSubscription.headersOf?.(fake.apiKey)
    },
    body: JSON.stringify(body)
  })
  if (response.status !== 200) throw new Error(protocol.errorText(await response.json()))
  if (request.stream !== true && protocol.streamsOnly !== true) {
    return Result.getOrThrow(protocol.read(await response.json()))
  }
  const frames = new ServerSentEvents()
  const reader = protocol.reader()
  const folded = new Folded()
  const take = (data: ReadonlyArray<string> | null) => {
    for (const one of data ?? expect.fail("a line without end")) {
      for (const event of Result.getOrThrow(reader.read(one))) folded.add(event)
    }
  }
  for await (const bytes of response.body ?? expect.fail("no body")) take(frames.push(bytes))
  take(frames.end())
  expect(reader.isComplete()).toBe(true)
  for (const event of reader.finish()) folded.add(event)
  return folded.completion
}

const model = "m"
const question: ChatMessage = { role: "user", content: "What is the weather in Oslo?" }
const tools: ChatRequest["tools"] = [
  { type: "function", function: { name: "weather", parameters: { type: "object" } } },
  { type: "function", function: { name: "time" } }
]

/** Each side in each way that it can answer. */
const ways: ReadonlyArray<[string, () => Side, boolean]> = [
  ["the platform, whole", () => platform, false],
  ["the platform, streamed", () => platform, true],
  ["a subscription, folded", () => subscription, false],
  ["a subscription, streamed", () => subscription, true]
]

describe.each(ways)("by the rules of %s", (_, side, stream) => {
  test("a conversation with calls goes on where it thought", async () => {
    const { fake } = side()
    fake.next(
      answer([
        { reasoning: ["I have to look.", "Twice."] },
        { text: "Let me look." },
        { call: "weather", arguments: { city: "Oslo" }, id: "call_1" },
        { call: "time", arguments: {}, id: "call_2" }
      ]),
      text("Sunny.", { usage: usage({ input: 50, cached: 20, output: 9, reasoning: 4 }) })
    )
    const messages: ReadonlyArray<ChatMessage> = [{ role: "system", content: "Be brief." }, question]
    const common = { model, tools, stream, include_reasoning: true } as const
    const [first] = (await ask(side(), { ...common, messages })).choices
    expect(first).toMatchObject({
      content: "Let me look.",
      reasoning: "I have to look.\n\nTwice.",
      finishReason: "tool_calls",
      toolCalls: [{ function: { name: "weather", arguments: `{"city":"Oslo"}` } }, { function: { name: "time" } }]
    })
    const { content, reasoning = "", toolCalls = [] } = first ?? expect.fail("no choice")
    const second = await ask(side(), {
      ...common,
      messages: [
        ...messages,
        { role: "assistant", content, reasoning, tool_calls: toolCalls },
        ...toolCalls.map(({ id }): ChatMessage => ({ role: "tool", tool_call_id: id, content: "sunny, noon" }))
      ]
    })
    expect(second).toEqual({
      choices: [{ index: 0, finishReason: "stop", content: "Sunny." }],
      serviceTier: "default",
      usage: { input: 30, cacheRead: 20, cacheWrite: 0, output: 5, reasoning: 4 }
    })
    // The fake itself refuses reasoning that is not as it was sealed, and calls without their answers.
    expect(fake.requests[1]?.body.input).toMatchObject([
      ...(side() === platform ? [{ role: "system" }] : []),
      { role: "user" },
      { type: "reasoning", summary: [{ text: "I have to look." }, { text: "Twice." }] },
      { role: "assistant", content: "Let me look." },
      { type: "function_call", call_id: "call_1" },
      { type: "function_call", call_id: "call_2" },
      { type: "function_call_output", call_id: "call_1", output: "sunny, noon" },
      { type: "function_call_output", call_id: "call_2" }
    ])
  })

  test("everything that the wire can be told passes the vendor's checks", async () => {
    const image = "data:image/png;base64,iVBORw0KGgo="
    const completion = await ask(side(), {
      model,
      stream,
      tools,
      tool_choice: { type: "function", function: { name: "weather" } },
      parallel_tool_calls: false,
      response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } },
      verbosity: "low",
      reasoning_effort: "low",
      reasoning: { summary: "auto" },
      service_tier: "fast",
      prompt_cache_key: "k",
      ...(side() === platform ? { temperature: 1, top_p: 1, max_tokens: 100, user: "u" } : {}),
      messages: [
        { role: "developer", content: [{ type: "text", text: "Be brief." }] },
        {
          role: "user",
          content: [
            { type: "text", text: "What are these?" },
            { type: "image_url", image_url: { url: image } },
            { type: "file", file: { file_data: "https://example.org/a.pdf" } },
            { type: "file", file: { file_data: "JVBERi0x", filename: "a.pdf" } },
            { type: "file", file: { file_data: "JVBERi0x" } }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "I" },
            { type: "refusal", refusal: "No." }
          ]
        },
        { role: "system", content: "Try again." },
        { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "time", arguments: "{}" } }] },
        {
          role: "tool",
          tool_call_id: "a",
          name: "time",
          content: [
            { type: "text", text: "noon" },
            { type: "image", image: "iVBORw0KGgo=" },
            { type: "media", data: "JVBERi0x", mediaType: "application/pdf" },
            { type: "file", data: "AAAA", mimeType: "text/plain" }
          ]
        }
      ]
    })
    expect(completion).toMatchObject({ choices: [{ content: "Hello from the fake." }], serviceTier: "priority" })
  })

  test("however the packets are cut", async () => {
    side().fake.next(Faults.packets(7)(answer([{ text: "Zwölf 🥊" }, { refusal: "Nein – 👩‍👩‍👧‍👦." }])))
    expect((await ask(side(), { model, messages: [question], stream })).choices).toEqual([
      { index: 0, finishReason: "stop", content: "Zwölf 🥊", refusal: "Nein – 👩‍👩‍👧‍👦." }
    ])
  })

  test("a failed answer is an error with the vendor's words", async () => {
    side().fake.next(answer([], { error: { code: "server_error", message: "Overloaded" } }))
    await expect(ask(side(), { model, messages: [question], stream })).rejects.toMatchObject({
      _tag: "UpstreamSaid",
      detail: "Overloaded"
    })
  })
})

test("what either server refuses has its words", async () => {
  const wrong: ChatRequest = { model, messages: [{ role: "tool", tool_call_id: "a", content: "" }] }
  for (const side of [platform, subscription]) {
    await expect(ask(side, wrong)).rejects.toThrow("No tool call found for function call output with call_id a.")
  }
})
