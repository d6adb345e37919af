import { Effect, Layer, Predicate, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type HoldRequest, Ledger, leaseSeconds, type Renewal } from "../../application/ports/storage/Ledger.ts"
import { InsufficientCredits } from "../../domain/billing/BillingErrors.ts"
import type { Settlement } from "../../domain/billing/CreditHold.ts"
import { type HoldId, OrganizationId } from "../../domain/shared/Ids.ts"
import { NanoUsd, nanoUsd, toUsd, zero } from "../../domain/shared/Money.ts"
import { Money } from "./Columns.ts"
import { isAway, toDefect } from "./Failures.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as Patience from "./Patience.ts"

/** A hold past its lease is ended in portions, so that no sweep locks accounts for long. */
const sweepPortion = 500

export const layer = Layer.effect(
  Ledger,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make
    const lease = `${leaseSeconds} seconds`

    const addGrant = SqlSchema.findOne({
      Request: Schema.Struct({ organizationId: OrganizationId, amount: NanoUsd, note: Schema.String }),
      Result: Schema.Struct({ balance: Money }),
      execute: ({ amount, note, organizationId }) =>
        sql`
          WITH entry AS (
            INSERT INTO ledger_entries (organization_id, kind, amount, note)
            VALUES (${organizationId}, 'grant', ${amount}, ${note})
          )
          UPDATE credit_accounts SET balance = balance + ${amount}
          WHERE organization_id = ${organizationId} RETURNING balance`
    })

    const readCredit = SqlSchema.findOneOption({
      Request: OrganizationId,
      Result: Schema.Struct({ balance: Money, held: Money }),
      execute: (id) => sql`SELECT balance, held FROM credit_accounts WHERE organization_id = ${id}`
    })

    const takeHolds = SqlSchema.findAll({
      Request: Schema.String,
      Result: Schema.Struct({ granted: Schema.NullOr(Money), available: Money }),
      execute: (requests) =>
        sql`SELECT granted, available FROM take_holds(${requests}::jsonb, ${lease}::interval) ORDER BY ordinal`
    })

    const endHolds = SqlSchema.findAll({
      Request: Schema.String,
      Result: Schema.Struct({ holdId: Schema.String, charged: Money }),
      execute: (endings) => sql`SELECT hold_id, charged FROM end_holds(${endings}::jsonb)`
    })

    const mayBlameItem = Predicate.not(isAway)

    const grouped = yield* GroupCommit.make(
      (requests: ReadonlyArray<HoldRequest>) =>
        briefly(
          takeHolds(
            JSON.stringify(
              requests.map(({ id, least, most, purpose }) => ({
                id,
                organization: purpose.organizationId,
                member: purpose.memberId,
                key: purpose.keyId,
                request: purpose.requestId,
                model: purpose.model,
                method: purpose.accessMethod,
                least: String(least),
                most: String(most)
              }))
            )
          )
        ),
      { mayBlameItem }
    )

    /** Of several endings of one hold the first counts; the others find it ended already. */
    const end = yield* GroupCommit.make(
      (endings: ReadonlyArray<Ending>) => {
        const first = new Map<HoldId, Ending>()
        for (const ending of endings) if (!first.has(ending.hold)) first.set(ending.hold, ending)
        return Effect.map(briefly(endHolds(JSON.stringify([...first.values()]))), (rows) => {
          const charged = new Map(rows.map((row) => [row.holdId, row.charged]))
          return endings.map((ending) =>
            first.get(ending.hold) === ending ? (charged.get(ending.hold) ?? null) : null
          )
        })
      },
      { mayBlameItem }
    )

    const hold = Effect.fnUntraced(function* (request: HoldRequest) {
      const { available, granted } = yield* Effect.catch(grouped(request), toDefect)
      if (granted !== null) return granted
      return yield* new InsufficientCredits({ neededUsd: toUsd(request.least), availableUsd: toUsd(available) })
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
          SELECT count(*)::int AS swept FROM end_holds((
            SELECT coalesce(jsonb_agg(jsonb_build_object('hold', id, 'settlement', checkpoint)), '[]'::jsonb)
            FROM (SELECT id, checkpoint FROM credit_holds WHERE lease_until < clock_timestamp() LIMIT ${portion}) lapsed
          ))`
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
        Effect.catch(end({ hold: settlement.holdId, settlement: toRecord(settlement) }), toDefect),
      release: (id) =>
        Effect.map(Effect.catch(end({ hold: id, settlement: null }), toDefect), (charged) => charged !== null),
      renew,
      sweep
    })
  })
)

interface Ending {
  readonly hold: HoldId
  readonly settlement: ReturnType<typeof toRecord> | null
}

/** A settlement as `end_holds` and the checkpoint column have it. */
const toRecord = ({ cost, estimated, usage }: Settlement) => ({ ...usage, cost: String(nanoUsd(cost)), estimated })
