import { Effect } from "effect"
import { Migrator } from "effect/sql"
import { toDefect } from "./Failures.ts"
import identity from "./migrations/0001_identity.ts"
import billing from "./migrations/0002_billing.ts"

const migrate = Migrator.make({})

/**
 * Brings the schema up to date; gives the migrations that ran. Any number of processes may call it at once: a lock on
 * the table of migrations lets each run once.
 */
export const run = migrate({
  loader: Migrator.fromRecord({
    "0001_identity": identity,
    "0002_billing": billing
  }),
  table: "schema_migrations"
}).pipe(Effect.catchTag("SqlError", toDefect), Effect.orDie)
