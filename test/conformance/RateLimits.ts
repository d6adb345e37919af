import { assert, layer } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import { RateLimits } from "../../src/application/ports/storage/RateLimits.ts"
import type { RatePolicy } from "../../src/domain/ratelimit/RatePolicy.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { StoreProbe } from "./StoreProbe.ts"

const policyOf = (limit: number): RatePolicy => ({ policy: crypto.randomUUID(), limit, periodSeconds: 60 })

const newAccount = () => OrganizationId.make(crypto.randomUUID())

/** What every counter of requests must do. */
export const rateLimitsSuite = (name: string, store: Layer.Layer<RateLimits | StoreProbe, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("counts down to the limit and then refuses", () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const [policy, account] = [policyOf(2), newAccount()]
        const full = { limit: 2, resetSeconds: 60 }
        assert.deepStrictEqual(yield* limits.take(account, policy), { ...full, allowed: true, remaining: 1 })
        assert.deepStrictEqual(yield* limits.take(account, policy), { ...full, allowed: true, remaining: 0 })
        assert.deepStrictEqual(yield* limits.take(account, policy), { ...full, allowed: false, remaining: 0 })
      })
    )

    it.effect("admits exactly the limit of a burst", () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const [policy, account] = [policyOf(30), newAccount()]
        const decisions = yield* Effect.all(
          Array.from({ length: 100 }, () => limits.take(account, policy)),
          { concurrency: "unbounded" }
        )
        const admitted = decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining)
        assert.deepStrictEqual(
          admitted.sort((a, b) => b - a),
          Array.from({ length: 30 }, (_, index) => 29 - index)
        )
      })
    )

    it.effect("gives every account and every policy a window of its own", () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const [one, two] = [policyOf(1), policyOf(1)]
        const [mine, foreign] = [newAccount(), newAccount()]
        assert.isTrue((yield* limits.take(mine, one)).allowed)
        assert.isFalse((yield* limits.take(mine, one)).allowed)
        assert.isTrue((yield* limits.take(foreign, one)).allowed)
        assert.isTrue((yield* limits.take(mine, two)).allowed)
      })
    )

    it.effect("begins a window with the first request and opens the next when it is over", () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const { pass } = yield* StoreProbe
        const [policy, account] = [policyOf(1), newAccount()]
        yield* limits.take(account, policy)
        yield* pass("59500 millis")
        assert.deepStrictEqual(yield* limits.take(account, policy), {
          allowed: false,
          limit: 1,
          remaining: 0,
          resetSeconds: 1
        })
        yield* pass("500 millis")
        assert.deepStrictEqual(yield* limits.take(account, policy), {
          allowed: true,
          limit: 1,
          remaining: 0,
          resetSeconds: 60
        })
      })
    )

    it.effect("does not let a refused request lengthen the window", () =>
      Effect.gen(function* () {
        const limits = yield* RateLimits
        const { pass } = yield* StoreProbe
        const [policy, account] = [policyOf(1), newAccount()]
        yield* limits.take(account, policy)
        for (let second = 0; second < 60; second += 10) {
          assert.isFalse((yield* limits.take(account, policy)).allowed)
          yield* pass("10 seconds")
        }
        assert.isTrue((yield* limits.take(account, policy)).allowed)
      })
    )
  })
