import { Duration, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/** How long the message of an ended turn is kept: a start that comes late finds that there was one. */
const kept = "10 minutes"

const interval = Duration.minutes(1)

/** Rows at a time, so that nobody waits for the locks. */
const batch = 500

/**
 * The cluster keeps the messages of workflows and their replies for ever. Those of ended turns are deleted, by every
 * process, each what no other does at the moment. A turn that is started once more after that finds its end in the
 * journal.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()

    const prune = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ pruned: Schema.Int }),
      execute: () => sql`
        WITH ended AS (
          SELECT id FROM cluster_messages
          WHERE processed AND kind = 0 AND last_read < now() - ${kept}::interval
          LIMIT ${batch} FOR UPDATE SKIP LOCKED
        ), replies AS (
          DELETE FROM cluster_replies WHERE request_id IN (SELECT id FROM ended)
        ), messages AS (
          DELETE FROM cluster_messages WHERE request_id IN (SELECT id FROM ended) RETURNING 1
        )
        SELECT count(*)::int AS pruned FROM messages`
    })

    yield* prune().pipe(
      Effect.repeat({ while: ({ pruned }) => pruned >= batch }),
      Effect.catchCause((cause) => Effect.logDebug("Ended turns stay in the store for now.", cause)),
      Effect.delay(interval),
      Effect.repeat(Schedule.forever),
      Effect.forkScoped
    )
  })
)
