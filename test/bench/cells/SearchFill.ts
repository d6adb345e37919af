/**
 * Fills an organization's workspace with messages of a skewed vocabulary, about 200 characters each, 50 to a session.
 * Arguments: database URL, organization, number of the first message, number of the last. Prints one line of JSON: words
 * that many messages have, the most frequent first.
 *
 * Every message has the phrase `topic-<5 digits>x` of its number modulo 50,000.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Redacted, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import * as Clients from "../../../src/adapters/postgres/Clients.ts"
import { Filled } from "./Search.ts"

const Arguments = Schema.Tuple([
  Schema.NonEmptyString,
  Schema.NonEmptyString,
  Schema.FiniteFromString,
  Schema.FiniteFromString
])
const [url, organization, first, last] = Schema.decodeUnknownSync(Arguments)(process.argv.slice(2))

const vocabulary = 20_000
const wordsPerMessage = 25
const commonWords = 100

const fill = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const indexOf = SqlSchema.findOne({
    Request: Schema.String,
    Result: Schema.Struct({ definition: Schema.String }),
    execute: (name) => sql`SELECT indexdef AS definition FROM pg_indexes WHERE indexname = ${name}`
  })
  yield* sql`
    CREATE TABLE IF NOT EXISTS bench_words AS
    SELECT n, (
      SELECT string_agg(chr(97 + (hashtextextended(n || ':' || i, 7) & 1048575)::int % 26), '' ORDER BY i)
      FROM generate_series(1, 3 + n % 7) i) AS word
    FROM generate_series(0, ${vocabulary - 1}::int) n`
  yield* sql`CREATE UNIQUE INDEX IF NOT EXISTS bench_words_by_number ON bench_words (n) INCLUDE (word)`
  yield* sql`
    INSERT INTO sessions (organization_id, id, created_at, last_activity, message_count)
    SELECT o.id, 'session-' || s, 1700000000000, 1700000000000, 50
    FROM organizations o, generate_series(${Math.floor(first / 50)}::int, ${Math.floor(last / 50)}::int) s
    WHERE o.name = ${organization} ON CONFLICT DO NOTHING`
  // An index is faster made than kept.
  const { definition } = yield* indexOf("searched_texts_by_trigram")
  yield* sql`DROP INDEX searched_texts_by_trigram`
  yield* sql`
    WITH added AS (
      INSERT INTO session_messages (organization_id, session_id, role, position, created_at, text, body)
      SELECT o.id, 'session-' || m.number / 50, CASE WHEN m.number % 2 = 0 THEN 'user' ELSE 'assistant' END,
             m.number % 50, 1700000000000 + m.number, m.said, '{"id":"' || m.number || '"}'
      FROM organizations o, (
        SELECT number, 'Message ' || number || ' on topic-' || lpad((number % 50000)::text, 5, '0') || 'x: ' || (
          SELECT string_agg(w.word, ' ') FROM (
            SELECT floor(power(random(), 3) * ${vocabulary})::int AS n
            FROM generate_series(1, ${wordsPerMessage}::int) WHERE number >= 0) drawn JOIN bench_words w USING (n)) AS said
        FROM generate_series(${first}::int, ${last}::int) number) m
      WHERE o.name = ${organization} RETURNING *)
    INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
    SELECT organization_id, number, position, role, session_id, convert_to(lower(text), 'UTF8') FROM added`
  yield* sql.unsafe(definition)
  yield* sql`VACUUM ANALYZE session_messages`
  yield* sql`VACUUM ANALYZE searched_texts`
  const words = SqlSchema.findAll({
    Request: Schema.Int,
    Result: Schema.Struct({ word: Schema.String }),
    execute: (count) => sql`SELECT word FROM bench_words ORDER BY n LIMIT ${count}`
  })
  const common = (yield* words(commonWords)).map(({ word }) => word)
  yield* Console.log(Schema.encodeSync(Schema.fromJsonString(Filled))({ common }))
})

fill.pipe(Effect.provide(Clients.server({ url: Redacted.make(url), maxConnections: 1 })), NodeRuntime.runMain)
