import { Clock, Context, Effect, Layer, Predicate, Schema } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import { leaseSeconds } from "../../application/ports/storage/Ledger.ts"
import type { Purpose, Settlement } from "../../domain/billing/CreditHold.ts"
import type { RateDecision, RatePolicy } from "../../domain/ratelimit/RatePolicy.ts"
import type { HoldId, OrganizationId } from "../../domain/shared/Ids.ts"
import { NanoUsd, nanoUsd } from "../../domain/shared/Money.ts"
import { isAway } from "./Failures.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as Patience from "./Patience.ts"

/** What one request asks of its account: to be counted, to get a hold, or both; uncounted it gets no hold. */
export interface Ask {
  readonly organization: OrganizationId
  readonly rate: RatePolicy | undefined
  readonly hold:
    | { readonly id: HoldId; readonly purpose: Purpose; readonly least: NanoUsd; readonly most: NanoUsd }
    | undefined
}

/** `granted` is null when the hold was refused; `free` is what it saw. `decision` is undefined without a policy. */
export interface Answer {
  readonly decision: RateDecision | undefined
  readonly granted: NanoUsd | null
  readonly free: NanoUsd
}

export interface Ending {
  readonly hold: HoldId
  readonly settlement: ReturnType<typeof toRecord> | null
}

/** A settlement as `account_round` and the checkpoint column have it. */
export const toRecord = ({ cost, estimated, usage }: Settlement) => ({
  ...usage,
  cost: String(nanoUsd(cost)),
  estimated
})

type Failure = SqlError.SqlError | Schema.SchemaError

/**
 * The one way in which running requests write to accounts: one statement in flight per process, and everything that
 * comes up meanwhile, of whatever account, is the next. A busy account's row is locked once for many requests.
 */
export class AccountRounds extends Context.Service<
  AccountRounds,
  {
    readonly ask: (ask: Ask) => Effect.Effect<Answer, Failure>
    /** The refusal of an account that was refused before its window's end. */
    readonly usedUp: (account: OrganizationId, policy: RatePolicy) => Effect.Effect<RateDecision | undefined>
    /** What was charged; null: the hold has ended already. Of several endings of one hold the first counts. */
    readonly end: (ending: Ending) => Effect.Effect<NanoUsd | null, Failure>
  }
>()("gateway/postgres/AccountRounds") {
  static readonly layer = Layer.effect(
    AccountRounds,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { briefly } = yield* Patience.make
      const lease = `${leaseSeconds} seconds`

      const round = SqlSchema.findOne({
        Request: Schema.Struct({ endings: Schema.String, requests: Schema.String }),
        Result: Schema.Struct({ answer: Schema.fromJsonString(RoundAnswer) }),
        execute: ({ endings, requests }) =>
          sql`SELECT account_round(${endings}::jsonb, ${requests}::jsonb, ${lease}::interval)::text AS answer`
      })

      const queue = yield* GroupCommit.make(
        (items: ReadonlyArray<Ask | Ending>) => {
          const endings = new Map<HoldId, Ending["settlement"]>()
          const asks: Array<Ask> = []
          for (const item of items) {
            if (isAsk(item)) asks.push(item)
            else if (!endings.has(item.hold)) endings.set(item.hold, item.settlement)
          }
          return briefly(
            round({
              endings: JSON.stringify(Object.fromEntries(endings)),
              requests: JSON.stringify(asks.map(askToRecord))
            })
          ).pipe(
            Effect.catchTag("NoSuchElementError", Effect.die),
            Effect.map(({ answer }) => {
              const charged = new Map(answer.ended)
              let next = 0
              return items.map((item): Answer | NanoUsd | null => {
                if (isAsk(item)) return answerOf(answer, item, next++)
                const charge = charged.get(item.hold) ?? null
                charged.delete(item.hold)
                return charge
              })
            })
          )
        },
        { mayBlameItem: Predicate.not(isAway) }
      )

      const exhausted = new ExhaustedWindows()

      const ask = Effect.fnUntraced(function* (asked: Ask) {
        const answer = yield* queue(asked)
        if (!isAnswer(answer)) return yield* mismatch
        const { organization, rate } = asked
        if (rate !== undefined && answer.decision?.allowed === false) {
          exhausted.add(organization, rate, answer.decision, yield* Clock.monotonicTimeNanos)
        }
        return answer
      })

      return AccountRounds.of({
        ask,
        usedUp: (account, policy) => exhausted.find(account, policy),
        end: (ending) =>
          Effect.flatMap(queue(ending), (answer) => (isAnswer(answer) ? mismatch : Effect.succeed(answer)))
      })
    })
  )
}

