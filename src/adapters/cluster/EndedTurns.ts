import { Clock, Duration, Effect, Layer, Schedule, Schema } from "effect"
import { MachineId, Snowflake } from "effect/cluster"
import { SqlClient, SqlSchema } from "effect/sql"

/** How long after its start the message of an ended turn is kept: a start that comes late finds that there was one. */
const kept = Duration.minutes(10)

const interval = Duration.minutes(1)

/** Turns at a time, so that nobody waits long for their locks. */
const most = 500

/**
 * Deletes the messages of ended turns that are older than that, with their replies: the library keeps them for ever.
 * Several processes may do so at once, each takes what no other has. A turn that is started once more after that finds
 * its end in the journal.
 */
export const prune = Effect.fnUntraced(function* (age: Duration.Duration, batch: number = most) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const some = SqlSchema.findOne({
    Request: Schema.BigIntFromString,
    Result: Schema.Struct({ ended: Schema.Int }),
    execute: (before) => sql`
      WITH ended AS (
        SELECT id FROM cluster_messages
        WHERE processed AND kind = 0 AND id < ${before}::bigint
        ORDER BY id LIMIT ${batch} FOR UPDATE SKIP LOCKED
      ), replies AS (
        DELETE FROM cluster_replies WHERE request_id IN (SELECT id FROM ended)
      ), messages AS (
        DELETE FROM cluster_messages WHERE request_id IN (SELECT id FROM ended)
      )
      SELECT count(*)::int AS ended FROM ended`
  })
  // The identifiers of messages begin with the time of their making.
  const timestamp = (yield* Clock.currentTimeMillis) - Duration.toMillis(age)
  const before = Snowflake.make({ timestamp, machineId: MachineId.make(0), sequence: 0 })
  yield* some(before).pipe(Effect.repeat({ while: ({ ended }) => ended === batch }))
})

/** Now and then. */
export const layer = Layer.effectDiscard(
  prune(kept).pipe(
    Effect.catchCause((cause) => Effect.logDebug("Ended turns stay in the store for now.", cause)),
    Effect.delay(interval),
    Effect.repeat(Schedule.forever),
    Effect.forkScoped
  )
)
