import { PgClient, PgConnection } from "@effect/sql-pg"
import { Duration, Effect, Schedule, Stream } from "effect"

/** A change is seen within a second even where every notice is lost. */
const interval = Duration.millis(750)

/**
 * When to look into the tables for what other processes on the same server have done: at every notice of a channel, and
 * often enough besides, since a notice can be lost with its connection. That is one of its own, outside of the pool, and
 * made anew whenever it breaks. The embedded store, with one process, has nothing to look for.
 */
export const wakeUps = (channel: string): Effect.Effect<Stream.Stream<void>, never, PgClient.PgClient> =>
  Effect.map(PgClient.PgClient, ({ config }) => {
    if (config.stream !== undefined) return Stream.never
    const listening = Stream.unwrap(
      Effect.gen(function* () {
        const connection = yield* PgConnection.make(config)
        const notices = yield* connection.listen(channel)
        const told = Stream.fromQueue(notices).pipe(
          Stream.tapError((error) =>
            Effect.logWarning("Notices of the store are lost: listening again.", error.message)
          )
        )
        // What happened before it listened may have been missed.
        return Stream.concat(Stream.succeed(undefined), told)
      })
    ).pipe(
      Stream.map(() => undefined),
      Stream.retry(Schedule.spaced("500 millis")),
      // It fails for ever or never ends.
      Stream.catch(() => Stream.empty)
    )
    return Stream.merge(Stream.tick(interval), listening).pipe(Stream.buffer({ capacity: 1, strategy: "sliding" }))
  })
