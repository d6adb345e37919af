import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** As 0014 had it, each trigram once: what 0016 put in its place is taken back. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE OR REPLACE FUNCTION message_trigrams(workspace text, content bytea) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
      SELECT coalesce(array_agg(
        (mark.of << 24) | (get_byte(three.bytes, 0) << 16) | (get_byte(three.bytes, 1) << 8) | get_byte(three.bytes, 2)
      ), '{}')
      FROM (
        SELECT ('x' || encode(substring(sha256(convert_to(workspace, 'UTF8')) FOR 5), 'hex'))::bit(40)::bigint AS of
      ) mark, (
        SELECT DISTINCT substring(at.whole FROM at.i FOR 3) AS bytes
        FROM (
          SELECT copy.whole, generate_series(1, length(copy.whole) - 2) AS i
          FROM (SELECT content || '' AS whole OFFSET 0) copy
        ) at
      ) three
    $$`
})
