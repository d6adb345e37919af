import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer } from "effect"
import { type Credit, Ledger, leaseSeconds } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { UsageEvents } from "../../src/application/ports/storage/UsageEvents.ts"
import { type OrganizationId, OrganizationId as Id } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { ledgerProperties } from "./LedgerProperties.ts"
import { account, holdRequest, settlement } from "./Samples.ts"
import { StoreProbe } from "./StoreProbe.ts"

const times = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))

/** All at the same moment. */
const burst = <A, E, R>(effects: ReadonlyArray<Effect.Effect<A, E, R>>) =>
  Effect.all(effects, { concurrency: "unbounded" })

const granted = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): ReadonlyArray<A> =>
  exits.filter(Exit.isSuccess).map(({ value }) => value)

const assertDies = (exit: Exit.Exit<unknown, unknown>) =>
  assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause) && !Cause.hasFails(exit.cause))

/** Balance and held are these, and the ledger's entries sum to the balance. */
const assertCredit = Effect.fnUntraced(function* (organization: OrganizationId, balance: bigint, held: bigint) {
  const expected: Credit = { balance: nanoUsd(balance), held: nanoUsd(held) }
  assert.deepStrictEqual(yield* (yield* Ledger).credit(organization), expected)
  const entries = yield* (yield* StoreProbe).entries(organization)
  assert.strictEqual(
    entries.reduce((sum, { amount }) => sum + amount, 0n),
    balance
  )
})

/** All open holds are past their leases, and none of an earlier test is among them. */
const lapse = Effect.gen(function* () {
  const { pass } = yield* StoreProbe
  yield* pass(`${leaseSeconds + 1} seconds`)
})
const afresh = Effect.andThen(
  lapse,
  Effect.flatMap(Ledger, ({ sweep }) => sweep)
)

