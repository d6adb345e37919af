import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Members } from "../../application/ports/storage/Members.ts"
import { NameTaken } from "../../domain/identity/IdentityErrors.ts"
import { Member } from "../../domain/identity/Member.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"
import { isUniqueViolation, toDefect } from "./Failures.ts"

/** A row of `members`, in both directions. */
const Row = Schema.Struct({ ...Member.fields, createdAt: SafeInt8 }).pipe(Schema.decodeTo(Member))

export const layer = Layer.effect(
  Members,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const insertRow = SqlSchema.void({
      Request: Row,
      execute: (row) => sql`INSERT INTO members ${sql.insert(row)}`
    })

    const ofOrganization = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Row,
      execute: (id) => sql`SELECT * FROM members WHERE organization_id = ${id} ORDER BY created_at, id`
    })

    const insert = Effect.fn("Members.insert")(function* (member: Member) {
      yield* insertRow(member).pipe(
        Effect.catchIf(isUniqueViolation, () => Effect.fail(new NameTaken({ kind: "member", name: member.name }))),
        Effect.catchTag(["SqlError", "SchemaError"], toDefect)
      )
    })

    return Members.of({
      insert,
      list: (organization) => Effect.catch(ofOrganization(organization), toDefect).pipe(Effect.withSpan("Members.list"))
    })
  })
)
