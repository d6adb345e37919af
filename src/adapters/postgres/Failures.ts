import { Effect, type Schema } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "../../application/ports/storage/StoreUnavailable.ts"

const away: ReadonlySet<string> = new Set([
  "ConnectionError",
  "AuthenticationError",
  "StatementTimeoutError",
  "LockTimeoutError"
])

/** The store is at fault, whatever it was asked. */
export const isAway = (error: SqlError.SqlError | Schema.SchemaError): boolean =>
  SqlError.isSqlError(error) && away.has(error.reason._tag)

/**
 * No use case can mend a failing store, so its errors end as defects: a lost connection as `StoreUnavailable`, which
 * the edge answers with 503, anything else as itself.
 */
export const toDefect = (error: SqlError.SqlError | Schema.SchemaError): Effect.Effect<never> =>
  Effect.die(isAway(error) ? new StoreUnavailable({ cause: error }) : error)

export const isUniqueViolation = (error: SqlError.SqlError | Schema.SchemaError): boolean =>
  SqlError.isSqlError(error) && error.reason._tag === "UniqueViolation"

/** What the server, or the way to it, said: the innermost cause, without the words of the clients around it. */
export const reasonOf = (error: unknown): string =>
  error instanceof AggregateError && error.message === ""
    ? error.errors.map(reasonOf).join(", ")
    : error instanceof Error
    ? error.cause === undefined ? error.message : reasonOf(error.cause)
    : String(error)
