import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { HoldKeeper } from "../../src/application/billing/HoldKeeper.ts"
import { type Credit, Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { UsageEvents } from "../../src/application/ports/storage/UsageEvents.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { account, holdRequest, settlement } from "../conformance/Samples.ts"
import { LedgerWatch, stores } from "./Ledgers.ts"

const layer = Layer.provideMerge(HoldKeeper.layer, stores)

/** An account with 100 nano-USD, 60 of them in an open hold. */
const opened = Effect.gen(function* () {
  const organization = yield* account(100n)
  const { id, ...request } = holdRequest(organization, 60n)
  yield* (yield* Ledger).hold({ id, ...request })
  return { id, organization }
})

const assertCredit = Effect.fnUntraced(function* (organization: OrganizationId, balance: bigint, held: bigint) {
  const expected: Credit = { balance: nanoUsd(balance), held: nanoUsd(held) }
  assert.deepStrictEqual(yield* (yield* Ledger).credit(organization), expected)
})

const assertEvents = Effect.fnUntraced(function* (organizationId: OrganizationId, events: number) {
  const totals = yield* (yield* UsageEvents).totals({ organizationId, memberId: null }, 0)
  assert.strictEqual(totals.events, events)
})

/** A keeper of another process, until that process dies. */
const otherProcess = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const services = yield* Layer.buildWithScope(Layer.fresh(HoldKeeper.layer), scope)
  return { keeper: Context.get(services, HoldKeeper), die: Scope.close(scope, Exit.void) }
})

describe("HoldKeeper", () => {
  it.effect("keeps a hold for as long as its request runs", () =>
    Effect.gen(function* () {
      const keeper = yield* HoldKeeper
      const { id, organization } = yield* opened
      yield* keeper.keep(id, () => null)
      yield* TestClock.adjust("10 minutes")
      yield* assertCredit(organization, 100n, 60n)
      assert.strictEqual(yield* keeper.settle(settlement(id, 25n)), 25n)
      yield* assertCredit(organization, 75n, 0n)
    }).pipe(Effect.provide(layer))
  )

  it.effect("renews no hold that has ended", () =>
    Effect.gen(function* () {
      const keeper = yield* HoldKeeper
      const watch = yield* LedgerWatch
      const [settled, released] = [yield* opened, yield* opened]
      for (const { id } of [settled, released]) yield* keeper.keep(id, () => null)
      yield* keeper.settle(settlement(settled.id, 25n))
      yield* keeper.release(released.id)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(watch.renewed, [])
      yield* assertCredit(released.organization, 100n, 0n)
    }).pipe(Effect.provide(layer))
  )

  it.effect("charges what a dead process had delivered, once, within a minute", () =>
    Effect.gen(function* () {
      const other = yield* otherProcess
      const { id, organization } = yield* opened
      let delivered = 0n
      yield* other.keeper.keep(id, () => (delivered === 0n ? null : settlement(id, delivered)))
      yield* TestClock.adjust("40 seconds")
      delivered = 30n
      yield* TestClock.adjust("6 seconds")
      delivered = 40n
      yield* other.die
      yield* assertCredit(organization, 100n, 60n)
      yield* TestClock.adjust("1 minute")
      yield* assertCredit(organization, 70n, 0n)
      yield* assertEvents(organization, 1)
      yield* TestClock.adjust("5 minutes")
      yield* assertCredit(organization, 70n, 0n)
    }).pipe(Effect.provide(layer))
  )

  it.effect("releases what a dead process held without having delivered anything", () =>
    Effect.gen(function* () {
      const other = yield* otherProcess
      const { id, organization } = yield* opened
      yield* other.keeper.keep(id, () => null)
      yield* TestClock.adjust("6 seconds")
      yield* other.die
      yield* TestClock.adjust("1 minute")
      yield* assertCredit(organization, 100n, 0n)
      yield* assertEvents(organization, 0)
    }).pipe(Effect.provide(layer))
  )

  for (const [title, gap] of [
    ["shortly", "3 seconds"],
    ["for longer than a lease", "10 minutes"]
  ] as const) {
    it.effect(`settles when the store is back that was away ${title}, once`, () =>
      Effect.gen(function* () {
        const keeper = yield* HoldKeeper
        const watch = yield* LedgerWatch
        const [settled, released] = [yield* opened, yield* opened]
        yield* keeper.keep(settled.id, () => settlement(settled.id, 5n))
        yield* keeper.keep(released.id, () => null)
        watch.away = true
        assert.strictEqual(yield* keeper.settle(settlement(settled.id, 25n)), 25n)
        yield* keeper.release(released.id)
        yield* TestClock.adjust(gap)
        watch.away = false
        yield* assertCredit(settled.organization, 100n, 60n)
        yield* TestClock.adjust("5 seconds")
        yield* assertCredit(settled.organization, 75n, 0n)
        yield* assertCredit(released.organization, 100n, 0n)
        yield* TestClock.adjust("5 minutes")
        yield* assertCredit(settled.organization, 75n, 0n)
        yield* assertEvents(settled.organization, 1)
        assert.strictEqual(watch.settled.length, 1)
        assert.strictEqual(watch.released.length, 1)
      }).pipe(Effect.provide(layer))
    )
  }

  it.effect("goes on keeping the others after the store was away", () =>
    Effect.gen(function* () {
      const keeper = yield* HoldKeeper
      const watch = yield* LedgerWatch
      const { id, organization } = yield* opened
      yield* keeper.keep(id, () => null)
      watch.away = true
      yield* TestClock.adjust("20 seconds")
      watch.away = false
      yield* TestClock.adjust("10 minutes")
      yield* assertCredit(organization, 100n, 60n)
    }).pipe(Effect.provide(layer))
  )

  it.effect("does not hold credit for good when an ending fails for another reason", () =>
    Effect.gen(function* () {
      const keeper = yield* HoldKeeper
      const watch = yield* LedgerWatch
      const { id, organization } = yield* opened
      yield* keeper.keep(id, () => settlement(id, 7n))
      yield* TestClock.adjust("6 seconds")
      watch.broken = id
      assert.strictEqual((yield* Effect.exit(keeper.settle(settlement(id, 25n))))._tag, "Failure")
      yield* TestClock.adjust("1 minute")
      yield* assertCredit(organization, 93n, 0n)
    }).pipe(Effect.provide(layer))
  )

  it.effect("does not let an ending that always fails hold up the others", () =>
    Effect.gen(function* () {
      const keeper = yield* HoldKeeper
      const watch = yield* LedgerWatch
      const [broken, sound] = [yield* opened, yield* opened]
      for (const { id } of [broken, sound]) yield* keeper.keep(id, () => null)
      watch.away = true
      for (const { id } of [broken, sound]) yield* keeper.settle(settlement(id, 25n))
      watch.away = false
      watch.broken = broken.id
      yield* TestClock.adjust("5 seconds")
      yield* assertCredit(sound.organization, 75n, 0n)
      yield* TestClock.adjust("1 minute")
      yield* assertCredit(broken.organization, 100n, 0n)
    }).pipe(Effect.provide(layer))
  )
})
