import { Context, Duration, Effect, Fiber } from "effect"
import { SqlError } from "effect/sql"

/**
 * How long a request waits for a statement. A server can hang, or the way to it swallow everything; the embedded store,
 * in this process, cannot. `isSilent` from a statement that got no answer in time until one that does: a request that
 * needs several must not wait for each as long.
 */
export interface Patience {
  readonly limit: Duration.Duration
  isSilent: boolean
}

export const Patience = Context.Reference<Patience>("gateway/postgres/Patience", {
  defaultValue: () => ({ limit: Duration.infinity, isSilent: false })
})

/** How long a server that has fallen silent is waited for. */
const impatience = Duration.millis(250)

/** A report reads more than a request does. */
const forReports = 5

/** A statement, or once the patience is over the failure of a lost connection. */
export type Patiently = <A, E>(statement: Effect.Effect<A, E>) => Effect.Effect<A, E | SqlError.SqlError>

/** For statements that a request waits for (`briefly`), and for reports (`longer`). */
export const make: Effect.Effect<{ readonly briefly: Patiently; readonly longer: Patiently }> = Effect.map(
  Patience,
  (patience) => ({ briefly: within(patience, 1), longer: within(patience, forReports) })
)

/** To cancel a statement on a server that hangs takes seconds more: that goes on beside. */
const within =
  (patience: Patience, times: number): Patiently =>
  (statement) =>
    Duration.isFinite(patience.limit)
      ? Effect.flatMap(Effect.forkDetach(statement, { startImmediately: true }), (running) => {
          const duration = patience.isSilent ? impatience : Duration.times(patience.limit, times)
          return Fiber.await(running).pipe(
            Effect.timeoutOrElse({
              duration,
              orElse: () =>
                // The timer of a process that was busy fires before what has arrived meanwhile is read.
                Effect.flatMap(Effect.yieldNow, () => {
                  const exit = running.pollUnsafe()
                  if (exit !== undefined) return Effect.succeed(exit)
                  patience.isSilent = true
                  return Effect.fail(noAnswer(duration))
                })
            }),
            Effect.flatMap((exit) => {
              patience.isSilent = false
              return exit
            }),
            Effect.ensuring(Effect.sync(() => running.interruptUnsafe()))
          )
        })
      : statement

const noAnswer = (limit: Duration.Duration): SqlError.SqlError => {
  const message = `The server did not answer within ${Duration.format(limit)}`
  const cause = new Error(message)
  return new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message, operation: "query" }) })
}