/**
 * Windows that refused a request: until they end they refuse every other one, so the store need not be asked. At most
 * a second is forgotten of each, since the store tells whole seconds and counts on its own clock.
 */
class ExhaustedWindows {
  readonly #endings = new Map<string, bigint>()

  add(account: OrganizationId, policy: RatePolicy, { resetSeconds }: RateDecision, now: bigint): void {
    if (this.#endings.size >= mostExhausted) this.#endings.clear()
    this.#endings.set(keyOf(account, policy), now + BigInt(resetSeconds - 1) * perSecond)
  }

  find(account: OrganizationId, policy: RatePolicy): Effect.Effect<RateDecision | undefined> {
    const key = keyOf(account, policy)
    const endsAt = this.#endings.get(key)
    if (endsAt === undefined) return Effect.undefined
    return Effect.map(Clock.monotonicTimeNanos, (now) => {
      if (now >= endsAt) {
        this.#endings.delete(key)
        return undefined
      }
      const resetSeconds = Number((endsAt - now) / perSecond) + 2
      return { allowed: false, limit: policy.limit, remaining: 0, resetSeconds }
    })
  }
}

const perSecond = 1_000_000_000n
const mostExhausted = 10_000

const keyOf = (account: OrganizationId, { limit, policy }: RatePolicy): string => `${policy} ${limit} ${account}`

const isAsk = (item: Ask | Ending): item is Ask => "organization" in item

const isAnswer = (answer: Answer | NanoUsd | null): answer is Answer => typeof answer === "object" && answer !== null

const mismatch = Effect.die(new Error("account_round answered another question"))

const askToRecord = ({ hold, organization, rate }: Ask) => ({
  organization,
  ...(rate === undefined ? {} : { policy: rate.policy, limit: rate.limit, period: rate.periodSeconds }),
  ...(hold === undefined
    ? {}
    : {
        hold: hold.id,
        member: hold.purpose.memberId,
        key: hold.purpose.keyId,
        request: hold.purpose.requestId,
        model: hold.purpose.model,
        method: hold.purpose.accessMethod,
        least: String(hold.least),
        most: String(hold.most)
      })
})

const Amount = Schema.BigIntFromString.pipe(Schema.decodeTo(NanoUsd))

/** One entry of each list for every request, in their order; `ended` has the holds that ended now. */
const RoundAnswer = Schema.Struct({
  ended: Schema.Array(Schema.Tuple([Schema.String, Amount])),
  allowed: Schema.Array(Schema.Boolean),
  remaining: Schema.Array(Schema.NullOr(Schema.Int)),
  resets: Schema.Array(Schema.NullOr(Schema.Int)),
  granted: Schema.Array(Schema.NullOr(Amount)),
  free: Schema.Array(Amount)
})

const answerOf = (round: typeof RoundAnswer.Type, { rate }: Ask, index: number): Answer => ({
  decision:
    rate === undefined
      ? undefined
      : {
          allowed: round.allowed[index] === true,
          limit: rate.limit,
          remaining: round.remaining[index] ?? 0,
          resetSeconds: round.resets[index] ?? rate.periodSeconds
        },
  granted: round.granted[index] ?? null,
  free: round.free[index] ?? nanoUsd(0n)
})
