import { Context, Duration, Effect, Fiber } from "effect"
import { SqlError } from "effect/sql"

/**
 * How long a request waits for a statement. A server can hang, or the way to it swallow everything; the embedded store,
 * in this process, cannot.
 */
export const Patience = Context.Reference<Duration.Duration>("gateway/postgres/Patience", {
  defaultValue: () => Duration.infinity
})

/** A report reads more than a request does. */
const forReports = 5

/** A statement, or once the patience is over the failure of a lost connection. */
export type Patiently = <A, E>(statement: Effect.Effect<A, E>) => Effect.Effect<A, E | SqlError.SqlError>

/** For statements that a request waits for (`briefly`), and for reports (`longer`). */
export const make: Effect.Effect<{ readonly briefly: Patiently; readonly longer: Patiently }> = Effect.map(
  Patience,
  (patience) => ({ briefly: within(patience), longer: within(Duration.times(patience, forReports)) })
)

/** To cancel a statement on a server that hangs takes seconds more: that goes on beside. */
const within =
  (limit: Duration.Duration): Patiently =>
  (statement) =>
    Duration.isFinite(limit)
      ? Effect.flatMap(Effect.forkDetach(statement), (running) =>
          Fiber.join(running).pipe(
            Effect.timeoutOrElse({ duration: limit, orElse: () => Effect.fail(noAnswer(limit)) }),
            Effect.ensuring(Effect.sync(() => running.interruptUnsafe()))
          )
        )
      : statement

const noAnswer = (limit: Duration.Duration): SqlError.SqlError => {
  const message = `The server did not answer within ${Duration.format(limit)}`
  const cause = new Error(message)
  return new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message, operation: "query" }) })
}
