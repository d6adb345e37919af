import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { Dispatcher } from "undici"
import { toMillis, usualDeadlines } from "../../../src/adapters/vendors/Deadlines.ts"
import { compatible } from "../../../src/adapters/vendors/drivers/Compatible.ts"
import { Exchange } from "../../../src/adapters/vendors/Exchange.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"

const upstream = {
  id: "fake",
  auth: "bearer",
  protocol: openAiChat,
  dialect: compatible,
  baseUrl: "http://127.0.0.1:1/v1",
  apiKey: undefined
} as const

/** A connection as undici shows it. */
class Connection implements Dispatcher.DispatchController {
  aborted = false
  paused = false
  readonly reason = null
  abort(): void {
    this.aborted = true
  }
  pause(): void {
    this.paused = true
  }
  resume(): void {
    this.paused = false
  }
}

/** An answer of which `pieces` of 100 KB have come before anybody looks. */
const begun = (status: number, pieces: number) => {
  const connection = new Connection()
  const exchange = new Exchange(upstream, undefined, toMillis(usualDeadlines), () => undefined)
  exchange.onRequestStart(connection)
  exchange.onResponseStart(connection, status, {})
  for (let piece = 0; piece < pieces; piece++) exchange.onResponseData(connection, Buffer.alloc(100_000, "x"))
  return { connection, exchange }
}

describe("an answer that comes faster than it is read", () => {
  it.effect("is held back, then collected as a whole", () =>
    Effect.gen(function* () {
      const { connection, exchange } = begun(200, 4)
      assert.isTrue(connection.paused)
      const text = yield* Effect.forkChild(exchange.text, { startImmediately: true })
      assert.isFalse(connection.paused)
      for (let piece = 0; piece < 10; piece++) exchange.onResponseData(connection, Buffer.alloc(100_000, "x"))
      assert.isFalse(connection.paused)
      exchange.onResponseEnd()
      assert.strictEqual((yield* Fiber.join(text)).length, 1_400_000)
    })
  )

  it.effect("is held back between the pulls of a stream", () =>
    Effect.gen(function* () {
      const { connection, exchange } = begun(200, 3)
      assert.isTrue(connection.paused)
      assert.lengthOf(yield* exchange.pull, 3)
      const next = yield* Effect.forkChild(exchange.pull, { startImmediately: true })
      assert.isFalse(connection.paused)
      exchange.onResponseData(connection, Buffer.alloc(1))
      assert.lengthOf(yield* Fiber.join(next), 1)
      exchange.close()
      assert.isTrue(connection.aborted)
    })
  )

  it.effect("is cut off when it outgrows all bounds", () =>
    Effect.gen(function* () {
      const { connection, exchange } = begun(200, 1)
      const text = yield* Effect.forkChild(Effect.flip(exchange.text), { startImmediately: true })
      for (let piece = 0; piece < 700; piece++) exchange.onResponseData(connection, Buffer.alloc(100_000, "x"))
      assert.strictEqual((yield* Fiber.join(text)).reason, "malformed_answer")
      assert.isTrue(connection.aborted)
    })
  )

  it.effect("is cut off when it is an error that has said enough", () =>
    Effect.gen(function* () {
      const { connection, exchange } = begun(500, 3)
      assert.strictEqual((yield* exchange.errorText).length, 300_000)
      assert.isTrue(connection.aborted)
      exchange.close()
    })
  )
})

describe("an answer of which all that counts has been read", () => {
  it("leaves its connection to the next one when it ends", () => {
    const { connection, exchange } = begun(200, 3)
    assert.isTrue(connection.paused)
    exchange.complete()
    exchange.close()
    assert.isFalse(connection.paused)
    exchange.onResponseData(connection, Buffer.alloc(1))
    exchange.onResponseEnd()
    assert.isFalse(connection.aborted)
  })

  it.live("is cut off when it does not end", () =>
    Effect.gen(function* () {
      const { connection, exchange } = begun(200, 1)
      exchange.complete()
      exchange.close()
      yield* Effect.sleep("500 millis")
      assert.isFalse(connection.aborted)
      yield* Effect.sleep("700 millis")
      assert.isTrue(connection.aborted)
    })
  )
})
