import { assert, layer } from "@effect/vitest"
import { type Cause, Deferred, Duration, Effect, Fiber, Layer, Queue, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Drain } from "../../../src/adapters/http/edge/Drain.ts"
import { RequestState } from "../../../src/adapters/http/edge/RequestState.ts"
import { EventStreams, type Recorder } from "../../../src/adapters/http/gateway/EventStreams.ts"
import type { Outlet } from "../../../src/adapters/http/gateway/Outlet.ts"
import type { ChatEvent } from "../../../src/application/completion/CompleteChat.ts"
import { UpstreamFailed } from "../../../src/domain/completion/CompletionErrors.ts"
import { errorChunk } from "./ContractSchemas.ts"

const answer = { id: "chatcmpl-1", created: 7, model: "m", includeReasoning: true }

const say = (content: string): ChatEvent => ({ _tag: "Delta", index: 0, content })

const streams = EventStreams.layer.pipe(
  Layer.provideMerge(Drain.layer({ delay: Duration.zero, timeout: Duration.seconds(1) }))
)

/** Keeps what it is sent; after `room` pieces it takes no more. */
class Reader implements Outlet {
  readonly received: Array<string> = []
  readonly #room: number
  ended = false

  constructor(room = Number.POSITIVE_INFINITY) {
    this.#room = room
  }

  get writableNeedDrain(): boolean {
    return this.received.length >= this.#room
  }

  writeHead(status: number, headers: Record<string, string>): void {
    assert.strictEqual(status, 200)
    assert.strictEqual(headers["content-type"], "text/event-stream")
    assert.strictEqual(headers["x-request-id"], "request-1")
  }

  write(text: string): boolean {
    this.received.push(text)
    return !this.writableNeedDrain
  }

  end(text: string): void {
    this.received.push(text)
    this.ended = true
  }

  once(): void {}
  off(): void {}

  destroy(): void {
    this.ended = true
  }
}

/** Notes what it is told, and what the client had got by then of the end. */
class Notes implements Recorder {
  readonly told: Array<string> = []
  readonly #response: Reader

  constructor(response: Reader) {
    this.#response = response
  }

  add(text: string): void {
    this.told.push(text)
  }

  complete(last: string): Effect.Effect<void> {
    return this.#end(last)
  }

  get discard(): Effect.Effect<void> {
    return this.#end("discarded")
  }

  #end(note: string): Effect.Effect<void> {
    return Effect.andThen(
      Effect.yieldNow,
      Effect.sync(() => void this.told.push(note, this.#response.ended ? "too late" : "in time"))
    )
  }
}

/** A stream that says what the test puts in, and the text that has reached the client so far. */
const opened = (shown = answer) =>
  Effect.gen(function* () {
    const events = yield* Queue.unbounded<ChatEvent, UpstreamFailed | Cause.Done>()
    const response = new Reader()
    const notes = new Notes(response)
    const reading = yield* Effect.forkScoped(
      (yield* EventStreams).respond(
        Stream.fromQueue(events),
        shown,
        false,
        response,
        new RequestState("request-1", 0),
        notes
      )
    )
    yield* TestClock.adjust(0)
    return { events, received: response.received, told: notes.told, reading }
  })

layer(streams)("an event stream to a client", (it) => {
  it.effect("says a word that nobody hears after fifteen seconds of silence, and again", () =>
    Effect.gen(function* () {
      const { events, received } = yield* opened()
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
      const { events, received } = yield* opened({ ...answer, includeReasoning: false })
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
      const slow = new Reader(10)
      yield* Effect.forkScoped(
        (yield* EventStreams).respond(endless, answer, false, slow, new RequestState("request-1", 0))
      )
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(taken, 10)
      assert.isFalse(slow.ended)
      yield* TestClock.adjust("5 minutes")
      assert.isTrue(slow.ended)
    })
  )

  it.effect("ends with the vendor's failure, and without the sign of a good end", () =>
    Effect.gen(function* () {
      const { events, reading, received } = yield* opened()
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

  it.effect("tells a recorder all that the client gets but the pings, and its end before the client has that", () =>
    Effect.gen(function* () {
      const { events, reading, received, told } = yield* opened()
      yield* Queue.offer(events, say("one"))
      yield* TestClock.adjust("20 seconds")
      yield* Queue.offer(events, say("two"))
      yield* TestClock.adjust("1 second")
      yield* Queue.end(events)
      yield* Fiber.join(reading)
      assert.strictEqual(told.pop(), "in time")
      assert.strictEqual(told.join(""), received.filter((text) => !text.includes("ping")).join(""))
      assert.strictEqual(told.at(-1), "data: [DONE]\n\n")
    })
  )

  it.effect("tells a recorder of a bad end before the client", () =>
    Effect.gen(function* () {
      const { events, reading, received, told } = yield* opened()
      yield* Queue.offer(events, say("one"))
      yield* Queue.fail(events, new UpstreamFailed({ upstream: "v", reason: "cut_off", detail: "" }))
      yield* Fiber.join(reading)
      assert.deepStrictEqual(told, [received[0] ?? "", "discarded", "in time"])
    })
  )

  it.effect("ends with an error when the service stops for good", () =>
    Effect.gen(function* () {
      const { events, reading, received } = yield* opened()
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
