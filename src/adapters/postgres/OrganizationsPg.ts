import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Organizations } from "../../application/ports/storage/Organizations.ts"
import { NameTaken } from "../../domain/identity/IdentityErrors.ts"
import { Organization } from "../../domain/identity/Organization.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { isUniqueViolation, toDefect } from "./Failures.ts"

/** A row of `organizations`, in both directions. */
const Row = Schema.Struct({ ...Organization.fields, createdAt: SafeInt8 }).pipe(Schema.decodeTo(Organization))

export const layer = Layer.effect(
  Organizations,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const insertRow = SqlSchema.void({
      Request: Row,
      execute: (row) => sql`INSERT INTO organizations ${sql.insert(row)}`
    })

    const byId = SqlSchema.findOneOption({
      Request: OrganizationId,
      Result: Row,
      execute: (id) => sql`SELECT * FROM organizations WHERE id = ${id}`
    })

    const byName = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: Row,
      execute: (name) => sql`SELECT * FROM organizations WHERE name = ${name}`
    })

    const all = SqlSchema.findAll({
      Request: Schema.Void,
      Result: Row,
      execute: () => sql`SELECT * FROM organizations ORDER BY created_at, id`
    })

    const insert = Effect.fn("Organizations.insert")(function* (organization: Organization) {
      yield* insertRow(organization).pipe(
        Effect.andThen(sql`INSERT INTO credit_accounts (organization_id) VALUES (${organization.id})`),
        sql.withTransaction,
        Effect.catchIf(isUniqueViolation, () =>
          Effect.fail(new NameTaken({ kind: "organization", name: organization.name }))
        ),
        Effect.catchTag(["SqlError", "SchemaError"], toDefect)
      )
    })

    return Organizations.of({
      insert,
      findById: (id) => Effect.catch(byId(id), toDefect).pipe(Effect.withSpan("Organizations.findById")),
      findByName: (name) => Effect.catch(byName(name), toDefect).pipe(Effect.withSpan("Organizations.findByName")),
      list: Effect.catch(all(), toDefect).pipe(Effect.withSpan("Organizations.list"))
    })
  })
)
