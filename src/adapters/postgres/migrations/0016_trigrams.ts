import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * The trigrams of a text as before, in less than half of the time: the mark of the workspace was made anew for each of
 * them. What they are in the index stays as it is.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE OR REPLACE FUNCTION message_trigrams(workspace text, content bytea) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
    DECLARE
      mark bigint := ('x' || encode(substring(sha256(convert_to(workspace, 'UTF8')) FOR 5), 'hex'))::bit(40)::bigint << 24;
    BEGIN
      RETURN ARRAY(
        SELECT mark | (get_byte(content, i) << 16) | (get_byte(content, i + 1) << 8) | get_byte(content, i + 2)
        FROM generate_series(0, length(content) - 3) AS i);
    END $$`
})
