import { assert, type Vitest } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Ledger, leaseSeconds, type Renewal } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { UsageEvents } from "../../src/application/ports/storage/UsageEvents.ts"
import type { HoldId, OrganizationId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { account, holdRequest, settlement } from "./Samples.ts"
import { StoreProbe } from "./StoreProbe.ts"

const Amount = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 500 }))

/** Which of the last holds, ended ones included: few, so that most are ended more than once, often in one burst. */
const Which = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))

const Step = Schema.TaggedUnion({
  Grant: { amount: Amount.check(Schema.isGreaterThan(0)) },
  Hold: { least: Amount, more: Amount },
  Settle: { which: Which, cost: Amount },
  Release: { which: Which },
  Renew: { which: Which, cost: Schema.NullOr(Amount) }
})
type Step = typeof Step.Type

/** What happens at once. Then, if so, every hold that nobody renewed runs out and is swept. */
const Burst = Schema.Struct({
  steps: Schema.Array(Step).check(Schema.isMaxLength(10)),
  sweep: Schema.Boolean
})

interface Held {
  readonly id: HoldId
  readonly amount: bigint
  checkpoint: bigint | null
  endings: number
}

/** An account as it must be, told by nothing but the ledger's own answers. */
class Expected {
  readonly organization: OrganizationId
  readonly holds: Array<Held> = []
  balance = 0n
  events = 0
  charged = 0n

  constructor(organization: OrganizationId) {
    this.organization = organization
  }

  get open(): ReadonlyArray<Held> {
    return this.holds.filter(({ endings }) => endings === 0)
  }

  end(hold: Held, cost: bigint | null): void {
    hold.endings++
    if (cost === null) return
    this.balance -= cost
    this.charged += cost
    this.events++
  }
}

const perform = Effect.fnUntraced(function* (step: Step, expected: Expected, known: ReadonlyArray<Held>) {
  const ledger = yield* Ledger
  switch (step._tag) {
    case "Grant": {
      yield* ledger.grant(expected.organization, nanoUsd(BigInt(step.amount)), "property")
      expected.balance += BigInt(step.amount)
      return
    }
    case "Hold": {
      const [least, most] = [BigInt(step.least), BigInt(step.least + step.more)]
      const request = holdRequest(expected.organization, most, { least })
      const amount = yield* Effect.catchTag(ledger.hold(request), "InsufficientCredits", ({ availableUsd }) =>
        Effect.sync(() => {
          assert.isBelow(availableUsd, Number(least) / 1e9)
          return null
        })
      )
      if (amount === null) return
      assert.isTrue(least <= amount && amount <= most)
      expected.holds.push({ id: request.id, amount, checkpoint: null, endings: 0 })
      return
    }
    case "Settle": {
      const hold = known.at(-1 - step.which)
      if (hold === undefined) return
      const cost = BigInt(step.cost)
      const charged = yield* ledger.settle(settlement(hold.id, cost))
      if (charged === null) return
      assert.strictEqual(charged, cost < hold.amount ? cost : hold.amount)
      expected.end(hold, charged)
      return
    }
    case "Release": {
      const hold = known.at(-1 - step.which)
      if (hold !== undefined && (yield* ledger.release(hold.id))) expected.end(hold, null)
      return
    }
    case "Renew":
      return
  }
})

/** As a process does it: one call with all of its holds. */
const renew = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>, known: ReadonlyArray<Held>) {
  const renewals = new Map<Held, Renewal>()
  for (const step of steps) {
    const hold = step._tag === "Renew" ? known.at(-1 - step.which) : undefined
    if (step._tag !== "Renew" || hold === undefined) continue
    const checkpoint = step.cost === null ? null : settlement(hold.id, BigInt(step.cost))
    renewals.set(hold, { holdId: hold.id, checkpoint })
  }
  yield* (yield* Ledger).renew([...renewals.values()])
  for (const [hold, { checkpoint }] of renewals) hold.checkpoint = checkpoint?.cost ?? hold.checkpoint
})

const lapseAndSweep = Effect.fnUntraced(function* (expected: Expected) {
  const ledger = yield* Ledger
  const { pass } = yield* StoreProbe
  yield* pass(`${leaseSeconds + 1} seconds`)
  yield* ledger.sweep
  for (const hold of expected.open) {
    const { amount, checkpoint } = hold
    expected.end(hold, checkpoint === null ? null : checkpoint < amount ? checkpoint : amount)
  }
})

const assertAsExpected = Effect.fnUntraced(function* ({
  balance,
  charged,
  events,
  holds,
  open,
  organization
}: Expected) {
  const held = open.reduce((sum, { amount }) => sum + amount, 0n)
  const credit = yield* (yield* Ledger).credit(organization)
  assert.deepStrictEqual(credit, { balance: nanoUsd(balance), held: nanoUsd(held) })
  assert.isTrue(0n <= held && held <= balance)
  const entries = yield* (yield* StoreProbe).entries(organization)
  assert.strictEqual(
    entries.reduce((sum, { amount }) => sum + amount, 0n),
    balance
  )
  const charges = entries.flatMap(({ holdId }) => (holdId === null ? [] : [holdId]))
  assert.strictEqual(new Set(charges).size, charges.length)
  assert.isTrue(holds.every(({ endings }) => endings <= 1))
  const totals = yield* (yield* UsageEvents).totals({ organizationId: organization, memberId: null }, 0)
  assert.deepStrictEqual(totals, { cost: nanoUsd(charged), events })
})

/** The invariants of credit, whatever is done in whatever order, by whomever at once. */
export const ledgerProperties = (
  it: Vitest.MethodsNonLive<Ledger | Organizations | UsageEvents | StoreProbe>
): void => {
  it.effect.prop(
    "keeps balance = sum of the ledger >= held >= 0 and one ending per hold",
    { bursts: Schema.Array(Burst).check(Schema.isMaxLength(12)) },
    ({ bursts }) =>
      Effect.gen(function* () {
        const expected = new Expected(yield* account(1_000n))
        expected.balance = 1_000n
        for (const { steps, sweep } of bursts) {
          const known = [...expected.holds]
          yield* Effect.all([...steps.map((step) => perform(step, expected, known)), renew(steps, known)], {
            concurrency: "unbounded",
            discard: true
          })
          yield* assertAsExpected(expected)
          if (!sweep) continue
          yield* lapseAndSweep(expected)
          yield* assertAsExpected(expected)
        }
        yield* lapseAndSweep(expected)
        assert.deepStrictEqual(expected.open, [])
        yield* assertAsExpected(expected)
      }),
    { timeout: 120_000, arbitrary: { runs: 40 } }
  )
}
