import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Chunks stay for a while after their turn has ended: whoever listens, or comes back meanwhile, misses no number. They go
 * when a later turn of their session ends, or with the sweep.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DO $$
    DECLARE changed text;
    BEGIN
      FOREACH changed IN ARRAY ARRAY['finish_turn', 'reset_session'] LOOP
        EXECUTE replace(pg_get_functiondef(changed::regproc), 'e.id >= since', 'e.id < since');
      END LOOP;
    END $$`
  yield* sql`CREATE INDEX session_events_chunks ON session_events (created_at) WHERE is_chunk`
  yield* sql`
    CREATE FUNCTION forget_chunks(millis bigint) RETURNS bigint LANGUAGE sql AS $$
      WITH old AS (
        SELECT DISTINCT e.organization_id, e.session_id FROM session_events e
        WHERE e.is_chunk AND e.created_at < epoch_millis() - millis
      ), held AS (
        -- In whose turn others write: they are not waited for.
        SELECT s.organization_id, s.id FROM sessions s
        JOIN old ON old.organization_id = s.organization_id AND old.session_id = s.id
        FOR UPDATE OF s SKIP LOCKED
      ), forgotten AS (
        DELETE FROM session_events e USING held
        WHERE e.organization_id = held.organization_id AND e.session_id = held.id
          AND e.is_chunk AND e.created_at < epoch_millis() - millis
          AND NOT is_running(e.organization_id, e.session_id, e.turn_id)
        RETURNING 1)
      SELECT count(*) FROM forgotten
    $$`
})
