import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Stream } from "effect"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { text as textOf } from "node:stream/consumers"
import * as ExternalModelsLive from "../../../src/adapters/aisdk/ExternalModelsLive.ts"
import { listedProviders } from "../../../src/adapters/catalogue/ProviderList.ts"
import * as EgressLive from "../../../src/adapters/egress/EgressLive.ts"
import { ExternalModels } from "../../../src/application/ports/vendor/ExternalModels.ts"
import type { ChatMessage } from "../../../src/domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../../src/domain/completion/ChatRequest.ts"
import { Folded } from "../../../src/domain/completion/Folded.ts"
import { fakeAnthropic } from "../../fixtures/anthropic/FakeAnthropic.ts"
import { text } from "../../fixtures/openai/Completions.ts"
import { fakeOpenAi } from "../../fixtures/openai/FakeOpenAi.ts"
import { fakeResponses } from "../../fixtures/responses/FakeResponses.ts"
import { answer } from "../../fixtures/responses/Responses.ts"

const ask = (
  provider: string,
  { address, apiKey }: { readonly address: string; readonly apiKey: string },
  request: Partial<ChatRequest> = {}
) =>
  Effect.gen(function* () {
    const folded = new Folded()
    const events = yield* (yield* ExternalModels).stream({
      provider,
      apiKey: Redacted.make(apiKey),
      baseUrl: undefined,
      outputLimit: 1_000,
      request: { model: "some-model", messages: [{ role: "user", content: "Hi" }], stream: true, ...request }
    })
    yield* Stream.runForEach(events, (event) => Effect.sync(() => folded.add(event)))
    return folded.completion
  }).pipe(
    Effect.scoped,
    Effect.provide(
      ExternalModelsLive.layer(new Map([[provider, address]])).pipe(
        Layer.provide(EgressLive.layer({ allowPrivate: false }))
      )
    )
  )

/** Google's own wire: answers every request with the same event, and keeps what was asked. */
const fakeGoogle = (event: unknown) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const requests: Array<{ url: string; headers: IncomingHttpHeaders; text: string }> = []
      const server = createServer((request, response) => {
        void textOf(request).then((text) => {
          requests.push({ url: request.url ?? "", headers: request.headers, text })
          response.writeHead(200, { "content-type": "text/event-stream" }).end(`data: ${JSON.stringify(event)}\r\n\r\n`)
        })
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      if (address === null || typeof address === "string") throw new Error("the fake server has no port")
      return { server, requests, address: `http://127.0.0.1:${address.port}/v1beta/openai` }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        const closed = once(server, "close")
        server.close()
        server.closeAllConnections()
        await closed
      })
  )

describe("providers by the libraries of the SDK", () => {
  it.live.each(listedProviders.filter(({ id }) => id !== "google"))("$id answers", ({ id }) =>
    Effect.gen(function* () {
      const fake = yield* id === "anthropic"
        ? fakeAnthropic()
        : id === "openai" || id === "xai"
          ? fakeResponses()
          : Effect.tap(fakeOpenAi({ strict: false }), ({ respond }) =>
              // Some vendors tell their usage unasked.
              Effect.sync(() => respond(text("Hello from the fake.", { usageWithFinish: true })))
            )
      const { choices, usage } = yield* ask(id, { address: fake.baseUrl, apiKey: fake.apiKey })
      assert.strictEqual(choices[0]?.content, "Hello from the fake.")
      assert.strictEqual(choices[0]?.finishReason, "stop")
      // Groq has a field of its own for it.
      if (id !== "groq") assert.strictEqual(usage?.input, 12)
      const [asked] = fake.requests
      if (id === "openai" || id === "xai") assert.include(asked?.text, '"store":false')
      if (id === "anthropic") assert.include(asked?.text, '"max_tokens":1000')
    })
  )

  it.live("google answers on its own wire, and has its signatures back", () =>
    Effect.gen(function* () {
      const fake = yield* fakeGoogle({
        candidates: [
          {
            content: {
              role: "model",
              parts: [
                { text: "Let me see.", thought: true },
                { functionCall: { name: "look", args: { at: "it" } }, thoughtSignature: "signed-by-google" }
              ]
            },
            finishReason: "STOP"
          }
        ],
        usageMetadata: {
          promptTokenCount: 12,
          cachedContentTokenCount: 3,
          candidatesTokenCount: 4,
          thoughtsTokenCount: 5,
          totalTokenCount: 21
        }
      })
      const tools = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }] as const
      const first = yield* ask("google", { address: fake.address, apiKey: "google-key" }, { tools })
      const [choice] = first.choices
      assert.strictEqual(choice?.reasoning, "Let me see.")
      assert.strictEqual(choice?.finishReason, "tool_calls")
      assert.deepStrictEqual(first.usage, { input: 9, cacheRead: 3, cacheWrite: 0, output: 4, reasoning: 5 })
      const [called, ...others] = choice?.toolCalls ?? []
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(JSON.parse(called?.function.arguments ?? ""), { at: "it" })

      yield* ask(
        "google",
        { address: fake.address, apiKey: "google-key" },
        {
          tools,
          messages: [
            { role: "user", content: "Hi" },
            { role: "assistant", content: null, tool_calls: choice?.toolCalls ?? [] },
            { role: "tool", tool_call_id: called?.id ?? "", content: "seen" }
          ]
        }
      )
      const [asked, again] = fake.requests
      assert.include(asked?.url, "/v1beta/models/some-model:streamGenerateContent")
      assert.strictEqual(asked?.headers["x-goog-api-key"], "google-key")
      assert.include(again?.text, '"thoughtSignature":"signed-by-google"')
      assert.notInclude(again?.text, "~r1~")
    })
  )

  it.live("openai has its encrypted reasoning back with the calls that came of it", () =>
    Effect.gen(function* () {
      const fake = yield* fakeResponses()
      const own = { address: fake.baseUrl, apiKey: fake.apiKey }
      const tools = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }] as const
      fake.next(
        answer([
          { reasoning: ["Two things to look at."] },
          { call: "look", id: "call_a", arguments: { at: "this" } },
          { call: "look", id: "call_b", arguments: { at: "that" } }
        ])
      )
      const first = yield* ask("openai", own, { model: "gpt-5", tools })
      const calls = first.choices[0]?.toolCalls ?? []
      assert.lengthOf(calls, 2)
      const { choices } = yield* ask("openai", own, {
        model: "gpt-5",
        tools,
        messages: [
          { role: "user", content: "Hi" },
          { role: "assistant", content: null, tool_calls: calls },
          ...calls.map(({ id }): ChatMessage => ({ role: "tool", tool_call_id: id, content: "seen" }))
        ]
      })
      assert.strictEqual(choices[0]?.content, "Hello from the fake.")
      const again = fake.requests[1]?.text ?? ""
      assert.match(again, /"type":"reasoning".*"encrypted_content":".+"call_id":"call_a".*"call_id":"call_b"/)
      assert.notInclude(again, "item_reference")
      assert.notInclude(again, "~r1~")
    })
  )
})
