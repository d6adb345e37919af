import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Stream } from "effect"
import * as EgressLive from "../../../src/adapters/egress/EgressLive.ts"
import type { Deadlines } from "../../../src/adapters/vendors/Deadlines.ts"
import { compatible } from "../../../src/adapters/vendors/drivers/Compatible.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"
import * as VendorsLive from "../../../src/adapters/vendors/VendorsLive.ts"
import { Tokenizer } from "../../../src/application/ports/runtime/Tokenizer.ts"
import { type UpstreamCall, Upstreams } from "../../../src/application/ports/vendor/Upstreams.ts"
import { startRawUpstream } from "../../faults/RawUpstream.ts"
import { text } from "../../fixtures/openai/Completions.ts"
import * as Errors from "../../fixtures/openai/Errors.ts"
import { fakeOpenAi, type FakeOpenAi } from "../../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../../fixtures/openai/Faults.ts"

const good = text("Good morning to you.")

const millis = (deadlines: Readonly<Partial<Record<keyof Deadlines, number>>>): Partial<Deadlines> =>
  Object.fromEntries(Object.entries(deadlines).map(([name, value]) => [name, Duration.millis(value)]))

const upstreams = (baseUrl: string, apiKey: string, deadlines: Readonly<Partial<Record<keyof Deadlines, number>>>) =>
  VendorsLive.layer(
    [{ id: "fake", auth: "bearer", protocol: openAiChat, dialect: compatible, baseUrl, apiKey }],
    millis(deadlines)
  ).pipe(
    Layer.provide(Layer.succeed(Tokenizer, { count: (text) => text.length })),
    Layer.provide(EgressLive.layer({ allowPrivate: true }))
  )

const call = (stream: boolean): UpstreamCall => ({
  route: { method: "service", upstream: "fake", upstreamModel: "gpt-fake" },
  request: { model: "m", messages: [{ role: "user", content: "Hi" }], stream },
  outputCap: undefined,
  outputLimit: 100
})

/** What came of one call: the text, or the reason why not. `ms` from its beginning. */
const outcome = (stream: boolean) =>
  Effect.gen(function* () {
    const { complete, stream: open } = yield* Upstreams
    const started = performance.now()
    let said = ""
    const served = stream
      ? Effect.scoped(
          Effect.flatMap(open(call(true)), (events) =>
            Stream.runForEach(events, (event) =>
              Effect.sync(() => void (said += event._tag === "Delta" ? (event.content ?? "") : ""))
            )
          )
        )
      : Effect.map(complete(call(false)), ({ choices }) => void (said = choices[0]?.content ?? ""))
    const ended = yield* Effect.match(served, {
      onSuccess: () => "well",
      onFailure: (error) => (error._tag === "UpstreamFailed" ? error.reason : error._tag)
    })
    return { said, ended, ms: performance.now() - started }
  })

const forms = [{ stream: false }, { stream: true }]

/** A test with the fake upstream, on the real clock. */
const withFake = <E>(
  deadlines: Readonly<Partial<Record<keyof Deadlines, number>>>,
  use: (fake: FakeOpenAi) => Effect.Effect<void, E, Upstreams>
) =>
  Effect.scoped(
    Effect.flatMap(fakeOpenAi(), (fake) => Effect.provide(use(fake), upstreams(fake.baseUrl, fake.apiKey, deadlines)))
  )

