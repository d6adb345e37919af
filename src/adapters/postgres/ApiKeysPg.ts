import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { ApiKeys } from "../../application/ports/storage/ApiKeys.ts"
import { ApiKey, Caller } from "../../domain/identity/ApiKey.ts"
import { Role } from "../../domain/identity/Member.ts"
import { ApiKeyId, OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const columns = {
  ...ApiKey.fields,
  createdAt: SafeInt8,
  expiresAt: Schema.NullOr(SafeInt8),
  revokedAt: Schema.NullOr(SafeInt8)
}

/** A row of `api_keys` without its digest. */
const Row = Schema.Struct(columns).pipe(Schema.decodeTo(ApiKey))

export const layer = Layer.effect(
  ApiKeys,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make
    const shown = sql.literal("id, organization_id, member_id, name, hint, created_at, expires_at, revoked_at")

    const insertRow = SqlSchema.void({
      Request: Schema.Struct({ ...columns, digest: Schema.String }),
      execute: (row) => sql`INSERT INTO api_keys ${sql.insert(row)}`
    })

    const byDigest = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: Schema.Struct({ ...columns, role: Role, now: SafeInt8 }),
      execute: (digest) =>
        sql`
          SELECT k.*, m.role, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
          FROM api_keys k JOIN members m ON m.id = k.member_id WHERE k.digest = ${digest}`
    })

    const ofOrganization = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Row,
      execute: (id) => sql`SELECT ${shown} FROM api_keys WHERE organization_id = ${id} ORDER BY created_at, id`
    })

    const revokeRow = SqlSchema.findOneOption({
      Request: Schema.Struct({ id: ApiKeyId, at: SafeInt8 }),
      Result: Row,
      execute: ({ at, id }) =>
        sql`UPDATE api_keys SET revoked_at = coalesce(revoked_at, ${at}) WHERE id = ${id} RETURNING ${shown}`
    })

    const findByDigest = Effect.fn("ApiKeys.findByDigest")(function* (digest: string) {
      const row = yield* Effect.catch(briefly(byDigest(digest)), toDefect)
      return Option.map(row, ({ now, role, ...fields }) => {
        const key = new ApiKey(fields)
        const { id: keyId, memberId, organizationId } = key
        return { key, caller: new Caller({ organizationId, memberId, role, keyId }), usableFor: key.usableFor(now) }
      })
    })

    return ApiKeys.of({
      insert: (key, digest) =>
        Effect.catch(insertRow({ ...key, digest }), toDefect).pipe(Effect.withSpan("ApiKeys.insert")),
      findByDigest,
      list: (organization) =>
        Effect.catch(ofOrganization(organization), toDefect).pipe(Effect.withSpan("ApiKeys.list")),
      revoke: (id, at) => Effect.catch(revokeRow({ id, at }), toDefect).pipe(Effect.withSpan("ApiKeys.revoke"))
    })
  })
)
