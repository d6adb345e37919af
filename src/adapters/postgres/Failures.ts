import { Effect, Predicate, type Schema } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "../../application/ports/storage/StoreUnavailable.ts"

const away: ReadonlySet<string> = new Set([
  "ConnectionError",
  "AuthenticationError",
  "StatementTimeoutError",
  "LockTimeoutError"
])

/**
 * What the server says when it can serve nobody: it is out of something (53), shuts down, crashes or starts (57P), its
 * system fails (58), or it is a standby just now (25006).
 */
const unable = /^(?:53|57P|58|25006)/

/** The store is at fault, whatever it was asked. */
export const isAway = (error: SqlError.SqlError | Schema.SchemaError): boolean =>
  SqlError.isSqlError(error) && (away.has(error.reason._tag) || unable.test(codeOf(error.reason.cause)))

const codeOf = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && Predicate.isString(cause.code) ? cause.code : ""

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
      ? error.cause === undefined
        ? error.message
        : reasonOf(error.cause)
      : String(error)
