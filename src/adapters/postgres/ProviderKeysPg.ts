import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { SealedText } from "../../application/ports/runtime/Secrets.ts"
import { ProviderKeys } from "../../application/ports/storage/ProviderKeys.ts"
import { ProviderKey, ProviderName } from "../../domain/identity/ProviderKey.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const columns = { ...ProviderKey.fields, createdAt: SafeInt8 }

/** A row of `provider_keys`, in both directions. */
const Row = Schema.Struct({ ...columns, sealed: SealedText })

export const layer = Layer.effect(
  ProviderKeys,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { briefly } = yield* Patience.make

    const putRow = SqlSchema.void({
      Request: Row,
      execute: (row) => sql`
        INSERT INTO provider_keys ${sql.insert(row)}
        ON CONFLICT (organization_id, provider)
        DO UPDATE SET hint = excluded.hint, sealed = excluded.sealed, created_at = excluded.created_at`
    })

    const ofOrganization = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Row,
      execute: (id) => sql`SELECT * FROM provider_keys WHERE organization_id = ${id} ORDER BY provider COLLATE "C"`
    })

    const removeRow = SqlSchema.findOneOption({
      Request: Schema.Struct({ organization: OrganizationId, provider: ProviderName }),
      Result: Schema.Struct(columns).pipe(Schema.decodeTo(ProviderKey)),
      execute: ({ organization, provider }) => sql`
        DELETE FROM provider_keys WHERE organization_id = ${organization} AND provider = ${provider}
        RETURNING organization_id, provider, hint, created_at`
    })

    const list = Effect.fn("ProviderKeys.list")(function* (organization: OrganizationId) {
      const rows = yield* Effect.catch(briefly(ofOrganization(organization)), toDefect)
      return rows.map(({ sealed, ...key }) => ({ key: new ProviderKey(key), sealed }))
    })

    return ProviderKeys.of({
      put: ({ key, sealed }) =>
        Effect.catch(putRow({ ...key, sealed }), toDefect).pipe(Effect.withSpan("ProviderKeys.put")),
      list,
      remove: (organization, provider) =>
        Effect.catch(removeRow({ organization, provider }), toDefect).pipe(Effect.withSpan("ProviderKeys.remove"))
    })
  })
)
