import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as Clients from "../../../src/adapters/postgres/Clients.ts"
import * as Migrations from "../../../src/adapters/postgres/Migrations.ts"
import { Sessions } from "../../../src/application/ports/storage/Sessions.ts"
import { OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { emptyDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "./Stores.ts"

const {
  "0015_searched_texts": searchedTexts,
  "0016_trigrams": _trigrams,
  "0017_fewer_statements": _fewerStatements,
  "0018_trigrams_again": _trigramsAgain,
  ...before
} = Migrations.all

const workspace = OrganizationId.make("acme")

/** As the service did it before. */
const says = Effect.fnUntraced(function* (position: number, text: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO session_messages (organization_id, folded, session_id, role, position, created_at, text, body)
    VALUES (${workspace}, convert_to(lower(${text}), 'UTF8'), 's', 'user', ${position}::int, 1, ${text}, '{"id":"m"}')`
})

it.live("messages stay searchable over the migration that moves what is searched, also those of that moment", () =>
  Effect.gen(function* () {
    const url = yield* Effect.promise(() => emptyDatabase("migrated-messages"))
    const connected = Effect.provide(Layer.fresh(Clients.server({ url: Redacted.make(url), maxConnections: 4 })))
    yield* Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Migrations.runOnly(before)
      yield* sql`INSERT INTO organizations (id, name, created_at) VALUES (${workspace}, 'acme', 1)`
      yield* sql`INSERT INTO sessions (organization_id, id, created_at, last_activity) VALUES (${workspace}, 's', 1, 1)`
      yield* says(0, "A Needle that stays")
      yield* says(1, "a needle that goes")
      const migrating = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* says(2, "the needle that comes")
          yield* sql`DELETE FROM session_messages WHERE position = 1`
          const migrating = yield* Effect.forkDetach(
            connected(Migrations.runOnly({ "0015_searched_texts": searchedTexts }))
          )
          // It has copied what it saw, and waits for this transaction.
          yield* sql`SELECT 1 FROM pg_locks WHERE NOT granted`.pipe(
            Effect.repeat({ until: ({ length }) => length > 0, schedule: Schedule.spaced("20 millis") })
          )
          return migrating
        })
      )
      assert.deepStrictEqual(yield* Fiber.join(migrating), [[15, "searched_texts"]])
    }).pipe(connected)

    yield* Effect.gen(function* () {
      const { searchMessages } = yield* Sessions
      for (const phrase of ["needle", "ne"]) {
        const { hits, total } = yield* searchMessages(workspace, { phrase, limit: 10, offset: 0 })
        assert.strictEqual(total, 2)
        assert.deepStrictEqual(
          hits.map(({ message }) => message.content),
          ["the needle that comes", "A Needle that stays"]
        )
      }
    }).pipe(Effect.provide(onServer(url)))
  })
)
