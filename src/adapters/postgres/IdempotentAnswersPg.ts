import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import {
  answerHours,
  claimSeconds,
  IdempotentAnswers,
  type KeyClaim
} from "../../application/ports/storage/IdempotentAnswers.ts"
import { IdempotencyKeyBusy, IdempotencyKeyReused } from "../../domain/completion/IdempotencyErrors.ts"
import { IdempotencyKey } from "../../domain/completion/IdempotencyKey.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

/** Answers are large: they are deleted in portions, so that no statement takes long. */
const sweepPortion = 100

const Claim = Schema.Struct({
  organizationId: OrganizationId,
  key: IdempotencyKey,
  id: Schema.String,
  digest: Schema.String
})

export const layer = Layer.effect(
  IdempotentAnswers,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make
    const lease = `${claimSeconds} seconds`
    const age = `${answerHours} hours`

    /** A key that is new or free again. */
    const take = SqlSchema.findOneOption({
      Request: Claim,
      Result: Schema.Struct({ claim: Schema.String }),
      execute: ({ digest, id, key, organizationId }) => sql`
        INSERT INTO idempotent_answers AS a (organization_id, key, claim, digest, expires_at)
        VALUES (${organizationId}, ${key}, ${id}, ${digest}, clock_timestamp() + ${lease}::interval)
        ON CONFLICT (organization_id, key) DO UPDATE
        SET claim = excluded.claim, digest = excluded.digest, body = NULL, expires_at = excluded.expires_at
        WHERE a.expires_at <= clock_timestamp()
        RETURNING claim`
    })

    /** What has the key. */
    const find = SqlSchema.findOneOption({
      Request: Claim,
      Result: Schema.Struct({ same: Schema.Boolean, body: Schema.NullOr(Schema.String) }),
      execute: ({ digest, key, organizationId }) => sql`
        SELECT digest = ${digest} AS same, CASE WHEN digest = ${digest} THEN body END AS body
        FROM idempotent_answers
        WHERE organization_id = ${organizationId} AND key = ${key} AND expires_at > clock_timestamp()`
    })

    const claim = Effect.fn("IdempotentAnswers.claim")(function* (wanted: KeyClaim) {
      for (;;) {
        if (Option.isSome(yield* Effect.catch(briefly(take(wanted)), toDefect))) return null
        const found = yield* Effect.catch(briefly(find(wanted)), toDefect)
        // Whoever had it gave it up in between.
        if (Option.isNone(found)) continue
        const { body, same } = found.value
        if (!same) return yield* new IdempotencyKeyReused()
        return body ?? (yield* new IdempotencyKeyBusy())
      }
    })

    const renew = Effect.fn("IdempotentAnswers.renew")(function* (claims: ReadonlyArray<KeyClaim>) {
      const rows = JSON.stringify(
        claims.map(({ id, key, organizationId }) => ({ organization: organizationId, key, id }))
      )
      yield* Effect.catch(
        briefly(sql`
          UPDATE idempotent_answers a SET expires_at = clock_timestamp() + ${lease}::interval
          FROM jsonb_to_recordset(${rows}::jsonb) AS c (organization text, key text, id text)
          WHERE a.organization_id = c.organization AND a.key = c.key AND a.claim = c.id AND a.body IS NULL`),
        toDefect
      )
    })

    const storeBody = SqlSchema.findOneOption({
      Request: Schema.Struct({ claim: Claim, body: Schema.String }),
      Result: Schema.Struct({ claim: Schema.String }),
      execute: ({ body, claim: { id, key, organizationId } }) => sql`
        UPDATE idempotent_answers SET body = ${body}, expires_at = clock_timestamp() + ${age}::interval
        WHERE organization_id = ${organizationId} AND key = ${key} AND claim = ${id} AND body IS NULL
        RETURNING claim`
    })

    const freeRow = SqlSchema.findOneOption({
      Request: Claim,
      Result: Schema.Struct({ claim: Schema.String }),
      execute: ({ id, key, organizationId }) => sql`
        DELETE FROM idempotent_answers
        WHERE organization_id = ${organizationId} AND key = ${key} AND claim = ${id} AND body IS NULL
        RETURNING claim`
    })

    const sweepOnce = SqlSchema.findOne({
      Request: Schema.Int,
      Result: Schema.Struct({ swept: Schema.Int }),
      execute: (portion) => sql`
        WITH swept AS (
          DELETE FROM idempotent_answers WHERE (organization_id, key) IN (
            SELECT organization_id, key FROM idempotent_answers WHERE expires_at <= clock_timestamp()
            LIMIT ${portion} FOR UPDATE SKIP LOCKED)
          RETURNING 1
        )
        SELECT count(*)::int AS swept FROM swept`
    })

    const sweep = Effect.gen(function* () {
      for (let total = 0; ;) {
        const { swept } = yield* briefly(sweepOnce(sweepPortion))
        if (swept === 0) return total
        total += swept
      }
    }).pipe(
      Effect.catchTag("NoSuchElementError", Effect.die),
      Effect.catch(toDefect),
      Effect.withSpan("IdempotentAnswers.sweep")
    )

    return IdempotentAnswers.of({
      claim,
      renew,
      store: Effect.fn("IdempotentAnswers.store")((claim, body) =>
        Effect.map(Effect.catch(briefly(storeBody({ claim, body })), toDefect), Option.isSome)
      ),
      free: Effect.fn("IdempotentAnswers.free")((claim) =>
        Effect.map(Effect.catch(briefly(freeRow(claim)), toDefect), Option.isSome)
      ),
      sweep
    })
  })
)
