import { Effect, Result, Stream } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { anthropic } from "../../src/adapters/vendors/drivers/Anthropic.ts"
import type { AssistantMessage, ChatMessage, ToolCall } from "../../src/domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../src/domain/completion/ChatRequest.ts"
import type { CompletionEvent } from "../../src/domain/completion/CompletionEvent.ts"
import * as Errors from "../fixtures/anthropic/Errors.ts"
import { type FakeAnthropic, startFakeAnthropic } from "../fixtures/anthropic/FakeAnthropic.ts"
import { errorEvent, text, toolUse } from "../fixtures/anthropic/Messages.ts"
import { sign } from "../fixtures/anthropic/Signature.ts"
import * as Faults from "../fixtures/openai/Faults.ts"

/** The protocol over a real socket against the strict fake; what the transport adds is of other tests. */
let fake: FakeAnthropic

beforeAll(async () => {
  fake = await startFakeAnthropic()
})
afterAll(() => fake.close())
beforeEach(() => fake.clear())

const { protocol } = anthropic

const post = (request: Omit<ChatRequest, "model">, model: string) => {
  const body = Result.getOrThrow(
    protocol.write(
      {
        route: { method: "service", upstream: anthropic.id, upstreamModel: model },
        request: { model, ...request },
        outputCap: undefined,
        outputLimit: 4096
      },
      anthropic.dialect
    )
  )
  return fetch(fake.baseUrl + protocol.path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": fake.apiKey, ...protocol.headers },
    body: JSON.stringify(body)
  })
}

/** The answer as a client would return it. */
const ask = async (request: Omit<ChatRequest, "model">, model: string): Promise<AssistantMessage> => {
  const response = await post(request, model)
  if (response.status !== 200) expect.fail(protocol.errorText(await response.json()) ?? `status ${response.status}`)
  return request.stream === true ? folded(await eventsOf(response)) : whole(await response.json())
}

const whole = (body: unknown): AssistantMessage => {
  const [choice] = Result.getOrThrow(protocol.read(body)).choices
  const { content = null, reasoning, toolCalls = [] } = choice ?? {}
  return { role: "assistant", content, tool_calls: toolCalls, ...(reasoning === undefined ? {} : { reasoning }) }
}

const eventsOf = async (response: Response): Promise<ReadonlyArray<CompletionEvent>> => {
  const reader = protocol.reader()
  const frames = (await response.text()).split("\n\n").flatMap((frame) => /^data: (.*)$/mu.exec(frame)?.[1] ?? [])
  return await Stream.fromIterable(frames).pipe(
    Stream.mapEffect((frame) => Effect.fromResult(reader.read(frame))),
    Stream.runCollect,
    Effect.map((events) => [...events.flat(), ...reader.finish()]),
    Effect.runPromise
  )
}

const folded = (events: ReadonlyArray<CompletionEvent>): AssistantMessage => {
  let content = ""
  let reasoning = ""
  const calls: Array<ToolCall> = []
  for (const event of events) {
    if (event._tag === "Usage") continue
    content += event.content ?? ""
    reasoning += event.reasoning ?? ""
    for (const { arguments: json = "", id, index, name } of event.toolCalls ?? []) {
      const { function: before, id: known } = calls[index] ?? { id: "", function: { name: "", arguments: "" } }
      calls[index] = {
        id: id ?? known,
        type: "function",
        function: { name: name ?? before.name, arguments: before.arguments + json }
      }
    }
  }
  return { role: "assistant", content, reasoning, tool_calls: calls }
}

const tools: ChatRequest["tools"] = [
  { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }
]
const hi: ChatMessage = { role: "user", content: "Is it warm?" }
const results = ({ tool_calls = [] }: AssistantMessage): ReadonlyArray<ChatMessage> =>
  tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "7 °C" }))

describe.each([
  ["claude-opus-5-5", false],
  ["claude-opus-5-5", true],
  ["claude-sonnet-4-5", false],
  ["claude-sonnet-4-5", true]
])("a tool loop with %s (stream: %s)", (model, stream) => {
  test("goes on with the thinking that the vendor signed, which it checks", async () => {
    const asked = { stream, tools, reasoning_effort: "low" }
    fake.next(
      toolUse(
        [
          { tool: "weather", input: { city: "Oslo" }, id: "toolu_1" },
          { tool: "weather", input: {}, id: "toolu_2" }
        ],
        { blocks: [{ thinking: "Two cities." }, { text: "Let me see." }, { redacted: "xx" }, { text: "Now." }] }
      ),
      toolUse([{ tool: "weather", input: {}, id: "toolu_3" }], { blocks: [{ thinking: "" }] }),
      text("It is cold.")
    )
    const first = await ask({ ...asked, messages: [hi] }, model)
    expect(first).toMatchObject({ content: "Let me see.Now.", reasoning: "Two cities." })
    const loop = [hi, first, ...results(first)]
    const second = await ask({ ...asked, messages: loop }, model)
    const longer = [...loop, second, ...results(second)]
    const third = await ask({ ...asked, messages: longer }, model)
    expect(third.content).toBe("It is cold.")
    const last = fake.requests.at(-1)?.body.messages ?? []
    expect(last).toMatchObject([
      {},
      {
        content: [
          { type: "thinking", thinking: "Two cities.", signature: sign("Two cities.") },
          { type: "text", text: "Let me see." },
          { type: "redacted_thinking", data: "xx" },
          { type: "text", text: "Now." },
          { type: "tool_use", id: "toolu_1", input: { city: "Oslo" } },
          { type: "tool_use", id: "toolu_2", input: {} }
        ]
      },
      { content: [{ tool_use_id: "toolu_1" }, { tool_use_id: "toolu_2" }] },
      { content: [{ type: "thinking", thinking: "", signature: sign("") }, { id: "toolu_3" }] },
      { content: [{ tool_use_id: "toolu_3" }] }
    ])
    expect(fake.requests.map(({ body }) => body.thinking?.type)).toEqual(
      Array(3).fill(model.includes("opus") ? "adaptive" : "enabled")
    )
  })

  test("goes on without it when the client kept ids of its own", async () => {
    fake.next(toolUse([{ tool: "weather", input: {} }], { blocks: [{ thinking: "Hm." }] }), text("It is cold."))
    const first = await ask({ stream, tools, reasoning_effort: "low", messages: [hi] }, model)
    const own = { ...first, tool_calls: (first.tool_calls ?? []).map((call) => ({ ...call, id: "call:1" })) }
    const messages = [hi, own, ...results(own)]
    expect((await ask({ stream, tools, reasoning_effort: "low", messages }, model)).content).toBe("It is cold.")
    expect(JSON.stringify(fake.requests.at(-1)?.body.messages)).not.toContain("thinking")
  })
})

test("the vendor's refusals and errors keep their words", async () => {
  await expect(ask({ messages: [hi], temperature: 0.5 }, "claude-opus-5-5")).rejects.toThrow(/deprecated/u)
  fake.next(Errors.overloaded)
  await expect(ask({ messages: [hi] }, "claude-opus-5-5")).rejects.toThrow("Overloaded")
  fake.next(Faults.insertAt(4, errorEvent("overloaded_error", "Overloaded"))(text("one two three")))
  await expect(ask({ messages: [hi], stream: true }, "claude-opus-5-5")).rejects.toMatchObject({
    _tag: "UpstreamSaid",
    detail: "Overloaded"
  })
})