describe("an upstream's deadlines", () => {
  it.live.each([
    ...forms.map((form) => ({ ...form, where: "before its head", hang: Faults.hangAfter(0) })),
    ...forms.map((form) => ({ ...form, where: "after its head", hang: Faults.hangAfterHeaders }))
  ])("end a call that hangs $where, asked once (stream: $stream)", ({ hang, stream }) =>
    withFake({ firstByte: 300 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(hang(good))
        const { ended, ms } = yield* outcome(stream)
        assert.strictEqual(ended, "timeout")
        assert.isAtLeast(ms, 290)
        assert.isBelow(ms, 2_000)
        assert.lengthOf(fake.requests, 1)
        assert.strictEqual((yield* Effect.promise(() => fake.requests[0]?.ended ?? assert.fail())).by, "client")
      })
    )
  )

  it.live.each(forms)("leave a model that has sent its head time to think (stream: $stream)", ({ stream }) =>
    withFake({ firstByte: 3_000, idle: 100 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(async (request) => {
          const { steps, ...head } = await good(request)
          return { ...head, steps: [{ write: "" }, { wait: 400 }, ...steps] }
        })
        const { ended, said } = yield* outcome(stream)
        assert.deepStrictEqual({ ended, said }, { ended: "well", said: "Good morning to you." })
      })
    )
  )

  it.live("end a stream that stands still, after what had come", () =>
    withFake({ idle: 300 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(Faults.hangAfter(3)(good))
        const { ended, ms, said } = yield* outcome(true)
        assert.deepStrictEqual({ ended, said }, { ended: "stalled", said: "Good morning" })
        assert.isAtLeast(ms, 290)
        assert.isBelow(ms, 2_000)
      })
    )
  )

  it.live("end a whole answer that stands still, asked once", () =>
    withFake({ idle: 300 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(Faults.hangAfter(1)(Faults.packets(20)(good)))
        assert.strictEqual((yield* outcome(false)).ended, "stalled")
        assert.lengthOf(fake.requests, 1)
      })
    )
  )

  it.live.each(forms)("leave an answer that trickles time (stream: $stream)", ({ stream }) =>
    withFake({ idle: 300 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(Faults.every(60)(Faults.packets(stream ? 150 : 40)(good)))
        const { ended, ms, said } = yield* outcome(stream)
        assert.deepStrictEqual({ ended, said }, { ended: "well", said: "Good morning to you." })
        assert.isAbove(ms, 400)
      })
    )
  )

  it.live.each(forms)("end an answer that trickles for ever (stream: $stream)", ({ stream }) =>
    withFake({ total: 500 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(() => ({
          status: 200,
          headers: {},
          steps: Array.from({ length: 100 }, () => [{ write: ": wait\n\n" }, { wait: 50 }]).flat()
        }))
        const { ended, ms } = yield* outcome(stream)
        assert.strictEqual(ended, "stalled")
        assert.isBelow(ms, 2_000)
      })
    )
  )

  it.live("wait for whoever reads slowly", () =>
    withFake({ idle: 200 }, (fake) =>
      Effect.gen(function* () {
        const chunk = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(60_000) } }] })}\n\n`
        fake.respond(async (request) => {
          const { steps, ...head } = await good(request)
          return { ...head, steps: [...Array.from({ length: 40 }, () => ({ write: chunk })), ...steps] }
        })
        const { stream } = yield* Upstreams
        const events = yield* stream(call(true))
        let pauses = 3
        yield* Stream.runForEachArray(events, () => (pauses-- > 0 ? Effect.sleep("500 millis") : Effect.void))
      }).pipe(Effect.scoped)
    )
  )

  it.live("end an error without its body, with what its status says", () =>
    withFake({ idle: 100 }, (fake) =>
      Effect.gen(function* () {
        fake.respond(Faults.hangAfterHeaders(Errors.wrongKey("sk-wrong-key-0123456789")))
        const { ended, ms } = yield* outcome(false)
        assert.strictEqual(ended, "credentials_refused")
        assert.isBelow(ms, 2_000)
      })
    )
  )

  it.live("end an attempt to connect, three times", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const silent = yield* Effect.acquireRelease(Effect.promise(startRawUpstream), ({ close }) =>
          Effect.promise(close)
        )
        silent.respond(() => undefined)
        // It takes the connection, and never says a word of the handshake.
        const baseUrl = silent.baseUrl.replace("http:", "https:")
        const { ended, ms } = yield* Effect.provide(outcome(false), upstreams(baseUrl, "key", { connect: 200 }))
        assert.strictEqual(ended, "unreachable")
        assert.isBelow(ms, 10_000)
        assert.strictEqual(silent.total(), 3)
      })
    )
  )
})
