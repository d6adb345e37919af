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
      WITH forgotten AS (
        DELETE FROM session_events e
        WHERE e.is_chunk AND e.created_at < epoch_millis() - millis
          AND NOT is_running(e.organization_id, e.session_id, e.turn_id)
        RETURNING 1)
      SELECT count(*) FROM forgotten
    $$`
})
