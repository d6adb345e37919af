import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Turns of a removed session end too, for those who listen: what says so stays for as long as chunks do. And a long
 * message is taken apart once, each three bytes of it counted once, instead of looking for every byte anew.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DROP FUNCTION remove_session(text, text)`
  // `ran` is null if there was no such session.
  yield* sql`
    CREATE FUNCTION remove_session(
      workspace text, session text, ending text, OUT ran text[], OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    DECLARE
      now_at  bigint := epoch_millis();
      endings text[];
    BEGIN
      IF NOT lock_session(workspace, session) THEN RETURN; END IF;
      SELECT coalesce(array_agg(t.id) FILTER (WHERE t.status = 'running'), '{}'), coalesce(array_agg(ending), '{}')
      INTO ran, endings FROM session_turns t
      WHERE t.organization_id = workspace AND t.session_id = session AND t.status IN ('running', 'queued');
      DELETE FROM session_turns t WHERE t.organization_id = workspace AND t.session_id = session;
      DELETE FROM session_events e WHERE e.organization_id = workspace AND e.session_id = session;
      logged := append_to_session(workspace, session, NULL, '[]', endings);
      UPDATE session_events e SET is_chunk = true WHERE e.organization_id = workspace AND e.session_id = session;
      UPDATE sessions s SET removed_at = now_at WHERE s.organization_id = workspace AND s.id = session;
      PERFORM forget_messages(workspace, session);
      UPDATE session_workspaces w SET current_session = NULL
      WHERE w.organization_id = workspace AND w.current_session = session;
      DELETE FROM sessions s WHERE s.organization_id = workspace AND s.id IN (
        SELECT old.id FROM sessions old
        WHERE old.organization_id = workspace AND old.removed_at < now_at - 86400000 FOR UPDATE SKIP LOCKED);
    END $$`

  // The same numbers as before for every text, so what is indexed stays as it is. The copy is read from memory.
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
