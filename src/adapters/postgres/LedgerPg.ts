import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type HoldRequest, Ledger, leaseSeconds, type Renewal } from "../../application/ports/storage/Ledger.ts"
import { InsufficientCredits } from "../../domain/billing/BillingErrors.ts"
import { refusalOf } from "../../domain/ratelimit/RatePolicy.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { NanoUsd, toUsd, zero } from "../../domain/shared/Money.ts"
import { AccountRounds, toRecord } from "./AccountRounds.ts"
import { Money } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

/** A hold past its lease is ended in portions, so that no sweep locks accounts for long. */
const sweepPortion = 500

export const layer = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rounds = yield* AccountRounds
    const { briefly } = yield* Patience.make
    const lease = `${leaseSeconds} seconds`

    const addGrant = SqlSchema.findOne({
      Request: Schema.Struct({ organizationId: OrganizationId, amount: NanoUsd, note: Schema.String }),
      Result: Schema.Struct({ balance: Money }),
      execute: ({ amount, note, organizationId }) =>
        sql`
          WITH account AS (
            UPDATE credit_accounts SET balance = balance + ${amount}
            WHERE organization_id = ${organizationId} RETURNING organization_id, balance
          ), entry AS (
            INSERT INTO ledger_entries (organization_id, kind, amount, note)
            SELECT organization_id, 'grant', ${amount}, ${note} FROM account
          )
          SELECT balance FROM account`
    })

    const readCredit = SqlSchema.findOneOption({
      Request: OrganizationId,
      Result: Schema.Struct({ balance: Money, held: Money }),
      execute: (id) => sql`SELECT balance, held FROM credit_accounts WHERE organization_id = ${id}`
    })

    const hold = Effect.fnUntraced(function* (request: HoldRequest) {
      const { purpose, rate } = request
      const { decision, free, granted } = yield* Effect.catch(
        rounds.ask({ organization: purpose.organizationId, rate: rate?.policy, hold: request }),
        toDefect
      )
      if (rate !== undefined && decision !== undefined) {
        rate.decided(decision)
        if (!decision.allowed) return yield* refusalOf(rate.policy, decision)
      }
      if (granted !== null) return granted
      return yield* new InsufficientCredits({ neededUsd: toUsd(request.least), availableUsd: toUsd(free) })
    })

    const renew = Effect.fn("Ledger.renew")(function* (renewals: ReadonlyArray<Renewal>) {
      const rows = JSON.stringify(
        renewals.map(({ checkpoint, holdId }) => ({
          hold: holdId,
          checkpoint: checkpoint === null ? null : toRecord(checkpoint)
        }))
      )
      yield* Effect.catch(
        briefly(sql`
          UPDATE credit_holds h
          SET lease_until = clock_timestamp() + ${lease}::interval,
              checkpoint = CASE WHEN jsonb_typeof(e.item->'checkpoint') = 'object'
                                THEN e.item->'checkpoint' ELSE h.checkpoint END
          FROM jsonb_array_elements(${rows}::jsonb) AS e (item)
          WHERE h.id = e.item->>'hold'
            AND h.id IN (
              SELECT id FROM credit_holds
              WHERE id IN (SELECT item->>'hold' FROM jsonb_array_elements(${rows}::jsonb) AS w (item))
              FOR UPDATE SKIP LOCKED)`),
        toDefect
      )
    })

    const sweepOnce = SqlSchema.findOne({
      Request: Schema.Int,
      Result: Schema.Struct({ swept: Schema.Int }),
      execute: (portion) =>
        sql`
          SELECT jsonb_array_length(account_round((
            SELECT coalesce(jsonb_object_agg(id, checkpoint), '{}'::jsonb)
            FROM (SELECT id, checkpoint FROM credit_holds WHERE lease_until < clock_timestamp() LIMIT ${portion}) lapsed
          ), '[]', '0')->'ended') AS swept`
    })

    const sweep = Effect.gen(function* () {
      for (let total = 0; ;) {
        const { swept } = yield* briefly(sweepOnce(sweepPortion))
        if (swept === 0) return total
        total += swept
      }
    }).pipe(Effect.catchTag("NoSuchElementError", Effect.die), Effect.catch(toDefect), Effect.withSpan("Ledger.sweep"))

    return Ledger.of({
      grant: Effect.fn("Ledger.grant")((organizationId, amount, note) =>
        addGrant({ organizationId, amount, note }).pipe(
          Effect.map(({ balance }) => balance),
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
      ),
      credit: Effect.fn("Ledger.credit")((organization) =>
        Effect.map(Effect.catch(briefly(readCredit(organization)), toDefect), (found) =>
          found._tag === "Some" ? found.value : { balance: zero, held: zero }
        )
      ),
      hold,
      settle: (settlement) =>
        Effect.catch(rounds.end({ hold: settlement.holdId, settlement: toRecord(settlement) }), toDefect),
      release: (id) =>
        Effect.map(Effect.catch(rounds.end({ hold: id, settlement: null }), toDefect), (charged) => charged !== null),
      renew,
      sweep
    })
  })
)
