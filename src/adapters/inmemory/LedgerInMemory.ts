import { Clock, Effect, Layer } from "effect"
import { Ledger, leaseSeconds } from "../../application/ports/storage/Ledger.ts"
import { RateLimits } from "../../application/ports/storage/RateLimits.ts"
import { InsufficientCredits } from "../../domain/billing/BillingErrors.ts"
import type { Checkpoint, Purpose, Settlement } from "../../domain/billing/CreditHold.ts"
import { inputTokens, outputTokens } from "../../domain/billing/Usage.ts"
import { refusalOf } from "../../domain/ratelimit/RatePolicy.ts"
import type { HoldId } from "../../domain/shared/Ids.ts"
import { min, type NanoUsd, nanoUsd, toUsd, zero } from "../../domain/shared/Money.ts"
import { State } from "./State.ts"

interface OpenHold {
  readonly purpose: Purpose
  readonly amount: NanoUsd
  leaseUntil: number
  checkpoint: Checkpoint | null
}

export const layer = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const { accounts, usage } = yield* State
    const limits = yield* RateLimits
    const holds = new Map<HoldId, OpenHold>()

    /** Null: the hold has ended already. */
    const end = (id: HoldId, settlement: Settlement | null, now: number): NanoUsd | null => {
      const hold = holds.get(id)
      if (hold === undefined) return null
      holds.delete(id)
      const { memberId, model, organizationId } = hold.purpose
      const cost = settlement === null ? zero : min(settlement.cost, hold.amount)
      const account = accounts.get(organizationId)
      if (account !== undefined) {
        account.held = nanoUsd(account.held - hold.amount)
        account.balance = nanoUsd(account.balance - cost)
        if (cost > 0n) account.entries.push({ amount: nanoUsd(0n - cost), holdId: id })
      }
      if (settlement !== null) {
        usage.push({
          organizationId,
          memberId,
          model,
          cost,
          inputTokens: inputTokens(settlement.usage),
          outputTokens: outputTokens(settlement.usage),
          timestamp: now
        })
      }
      return cost
    }

    const atNow = <A>(use: (now: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, use)
    const leaseFrom = (now: number) => now + leaseSeconds * 1000

    return Ledger.of({
      grant: (organization, amount) =>
        Effect.suspend(() => {
          const account = accounts.get(organization)
          if (account === undefined) return Effect.die(new Error(`no organization ${organization}`))
          if (amount <= 0n) return Effect.die(new Error("a grant is more than nothing"))
          account.entries.push({ amount, holdId: null })
          account.balance = nanoUsd(account.balance + amount)
          return Effect.succeed(account.balance)
        }),
      credit: (organization) =>
        Effect.sync(() => {
          const { balance, held } = accounts.get(organization) ?? { balance: zero, held: zero }
          return { balance, held }
        }),
      hold: Effect.fnUntraced(function* ({ id, least, most, purpose, rate }) {
        if (rate !== undefined) {
          const decision = yield* limits.take(purpose.organizationId, rate.policy)
          rate.decided(decision)
          if (!decision.allowed) return yield* refusalOf(rate.policy, decision)
        }
        const now = yield* Clock.currentTimeMillis
        if (holds.has(id)) return yield* Effect.die(new Error(`the hold ${id} is taken`))
        const account = accounts.get(purpose.organizationId)
        const free = account === undefined ? zero : nanoUsd(account.balance - account.held)
        if (free < least) {
          return yield* new InsufficientCredits({ neededUsd: toUsd(least), availableUsd: toUsd(free) })
        }
        const amount = min(most, free)
        if (account !== undefined) account.held = nanoUsd(account.held + amount)
        holds.set(id, { purpose, amount, leaseUntil: leaseFrom(now), checkpoint: null })
        return amount
      }),
      settle: (settlement) => atNow((now) => end(settlement.holdId, settlement, now)),
      release: (id) => atNow((now) => end(id, null, now) !== null),
      renew: (renewals) =>
        atNow((now) => {
          for (const { checkpoint, holdId } of renewals) {
            const hold = holds.get(holdId)
            if (hold === undefined) continue
            hold.leaseUntil = leaseFrom(now)
            hold.checkpoint = checkpoint ?? hold.checkpoint
          }
        }),
      sweep: atNow((now) => {
        const lapsed = [...holds].filter(([, { leaseUntil }]) => leaseUntil < now)
        for (const [id, { checkpoint }] of lapsed) end(id, checkpoint, now)
        return lapsed.length
      })
    })
  })
)
