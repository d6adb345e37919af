import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Array, Effect, Layer, Option, Schedule, Schema } from "effect"
import { ClusterError, type Envelope, MessageStorage, ShardId, Snowflake, SqlMessageStorage } from "effect/cluster"
import { Migrator, SqlClient, SqlSchema } from "effect/sql"

/** A row of what the cluster is told. Kind 0 asks for something, the others are about what was asked for. */
const Row = Schema.Struct({
  id: Schema.String,
  kind: Schema.Int,
  isAnswered: Schema.Boolean,
  shard: Schema.String,
  entityType: Schema.String,
  entityId: Schema.String,
  tag: Schema.NullOr(Schema.String),
  payload: Schema.NullOr(Schema.fromJsonString(Schema.Unknown)),
  headers: Schema.NullOr(Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))),
  traceId: Schema.NullOr(Schema.String),
  spanId: Schema.NullOr(Schema.String),
  sampled: Schema.NullOr(Schema.Boolean)
})

/** What ends a request. */
const Ending = Schema.Struct({
  id: Schema.String,
  request: Schema.String,
  exit: Schema.fromJsonString(Schema.Unknown)
})

/** Where the library would store that a workflow is to be interrupted. Turns are cancelled in their journal. */
const interruptions = /^Workflow\/Turn\/[^/]+\/deferred\/Workflow\/InterruptSignal$/

/**
 * What tells the cluster of turns. Its tables and statements are the library's, but for those of every turn. New rows are
 * claimed by a statement that stays prepared: the library's has its shards and the time in its text, and takes longer to
 * be parsed and planned than to run. A reply is one statement instead of four, and the first reply counts. Nothing is
 * asked that is known.
 */
export const layer = Layer.effect(
  MessageStorage.MessageStorage,
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const stored = yield* SqlMessageStorage.makeEncodedStorage({})

    const claim = SqlSchema.findAll({
      Request: Schema.Struct({ shards: Schema.String, now: Schema.Int, most: Schema.NullOr(Schema.Int) }),
      Result: Row,
      execute: ({ most, now, shards }) => sql`
        WITH claimed AS (
          UPDATE cluster_messages m SET last_read = NOW()
          FROM (
            SELECT n.id FROM cluster_messages n
            WHERE NOT n.processed AND n.shard_id = ANY (string_to_array(${shards}, ','))
              AND (n.last_read IS NULL OR n.last_read < NOW() - INTERVAL '10 minutes')
              AND (n.deliver_at IS NULL OR n.deliver_at <= ${now}::bigint)
              AND NOT EXISTS (
                SELECT FROM cluster_replies r WHERE r.request_id = n.request_id AND (r.kind = 0 OR NOT r.acked))
            ORDER BY n.rowid LIMIT ${most}::int FOR UPDATE
          ) AS unread
          WHERE m.id = unread.id RETURNING m.*
        )
        SELECT id::text, kind, last_reply_id IS NOT NULL AS "isAnswered", shard_id AS shard,
               entity_type AS "entityType", entity_id AS "entityId", tag, payload, headers,
               trace_id AS "traceId", span_id AS "spanId", sampled
        FROM claimed ORDER BY rowid`
    })

    const end = SqlSchema.void({
      Request: Ending,
      execute: ({ exit, id, request }) => sql`
        WITH ended AS (
          UPDATE cluster_messages SET processed = true, last_reply_id = ${id}::bigint
          WHERE request_id = ${request}::bigint AND NOT processed RETURNING id
        )
        INSERT INTO cluster_replies (id, kind, request_id, payload)
        SELECT ${id}::bigint, 0, ${request}::bigint, ${exit} WHERE EXISTS (SELECT FROM ended)`
    })

    return yield* MessageStorage.makeEncoded({
      ...stored,
      requestIdForPrimaryKey: (key) =>
        interruptions.test(key) ? Effect.succeedNone : stored.requestIdForPrimaryKey(key),
      saveReply: (reply) =>
        reply._tag === "Chunk"
          ? stored.saveReply(reply)
          : end({ id: reply.id, request: reply.requestId, exit: reply.exit }).pipe(
              (ended) => ClusterError.PersistenceError.refail(ended),
              Effect.withTracerEnabled(false)
            ),
      unprocessedMessages: (shards, now, options = {}) =>
        options.addresses !== undefined
          ? stored.unprocessedMessages(shards, now, options)
          : claim({ shards: shards.join(","), now, most: options.limit ?? null }).pipe(
              Effect.flatMap((rows) => {
                const requests = rows.flatMap(requestIn)
                const ids = rows.map(({ id }) => Snowflake.Snowflake(id))
                // Others are rare, and their order counts: all are read once more, by the library.
                return requests.length < rows.length && Array.isArrayNonEmpty(ids)
                  ? stored.unprocessedMessagesById(ids, now)
                  : Effect.succeed(requests)
              }),
              (claimed) => ClusterError.PersistenceError.refail(claimed),
              Effect.withTracerEnabled(false)
            )
    })
  })
).pipe(Layer.provide([NodeCrypto.layerDigest, Snowflake.layerGenerator]))

/** What a row asks for, if that is all it says. */
const requestIn = (row: typeof Row.Type) => {
  const { entityId, entityType, headers, id, isAnswered, kind, payload, sampled, shard, spanId, tag, traceId } = row
  if (kind !== 0 || isAnswered || tag === null || headers === null) return []
  const envelope: Envelope.Encoded = {
    _tag: "Request",
    requestId: id,
    address: { shardId: ShardId.fromStringEncoded(shard), entityType, entityId },
    tag,
    payload,
    headers,
    ...(traceId === null || spanId === null ? {} : { traceId, spanId, sampled: sampled ?? false })
  }
  return [{ envelope, lastSentReply: Option.none() }]
}

/**
 * Rows that nobody has worked off are found without those of ended turns, whatever the statistics say. And nobody waits
 * until a row is on the disk: what counts is in the journal. Whatever a server forgets that loses its memory, the turns
 * that run are started again by `UnstartedTurns` (one that still runs where it was waits for its own end), and those that
 * have ended find their end.
 */
const own = Migrator.make({})({
  table: "turn_messages_migrations",
  loader: Migrator.fromRecord({
    "0001_claims": Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE INDEX cluster_messages_unprocessed ON cluster_messages (rowid) WHERE NOT processed`
      yield* sql`
        CREATE FUNCTION commit_without_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM set_config('synchronous_commit', 'off', true);
          RETURN NULL;
        END $$`
      for (const table of ["cluster_messages", "cluster_replies"]) {
        yield* sql`
          CREATE TRIGGER commit_without_waiting BEFORE INSERT OR UPDATE OR DELETE ON ${sql(table)}
          FOR EACH STATEMENT EXECUTE FUNCTION commit_without_waiting()`
      }
    })
  })
})

/** A process of an earlier version may hold locks in another order. */
const patiently = { schedule: Schedule.spaced("200 millis"), times: 10 }

/** Any number of processes may bring the tables up to date at once. */
export const migrations = Layer.effectDiscard(own.pipe(Effect.retry(patiently), Effect.orDie)).pipe(
  Layer.provide(SqlMessageStorage.layerMigrations({}))
)
