import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Stream } from "effect"
import * as EgressLive from "../../../src/adapters/egress/EgressLive.ts"
import { compatible } from "../../../src/adapters/vendors/drivers/Compatible.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"
import * as VendorsLive from "../../../src/adapters/vendors/VendorsLive.ts"
import { Tokenizer } from "../../../src/application/ports/runtime/Tokenizer.ts"
import { Upstreams } from "../../../src/application/ports/vendor/Upstreams.ts"
import { text } from "../../fixtures/openai/Completions.ts"
import { fakeOpenAi } from "../../fixtures/openai/FakeOpenAi.ts"

const provider = {
  id: "chosen",
  auth: "bearer",
  protocol: openAiChat,
  dialect: compatible,
  baseUrl: "https://vendor.invalid/v1",
  apiKey: undefined
} as const

const upstreams = (allowPrivate: boolean) =>
  VendorsLive.layer([], {}, [provider]).pipe(
    Layer.provide(Layer.succeed(Tokenizer, { count: (text) => text.length })),
    Layer.provide(EgressLive.layer({ allowPrivate }))
  )

/** What an upstream at an address that a caller chose says. */
const answer = (baseUrl: string, apiKey: string) =>
  Effect.gen(function* () {
    const { stream } = yield* Upstreams
    const events = yield* stream({
      route: { upstream: provider.id, upstreamModel: "gpt-fake" },
      request: { model: "m", messages: [{ role: "user", content: "Hi" }], stream: true },
      apiKey: Redacted.make(apiKey),
      provider: { baseUrl },
      outputCap: undefined,
      outputLimit: 100
    })
    const parts = yield* Stream.runCollect(events)
    return parts.map((event) => (event._tag === "Delta" ? (event.content ?? "") : "")).join("")
  }).pipe(Effect.scoped)

describe("an address that a caller chose", () => {
  it.live.each([
    { called: "loopback", host: "127.0.0.1" },
    { called: "a name of this machine", host: "localhost" },
    { called: "a decimal number", host: "2130706433" },
    { called: "mapped", host: "[::ffff:127.0.0.1]" },
    { called: "IPv6 loopback", host: "[::1]" }
  ])("is connected to only if it is public: $called", ({ host }) =>
    Effect.gen(function* () {
      const fake = yield* fakeOpenAi()
      fake.respond(text("Good morning to you."))
      const { port } = new URL(fake.baseUrl)
      const failure = yield* Effect.flip(answer(`http://${host}:${port}/v1`, fake.apiKey))
      assert.strictEqual(failure._tag, "UpstreamFailed")
      assert.include(
        failure._tag === "UpstreamFailed" ? failure.detail : "",
        "is not an address that this service calls"
      )
      assert.lengthOf(fake.requests, 0)
    }).pipe(Effect.scoped, Effect.provide(upstreams(false)))
  )

  it.live.each([{ host: "127.0.0.1" }, { host: "localhost" }])(
    "is connected to where the operator allows private ones: $host",
    ({ host }) =>
      Effect.gen(function* () {
        const fake = yield* fakeOpenAi()
        fake.respond(text("Good morning to you."))
        const { port } = new URL(fake.baseUrl)
        assert.strictEqual(yield* answer(`http://${host}:${port}/v1`, fake.apiKey), "Good morning to you.")
        assert.lengthOf(fake.requests, 1)
      }).pipe(Effect.scoped, Effect.provide(upstreams(true)))
  )
})