/** What every ledger must do. */
export const ledgerSuite = (
  name: string,
  store: Layer.Layer<Ledger | Organizations | UsageEvents | StoreProbe, unknown>
) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("adds grants and gives the balance", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account()
        assert.strictEqual(yield* ledger.grant(organization, nanoUsd(70n), "gift"), 70n)
        assert.strictEqual(yield* ledger.grant(organization, nanoUsd(30n), "gift"), 100n)
        yield* assertCredit(organization, 100n, 0n)
        const entries = yield* (yield* StoreProbe).entries(organization)
        assert.deepStrictEqual(entries, [
          { amount: nanoUsd(70n), holdId: null },
          { amount: nanoUsd(30n), holdId: null }
        ])
      })
    )

    it.effect("grants more than a double can count", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account()
        const much = 2n ** 53n + 1n
        assert.strictEqual(yield* ledger.grant(organization, nanoUsd(much), "gift"), much)
        const request = holdRequest(organization, much)
        assert.strictEqual(yield* ledger.hold(request), much)
        assert.strictEqual(yield* ledger.settle(settlement(request.id, much - 1n)), much - 1n)
        yield* assertCredit(organization, 1n, 0n)
      })
    )

    it.effect("grants nothing that is not above zero, and nobody who is not there", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(10n)
        for (const amount of [0n, -5n]) assertDies(yield* Effect.exit(ledger.grant(organization, nanoUsd(amount), "")))
        yield* assertCredit(organization, 10n, 0n)
        const nobody = Id.make(crypto.randomUUID())
        assertDies(yield* Effect.exit(ledger.grant(nobody, nanoUsd(1n), "gift")))
        yield* assertCredit(nobody, 0n, 0n)
      })
    )

    it.effect("holds the most, or what is free if that is the least", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        assert.strictEqual(yield* ledger.hold(holdRequest(organization, 60n, { least: 1n })), 60n)
        yield* assertCredit(organization, 100n, 60n)
        const error = yield* Effect.flip(ledger.hold(holdRequest(organization, 60n, { least: 41n })))
        assert.deepInclude(error, {
          _tag: "InsufficientCredits",
          neededUsd: 0.000_000_041,
          availableUsd: 0.000_000_04
        })
        yield* assertCredit(organization, 100n, 60n)
        assert.strictEqual(yield* ledger.hold(holdRequest(organization, 60n, { least: 40n })), 40n)
        yield* assertCredit(organization, 100n, 100n)
      })
    )

    it.effect("admits competing holds in the order of their arrival", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const exits = yield* burst(
          [60n, 60n, 30n, 20n].map((most) => Effect.exit(ledger.hold(holdRequest(organization, most))))
        )
        assert.deepStrictEqual(
          exits.map(({ _tag }) => _tag),
          ["Success", "Failure", "Success", "Failure"]
        )
        yield* assertCredit(organization, 100n, 90n)
      })
    )

    it.effect("settles once: one charge, one usage event, the rest free again", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const request = holdRequest(organization, 60n)
        yield* ledger.hold(request)
        assert.strictEqual(yield* ledger.settle(settlement(request.id, 25n)), 25n)
        yield* assertCredit(organization, 75n, 0n)
        assert.isNull(yield* ledger.settle(settlement(request.id, 25n)))
        assert.isFalse(yield* ledger.release(request.id))
        yield* assertCredit(organization, 75n, 0n)
        const entries = yield* (yield* StoreProbe).entries(organization)
        assert.deepStrictEqual(entries.slice(1), [{ amount: nanoUsd(-25n), holdId: request.id }])
        const totals = yield* (yield* UsageEvents).totals({ organizationId: organization, memberId: null }, 0)
        assert.deepStrictEqual(totals, { cost: nanoUsd(25n), events: 1 })
      })
    )

    it.effect("charges no more than was held", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const request = holdRequest(organization, 60n)
        yield* ledger.hold(request)
        assert.strictEqual(yield* ledger.settle(settlement(request.id, 1_000n)), 60n)
        yield* assertCredit(organization, 40n, 0n)
        const totals = yield* (yield* UsageEvents).totals({ organizationId: organization, memberId: null }, 0)
        assert.strictEqual(totals.cost, 60n)
      })
    )

    it.effect("releases once, without a trace", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const request = holdRequest(organization, 60n)
        yield* ledger.hold(request)
        assert.isTrue(yield* ledger.release(request.id))
        assert.isFalse(yield* ledger.release(request.id))
        assert.isNull(yield* ledger.settle(settlement(request.id, 25n)))
        yield* assertCredit(organization, 100n, 0n)
        const totals = yield* (yield* UsageEvents).totals({ organizationId: organization, memberId: null }, 0)
        assert.strictEqual(totals.events, 0)
      })
    )

    it.effect("holds nothing for a request without a price, also on an account without credit", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account()
        const [settled, released] = [holdRequest(organization, 0n), holdRequest(organization, 0n)]
        assert.deepStrictEqual(yield* burst([ledger.hold(settled), ledger.hold(released)]), [nanoUsd(0n), nanoUsd(0n)])
        assert.strictEqual(yield* ledger.settle(settlement(settled.id, 0n)), 0n)
        assert.isNull(yield* ledger.settle(settlement(settled.id, 0n)))
        assert.isTrue(yield* ledger.release(released.id))
        yield* assertCredit(organization, 0n, 0n)
        assert.deepStrictEqual(yield* (yield* StoreProbe).entries(organization), [])
        const totals = yield* (yield* UsageEvents).totals({ organizationId: organization, memberId: null }, 0)
        assert.deepStrictEqual(totals, { cost: nanoUsd(0n), events: 1 })
      })
    )

    it.effect("has no credit for an organization that is not there", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const nobody = Id.make(crypto.randomUUID())
        const error = yield* Effect.flip(ledger.hold(holdRequest(nobody, 5n)))
        assert.deepInclude(error, { _tag: "InsufficientCredits", neededUsd: 0.000_000_005, availableUsd: 0 })
        assert.deepStrictEqual(yield* ledger.credit(nobody), { balance: nanoUsd(0n), held: nanoUsd(0n) })
      })
    )

    it.effect("takes a hold's id once; its second use harms nobody else", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const first = holdRequest(organization, 10n)
        yield* ledger.hold(first)
        const others = times(5, () => holdRequest(organization, 10n))
        const [again, ...exits] = yield* burst([first, ...others].map((request) => Effect.exit(ledger.hold(request))))
        assert.isDefined(again)
        assertDies(again)
        assert.deepStrictEqual(
          granted(exits),
          times(5, () => nanoUsd(10n))
        )
        yield* assertCredit(organization, 100n, 60n)
      })
    )

    it.effect("grants one of a hundred parallel holds with credit for one", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(10n)
        const exits = yield* burst(times(100, () => Effect.exit(ledger.hold(holdRequest(organization, 10n)))))
        assert.deepStrictEqual(granted(exits), [nanoUsd(10n)])
        for (const exit of exits.filter(Exit.isFailure)) {
          assert.strictEqual(Cause.findErrorOption(exit.cause).valueOrUndefined?._tag, "InsufficientCredits")
        }
        yield* assertCredit(organization, 10n, 10n)
      })
    )

    it.effect("keeps the accounts of one burst apart", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organizations = yield* burst(times(5, (index) => account(BigInt(index) * 10n)))
        const requests = times(50, (index) => organizations[index % 5]).flatMap((organization) =>
          organization === undefined ? [] : [holdRequest(organization, 10n)]
        )
        const exits = yield* burst(requests.map((request) => Effect.exit(ledger.hold(request))))
        for (const [index, organization] of organizations.entries()) {
          const credit = BigInt(index) * 10n
          yield* assertCredit(organization, credit, credit)
        }
        const open = requests.filter((_, index) => exits[index]?._tag === "Success")
        assert.strictEqual(open.length, 10)
        yield* burst(open.map(({ id }, index) => ledger.settle(settlement(id, BigInt(index % 3)))))
        const left = yield* burst(organizations.map(ledger.credit))
        assert.strictEqual(
          left.reduce((sum, { balance }) => sum + balance, 0n),
          100n - 9n
        )
        assert.isTrue(left.every(({ held }) => held === 0n))
      })
    )

    it.effect("charges a hold once, however many settle it at once", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        const request = holdRequest(organization, 60n)
        yield* ledger.hold(request)
        const charges = yield* burst(times(20, () => ledger.settle(settlement(request.id, 25n))))
        assert.deepStrictEqual(
          charges.filter((charge) => charge !== null),
          [nanoUsd(25n)]
        )
        yield* assertCredit(organization, 75n, 0n)
      })
    )

    it.effect("lets the first of several endings decide", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const organization = yield* account(100n)
        for (let round = 0; round < 10; round++) {
          const request = holdRequest(organization, 60n)
          yield* ledger.hold(request)
          const [released, charge, again] = yield* Effect.all(
            [ledger.release(request.id), ledger.settle(settlement(request.id, 25n)), ledger.release(request.id)],
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual({ released, charge, again }, { released: true, charge: null, again: false })
        }
        yield* assertCredit(organization, 100n, 0n)
      })
    )

    it.effect("leaves a hold alone while its lease runs", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const { pass } = yield* StoreProbe
        yield* afresh
        const organization = yield* account(100n)
        yield* ledger.hold(holdRequest(organization, 60n))
        yield* pass(`${leaseSeconds - 5} seconds`)
        assert.strictEqual(yield* ledger.sweep, 0)
        yield* assertCredit(organization, 100n, 60n)
      })
    )

    it.effect("sweeps lapsed holds once: by their last checkpoint, or else by release", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        yield* afresh
        const organization = yield* account(100n)
        const [silent, delivering, greedy] = [
          holdRequest(organization, 10n),
          holdRequest(organization, 20n),
          holdRequest(organization, 30n)
        ]
        for (const request of [silent, delivering, greedy]) yield* ledger.hold(request)
        yield* ledger.renew([
          { holdId: silent.id, checkpoint: null },
          { holdId: delivering.id, checkpoint: settlement(delivering.id, 1n, { output: 100 }) },
          { holdId: greedy.id, checkpoint: settlement(greedy.id, 1_000n, { output: 400 }) }
        ])
        yield* ledger.renew([
          { holdId: delivering.id, checkpoint: settlement(delivering.id, 7n, { output: 200 }) },
          { holdId: greedy.id, checkpoint: null }
        ])
        yield* lapse
        assert.strictEqual(yield* ledger.sweep, 3)
        yield* assertCredit(organization, 100n - 7n - 30n, 0n)
        const events = yield* (yield* UsageEvents).recent({ organizationId: organization, memberId: null }, 10)
        assert.deepStrictEqual(
          new Map(events.map(({ cost, outputTokens }) => [outputTokens, cost])),
          new Map([
            [200, nanoUsd(7n)],
            [400, nanoUsd(30n)]
          ])
        )
        assert.strictEqual(yield* ledger.sweep, 0)
        assert.isNull(yield* ledger.settle(settlement(delivering.id, 7n)))
        yield* assertCredit(organization, 63n, 0n)
      })
    )

    it.effect("keeps a renewed hold, even one that was late", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        yield* afresh
        const organization = yield* account(100n)
        const [renewed, forgotten] = [holdRequest(organization, 10n), holdRequest(organization, 20n)]
        for (const request of [renewed, forgotten]) yield* ledger.hold(request)
        yield* lapse
        yield* ledger.renew([{ holdId: renewed.id, checkpoint: null }])
        assert.strictEqual(yield* ledger.sweep, 1)
        yield* assertCredit(organization, 100n, 10n)
        assert.strictEqual(yield* ledger.settle(settlement(renewed.id, 10n)), 10n)
        yield* ledger.renew([{ holdId: renewed.id, checkpoint: settlement(renewed.id, 10n) }])
        yield* lapse
        assert.strictEqual(yield* ledger.sweep, 0)
        yield* assertCredit(organization, 90n, 0n)
      })
    )

    it.effect("ends every hold once when several sweep a thousand at once", () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        yield* afresh
        const organization = yield* account(10_000n)
        const requests = times(1_200, () => holdRequest(organization, 2n))
        yield* burst(requests.map(ledger.hold))
        yield* ledger.renew(requests.map(({ id }) => ({ holdId: id, checkpoint: settlement(id, 1n) })))
        yield* lapse
        const swept = yield* burst(times(3, () => ledger.sweep))
        assert.strictEqual(
          swept.reduce((sum, count) => sum + count, 0),
          1_200
        )
        yield* assertCredit(organization, 8_800n, 0n)
      })
    )

    ledgerProperties(it)
  })
