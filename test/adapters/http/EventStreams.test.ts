import { assert, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Queue, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Drain } from "../../../src/adapters/http/edge/Drain.ts"
import { EventStreams } from "../../../src/adapters/http/gateway/EventStreams.ts"
import type { ChatEvent } from "../../../src/application/completion/CompleteChat.ts"
import { UpstreamFailed } from "../../../src/domain/completion/CompletionErrors.ts"
import { errorChunk } from "./ContractSchemas.ts"

const answer = { id: "chatcmpl-1", created: 7, model: "m", includeReasoning: true }

const say = (content: string): ChatEvent => ({ _tag: "Delta", index: 0, content })

const streams = EventStreams.layer.pipe(
  Layer.provideMerge(Drain.layer({ delay: Duration.zero, timeout: Duration.seconds(1) }))
)

/** A stream that says what the test puts in, and the text that has reached the client so far. */
const opened = Effect.gen(function* () {
  const events = yield* Queue.unbounded<ChatEvent, UpstreamFailed>()
  const { body } = yield* (yield* EventStreams).respond(Stream.fromQueue(events), answer, false, "request-1")
  if (body._tag !== "Stream") return assert.fail("the answer is no stream")
  const received: Array<string> = []
  const reading = yield* Stream.runForEach(body.stream, (piece) =>
    Effect.sync(() => void received.push(new TextDecoder().decode(piece)))
  ).pipe(Effect.forkScoped)
  return { events, received, reading }
})

layer(streams)("an event stream to a client", (it) => {
  it.effect("says a word that nobody hears after fifteen seconds of silence, and again", () =>
    Effect.gen(function* () {
      const { events, received } = yield* opened
      yield* Queue.offer(events, say("one"))
      yield* TestClock.adjust("10 seconds")
      yield* Queue.offer(events, say("two"))
      yield* TestClock.adjust("14 seconds")
      assert.strictEqual(received.filter((text) => text.includes("ping")).length, 0)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(received.slice(2), [": ping\n"])
      yield* TestClock.adjust("31 seconds")
      assert.deepStrictEqual(received.slice(2), [": ping\n", ": ping\n", ": ping\n"])
    })
  )

  it.effect("is silent too while nothing of what the model thinks is for the client", () =>
    Effect.gen(function* () {
      const events = yield* Queue.unbounded<ChatEvent, UpstreamFailed>()
      const hidden = { ...answer, includeReasoning: false }
      const { body } = yield* (yield* EventStreams).respond(Stream.fromQueue(events), hidden, false, "request-1")
      if (body._tag !== "Stream") return assert.fail("the answer is no stream")
      const received: Array<string> = []
      yield* Stream.runForEach(body.stream, (piece) =>
        Effect.sync(() => void received.push(new TextDecoder().decode(piece)))
      ).pipe(Effect.forkScoped)
      for (let second = 0; second < 20; second++) {
        yield* Queue.offer(events, { _tag: "Delta", index: 0, reasoning: "hm" })
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(received.slice(1), [": ping\n"])
    })
  )

  it.effect("takes no more from the vendor than a slow client can be sent", () =>
    Effect.gen(function* () {
      let taken = 0
      const endless = Stream.fromEffectRepeat(Effect.sync(() => say(`${taken++}`))).pipe(Stream.rechunk(1))
      yield* (yield* EventStreams).respond(endless, answer, false, "request-1")
      yield* TestClock.adjust("1 minute")
      assert.isBelow(taken, 50)
    })
  )

  it.effect("ends with the vendor's failure, and without the sign of a good end", () =>
    Effect.gen(function* () {
      const { events, reading, received } = yield* opened
      yield* Queue.offer(events, say("one"))
      yield* Queue.fail(events, new UpstreamFailed({ upstream: "v", reason: "cut_off", detail: "secret" }))
      yield* Fiber.join(reading)
      const last = received.join("").split("\n\n").at(-2) ?? ""
      const { error } = errorChunk(JSON.parse(last.replace("data: ", "")))
      assert.deepInclude(error, { code: "upstream_error", requestId: "request-1", retryable: true })
      assert.notInclude(received.join(""), "[DONE]")
      assert.notInclude(received.join(""), "secret")
    })
  )

  it.effect("ends with an error when the service stops for good", () =>
    Effect.gen(function* () {
      const { events, reading, received } = yield* opened
      yield* Queue.offer(events, say("one"))
      yield* TestClock.adjust("1 second")
      yield* Deferred.succeed((yield* Drain).deadline, undefined)
      yield* Fiber.join(reading)
      const last = received.join("").split("\n\n").at(-2) ?? ""
      const { error } = errorChunk(JSON.parse(last.replace("data: ", "")))
      assert.deepInclude(error, { code: "service_unavailable", requestId: "request-1", retryable: true })
    })
  )
})
