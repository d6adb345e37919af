import { assert, layer } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { UsageEvents, type UsageScope } from "../../src/application/ports/storage/UsageEvents.ts"
import type { Purpose } from "../../src/domain/billing/CreditHold.ts"
import type { Usage } from "../../src/domain/billing/Usage.ts"
import { MemberId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { account, holdRequest, settlement } from "./Samples.ts"
import { StoreProbe } from "./StoreProbe.ts"

const ann = MemberId.make("ann")
const bob = MemberId.make("bob")

/** A whole account that has credit, and how a request of it is charged. */
const spender = Effect.gen(function* () {
  const ledger = yield* Ledger
  const organizationId = yield* account(1_000_000n)
  const whole: UsageScope = { organizationId, memberId: null }
  const spend = Effect.fnUntraced(function* (cost: bigint, purpose: Partial<Purpose> = {}, usage: Partial<Usage> = {}) {
    const request = holdRequest(organizationId, cost, purpose)
    yield* ledger.hold(request)
    yield* ledger.settle(settlement(request.id, cost, usage))
  })
  return { whole, spend }
})

/** What every store of usage events must do. */
export const usageEventsSuite = (
  name: string,
  store: Layer.Layer<UsageEvents | Ledger | Organizations | StoreProbe, unknown>
) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("gives the newest events first, tokens of all buckets summed, at most as many as asked", () =>
      Effect.gen(function* () {
        const usage = yield* UsageEvents
        const { pass } = yield* StoreProbe
        const { spend, whole } = yield* spender
        yield* spend(1n, { model: "oldest" })
        yield* pass("1 second")
        yield* spend(2n, { model: "older" })
        yield* pass("1 second")
        yield* spend(
          3n,
          { model: "newest" },
          { input: 1, cacheRead: 20, cacheWrite: 300, output: 4_000, reasoning: 50_000 }
        )
        const events = yield* usage.recent(whole, 2)
        assert.deepStrictEqual(
          events.map(({ cost, inputTokens, model, outputTokens }) => [model, cost, inputTokens, outputTokens]),
          [
            ["newest", nanoUsd(3n), 321, 54_000],
            ["older", nanoUsd(2n), 1, 1]
          ]
        )
      })
    )

    it.effect("sums the events at a time or later", () =>
      Effect.gen(function* () {
        const usage = yield* UsageEvents
        const { pass } = yield* StoreProbe
        const { spend, whole } = yield* spender
        yield* spend(1n)
        yield* pass("1 hour")
        yield* spend(20n)
        yield* pass("1 hour")
        yield* spend(300n)
        const [, middle] = yield* usage.recent(whole, 50)
        const at = middle?.timestamp ?? Number.NaN
        assert.deepStrictEqual(yield* usage.totals(whole, at), { cost: nanoUsd(320n), events: 2 })
        assert.deepStrictEqual(yield* usage.totals(whole, at + 1), { cost: nanoUsd(300n), events: 1 })
        assert.deepStrictEqual(yield* usage.totals(whole, 0), { cost: nanoUsd(321n), events: 3 })
      })
    )

    it.effect("has nothing to tell of an account that used nothing", () =>
      Effect.gen(function* () {
        const usage = yield* UsageEvents
        const whole = { organizationId: yield* account(), memberId: null }
        assert.deepStrictEqual(yield* usage.totals(whole, 0), { cost: nanoUsd(0n), events: 0 })
        assert.deepStrictEqual(yield* usage.recent(whole, 50), [])
        assert.deepStrictEqual(yield* usage.byModelAndDay(whole, 0), [])
      })
    )

    it.effect("tells a member's own usage apart, and never another account's", () =>
      Effect.gen(function* () {
        const usage = yield* UsageEvents
        const { spend, whole } = yield* spender
        const stranger = yield* spender
        yield* spend(1n, { memberId: ann, model: "a" })
        yield* spend(20n, { memberId: bob, model: "b" })
        yield* stranger.spend(300n, { memberId: ann, model: "c" })
        const own = { ...whole, memberId: ann }
        assert.deepStrictEqual(yield* usage.totals(own, 0), { cost: nanoUsd(1n), events: 1 })
        assert.deepStrictEqual(
          (yield* usage.recent(own, 50)).map(({ model }) => model),
          ["a"]
        )
        assert.deepStrictEqual(
          (yield* usage.byModelAndDay(own, 0)).map(({ model }) => model),
          ["a"]
        )
        assert.deepStrictEqual(yield* usage.totals(whole, 0), { cost: nanoUsd(21n), events: 2 })
      })
    )

    it.effect("groups spend by UTC day and model, newest day first, dearest model first", () =>
      Effect.gen(function* () {
        const usage = yield* UsageEvents
        const { pass } = yield* StoreProbe
        const { spend, whole } = yield* spender
        yield* spend(500n, { model: "cheap" })
        yield* pass("1 day")
        yield* spend(10n, { model: "cheap" }, { input: 5, output: 7, reasoning: 1 })
        yield* spend(40n, { model: "dear" })
        yield* spend(20n, { model: "cheap" }, { input: 6, cacheRead: 1, output: 9 })
        yield* spend(30n, { model: "also 30" })
        const events = yield* usage.recent(whole, 50)
        const day = (index: number) => new Date(events[index]?.timestamp ?? Number.NaN).toISOString().slice(0, 10)
        const [today, yesterday] = [day(0), day(4)]
        const one = { events: 1, inputTokens: 1, outputTokens: 1 }
        assert.deepStrictEqual(yield* usage.byModelAndDay(whole, 0), [
          { ...one, day: today, model: "dear", cost: nanoUsd(40n) },
          { ...one, day: today, model: "also 30", cost: nanoUsd(30n) },
          { day: today, model: "cheap", events: 2, inputTokens: 12, outputTokens: 17, cost: nanoUsd(30n) },
          { ...one, day: yesterday, model: "cheap", cost: nanoUsd(500n) }
        ])
        assert.deepStrictEqual(
          (yield* usage.byModelAndDay(whole, events[3]?.timestamp ?? Number.NaN)).map(({ cost }) => cost),
          [nanoUsd(40n), nanoUsd(30n), nanoUsd(30n)]
        )
      })
    )

    it.effect("sums a thousand events of 0.0000001 USD exactly", () =>
      Effect.gen(function* () {
        const { spend, whole } = yield* spender
        yield* Effect.all(
          Array.from({ length: 1_000 }, () => spend(100n)),
          { concurrency: "unbounded", discard: true }
        )
        assert.deepStrictEqual(yield* (yield* UsageEvents).totals(whole, 0), { cost: nanoUsd(100_000n), events: 1_000 })
      })
    )
  })
