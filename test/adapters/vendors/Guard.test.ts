import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Metric } from "effect"
import { TestClock } from "effect/testing"
import { Guard, type KeyOwner } from "../../../src/adapters/vendors/Guard.ts"
import { UpstreamFailed, UpstreamRefused } from "../../../src/domain/completion/CompletionErrors.ts"

const make = (keys: KeyOwner = "operator") => Effect.map(Clock.Clock, (clock) => new Guard("somewhere", keys, clock))

const failure = (reason: UpstreamFailed["reason"]) =>
  Effect.fail(new UpstreamFailed({ upstream: "somewhere", reason, detail: "" }))

const refusal = Effect.fail(new UpstreamRefused({ upstream: "somewhere", status: 400, said: "no" }))

/** What comes of a call through the guard. */
const outcome = (guard: Guard, call: Effect.Effect<unknown, UpstreamFailed | UpstreamRefused>) =>
  Effect.match(guard.run(call), {
    onSuccess: () => "ok",
    onFailure: (error) => (error._tag === "UpstreamFailed" ? error.reason : "refused")
  })

const failing = (guard: Guard, reason: UpstreamFailed["reason"], times = 5) =>
  Effect.repeat(Effect.ignore(guard.run(failure(reason))), { times: times - 1 })

/** The figures that `/metrics` shows, `name{values}` each. */
const figures = Effect.map(Metric.snapshot, (all) =>
  all.map(({ attributes = {}, id, state }) => {
    const value = "count" in state ? state.count : "value" in state ? state.value : undefined
    return `${id}{${Object.values(attributes).join(",")}} ${String(value)}`
  })
)

const alone = Effect.provideService(Metric.MetricRegistry, new Map())

describe("a guarded upstream", () => {
  it.effect.each(["unreachable", "timeout", "stalled", "server_error", "cut_off", "rate_limited"] as const)(
    "fails at once after five calls ended: %s",
    (reason) =>
      Effect.gen(function* () {
        const guard = yield* make()
        yield* failing(guard, reason)
        assert.strictEqual(yield* outcome(guard, Effect.die("it was asked")), "circuit_open")
        assert.isFalse(guard.mayRetry)
      })
  )

  it.effect.each(["credentials_refused", "unexpected_status", "malformed_answer"] as const)(
    "is asked again however often calls ended: %s",
    (reason) =>
      Effect.gen(function* () {
        const guard = yield* make()
        yield* failing(guard, reason, 20)
        assert.strictEqual(yield* outcome(guard, Effect.void), "ok")
      })
  )

  it.effect("counts the limits of the operator's key only", () =>
    Effect.gen(function* () {
      const guard = yield* make("organization")
      yield* failing(guard, "rate_limited", 20)
      assert.strictEqual(yield* outcome(guard, Effect.void), "ok")
      yield* failing(guard, "unreachable")
      assert.strictEqual(yield* outcome(guard, Effect.void), "circuit_open")
    })
  )

  it.effect("is well when it refuses requests", () =>
    Effect.gen(function* () {
      const guard = yield* make()
      yield* failing(guard, "server_error", 4)
      assert.strictEqual(yield* outcome(guard, refusal), "refused")
      yield* failing(guard, "server_error", 4)
      assert.strictEqual(yield* outcome(guard, Effect.void), "ok")
    })
  )

  it.effect("is tried by the next caller when the one that tried it leaves", () =>
    Effect.gen(function* () {
      const guard = yield* make()
      yield* failing(guard, "unreachable")
      yield* TestClock.adjust("10 seconds")
      const asked = yield* Deferred.make<void>()
      const tried = yield* Effect.forkChild(guard.run(Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)))
      yield* Deferred.await(asked)
      assert.strictEqual(yield* outcome(guard, Effect.void), "circuit_open")
      yield* Fiber.interrupt(tried)
      assert.strictEqual(yield* outcome(guard, Effect.void), "ok")
      assert.isTrue(guard.mayRetry)
    })
  )

  it.effect("shows every request by its outcome, and the state of its breaker", () =>
    Effect.gen(function* () {
      const guard = yield* make()
      yield* guard.show
      yield* guard.run(Effect.void)
      yield* Effect.ignore(guard.run(refusal))
      assert.sameMembers(yield* figures, [
        "upstream_breaker_state{somewhere,operator} 0",
        "upstream_requests_total{somewhere,ok} 1",
        "upstream_requests_total{somewhere,refused} 1"
      ])
      yield* failing(guard, "timeout")
      yield* Effect.ignore(guard.run(Effect.void))
      assert.includeMembers(
        [...(yield* figures)],
        [
          "upstream_breaker_state{somewhere,operator} 2",
          "upstream_requests_total{somewhere,timeout} 5",
          "upstream_requests_total{somewhere,circuit_open} 1"
        ]
      )
      yield* TestClock.adjust("10 seconds")
      const during = yield* guard.run(figures)
      assert.include(during, "upstream_breaker_state{somewhere,operator} 1")
      assert.include(yield* figures, "upstream_breaker_state{somewhere,operator} 0")
    }).pipe(alone)
  )
})
