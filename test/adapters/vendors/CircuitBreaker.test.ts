import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { CircuitBreaker, type Pass } from "../../../src/adapters/vendors/CircuitBreaker.ts"

const make = Effect.map(Clock.Clock, (clock) => new CircuitBreaker(clock))

const admitted = (breaker: CircuitBreaker): Pass => breaker.admit() ?? assert.fail("the call was turned away")

const fail = (breaker: CircuitBreaker, times = 1) => {
  for (let time = 0; time < times; time++) breaker.failed(admitted(breaker))
}

const open = Effect.tap(make, (breaker) => Effect.sync(() => fail(breaker, 5)))

describe("a circuit breaker", () => {
  it.effect("opens after five failures in a row", () =>
    Effect.gen(function* () {
      const breaker = yield* make
      fail(breaker, 4)
      breaker.succeeded(admitted(breaker))
      fail(breaker, 4)
      assert.strictEqual(breaker.state, "closed")
      fail(breaker)
      assert.strictEqual(breaker.state, "open")
      assert.isUndefined(breaker.admit())
    })
  )

  it.effect("lets one call try after ten seconds, and closes when it succeeds", () =>
    Effect.gen(function* () {
      const breaker = yield* open
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(breaker.admit())
      yield* TestClock.adjust("1 millis")
      const pass = admitted(breaker)
      assert.strictEqual(breaker.state, "half-open")
      assert.isUndefined(breaker.admit())
      breaker.succeeded(pass)
      assert.strictEqual(breaker.state, "closed")
      fail(breaker, 4)
      assert.strictEqual(breaker.state, "closed")
    })
  )

  it.effect("waits another ten seconds when the try fails", () =>
    Effect.gen(function* () {
      const breaker = yield* open
      yield* TestClock.adjust("10 seconds")
      const pass = admitted(breaker)
      yield* TestClock.adjust("4 seconds")
      breaker.failed(pass)
      assert.strictEqual(breaker.state, "open")
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(breaker.admit())
      yield* TestClock.adjust("1 second")
      assert.isDefined(breaker.admit())
    })
  )

  it.effect("lets another call try when one has said nothing for ten seconds", () =>
    Effect.gen(function* () {
      const breaker = yield* open
      yield* TestClock.adjust("10 seconds")
      const slow = admitted(breaker)
      yield* TestClock.adjust("10 seconds")
      breaker.succeeded(admitted(breaker))
      assert.strictEqual(breaker.state, "closed")
      breaker.failed(slow)
      fail(breaker, 4)
      assert.strictEqual(breaker.state, "closed")
    })
  )

  it.effect("lets the next call try at once when one ended without a word", () =>
    Effect.gen(function* () {
      const breaker = yield* open
      yield* TestClock.adjust("10 seconds")
      breaker.unknown(admitted(breaker))
      assert.strictEqual(breaker.state, "open")
      assert.isDefined(breaker.admit())
      assert.isUndefined(breaker.admit())
    })
  )

  it.effect("takes no news from calls of before it opened", () =>
    Effect.gen(function* () {
      const breaker = yield* make
      const [good, bad] = [admitted(breaker), admitted(breaker)]
      fail(breaker, 5)
      breaker.succeeded(good)
      assert.strictEqual(breaker.state, "open")
      yield* TestClock.adjust("10 seconds")
      const pass = admitted(breaker)
      breaker.failed(bad)
      breaker.unknown(bad)
      assert.strictEqual(breaker.state, "half-open")
      breaker.succeeded(pass)
      assert.strictEqual(breaker.state, "closed")
    })
  )
})
