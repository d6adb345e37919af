import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import * as Reactivity from "effect/reactivity/Reactivity"

/** Does to a database what no command of the service does, such as making a month pass. Gives the rows. */
export const execute = (databaseUrl: string, statement: string): Promise<ReadonlyArray<unknown>> =>
  PgClient.makeClient({ url: Redacted.make(databaseUrl) }).pipe(
    Effect.flatMap((sql) => sql.unsafe(statement)),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.runPromise
  )
