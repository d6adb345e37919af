import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What searches compare is in a table of its own, with nothing else that is large: to count a phrase that many messages
 * have, most of it is read, and half of what was read before were texts and bodies. And of the three bytes that a
 * phrase is made of, the index is asked for the rarest only: lists that most messages are in take as long to read as
 * the workspace is large, and say nothing.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE searched_texts (
      organization_id text NOT NULL,
      number          bigint NOT NULL,
      range           int NOT NULL GENERATED ALWAYS AS ((number >> 12)::int) STORED,
      position        int NOT NULL,
      role            text NOT NULL,
      session_id      text COLLATE "C" NOT NULL,
      folded          bytea NOT NULL,
      PRIMARY KEY (organization_id, number)
    )`
  yield* sql`
    INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
    SELECT organization_id, number, position, role, session_id, folded FROM session_messages ORDER BY number`
  yield* sql`ANALYZE searched_texts`
  yield* sql`
    CREATE INDEX searched_texts_by_trigram ON searched_texts
    USING gin (message_trigrams(organization_id, folded)) WITH (gin_pending_list_limit = 256)`
  // What other replicas wrote and removed meanwhile.
  yield* sql`LOCK TABLE session_messages IN ACCESS EXCLUSIVE MODE`
  yield* sql`
    DELETE FROM searched_texts t WHERE NOT EXISTS (
      SELECT FROM session_messages m WHERE m.number = t.number)`
  yield* sql`
    INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
    SELECT organization_id, number, position, role, session_id, folded FROM session_messages m
    WHERE NOT EXISTS (
      SELECT FROM searched_texts t WHERE t.organization_id = m.organization_id AND t.number = m.number)
    ORDER BY number`
  yield* sql`ALTER TABLE session_messages DROP COLUMN range, DROP COLUMN folded`

  // Under its number alone a message is found as before; whoever looks for a session's finds no second index that begins
  // with the workspace, which seems as good while the statistics take a new workspace to be empty.
  yield* sql`DROP INDEX session_messages_by_number`
  yield* sql`CREATE UNIQUE INDEX session_messages_by_number ON session_messages (number)`

  yield* sql`
    CREATE OR REPLACE FUNCTION append_to_session(
      workspace text, session text, turn text, messages jsonb, events text[]
    ) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      now_at  bigint := epoch_millis();
      counted int;
      latest  bigint;
    BEGIN
      UPDATE sessions s
      SET message_count = s.message_count + jsonb_array_length(messages),
          last_event = s.last_event + cardinality(events),
          last_activity = now_at
      WHERE s.organization_id = workspace AND s.id = session
      RETURNING s.message_count - jsonb_array_length(messages), s.last_event - cardinality(events)
      INTO counted, latest;

      IF jsonb_array_length(messages) > 0 THEN
        WITH said AS MATERIALIZED (
          SELECT m.item, counted + m.place::int - 1 AS place
          FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (item, place)
        ), added AS (
          INSERT INTO session_messages (organization_id, session_id, role, position, created_at, text, body)
          SELECT workspace, session, s.item->>'role', s.place, now_at, s.item->>'text', s.item->>'body'
          FROM said s ORDER BY s.place RETURNING number, position
        )
        INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
        SELECT workspace, a.number, a.position, s.item->>'role', session, convert_to(s.item->>'folded', 'UTF8')
        FROM added a JOIN said s ON s.place = a.position;
      END IF;

      IF cardinality(events) = 0 THEN RETURN NULL; END IF;
      INSERT INTO session_events (organization_id, session_id, id, turn_id, is_chunk, created_at, event)
      SELECT workspace, session, latest + e.place, turn, is_chunk(e.event), now_at, e.event
      FROM unnest(events) WITH ORDINALITY AS e (event, place);
      PERFORM pg_notify('session_events', json_build_array(workspace, session, latest + 1, now_at)::text);
      RETURN latest + 1;
    END $$`

  yield* sql`
    CREATE OR REPLACE FUNCTION forget_messages(workspace text, session text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM searched_texts t WHERE t.organization_id = workspace AND t.number = ANY (ARRAY(
        SELECT m.number FROM session_messages m WHERE m.organization_id = workspace AND m.session_id = session));
      DELETE FROM session_messages m WHERE m.organization_id = workspace AND m.session_id = session;
      UPDATE sessions s SET message_count = 0 WHERE s.organization_id = workspace AND s.id = session;
      INSERT INTO session_workspaces AS w (organization_id, forgotten) VALUES (workspace, 1)
      ON CONFLICT (organization_id) DO UPDATE SET forgotten = w.forgotten + 1;
    END $$`

  yield* sql`DROP FUNCTION sample_messages(text, bytea)`
  yield* sql`DROP FUNCTION messages_with(text, bytea, bytea)`
  yield* sql`DROP FUNCTION count_messages(text, bytea, text, bigint, bigint)`
  yield* sql`DROP FUNCTION sessions_with(text, bytea, bigint, bigint)`

  // How often a phrase of three bytes or more is among some messages from all over the workspace; which of its trigrams
  // (of sixteen at most, from all over the phrase) are best asked for: the rarest, until those that have them are few or
  // hardly more than have the phrase; and how large a share of messages has all of these. Trigrams are looked for in
  // fewer messages, and only where those begin. An odd step between two of them: in scripts of two bytes a letter, those
  // at even places tell single letters only.
  yield* sql`
    CREATE FUNCTION sample_messages(
      workspace text, phrase bytea, OUT seen bigint, OUT matched bigint, OUT trigrams bigint[], OUT share float8
    ) LANGUAGE sql STABLE AS $$
      WITH ends AS (
        SELECT (SELECT t.number FROM searched_texts t WHERE t.organization_id = workspace ORDER BY t.number LIMIT 1) AS low,
               (SELECT t.number FROM searched_texts t WHERE t.organization_id = workspace ORDER BY t.number DESC LIMIT 1) AS high
      ), sample AS MATERIALIZED (
        SELECT position(phrase IN picked.folded) > 0 AS matches,
               CASE WHEN picked.place <= 8 THEN substring(picked.folded FOR 4096) END AS head
        FROM ends, generate_series(0, 24) AS step, LATERAL (
          SELECT near.folded, row_number() OVER () AS place FROM (
            SELECT t.folded FROM searched_texts t
            WHERE t.organization_id = workspace AND t.number >= ends.low + (ends.high - ends.low) * step / 25
            ORDER BY t.number LIMIT 40) near) picked
      ), heads AS (
        SELECT greatest(count(*), 1)::float8 AS amount FROM sample s WHERE s.head IS NOT NULL
      ), parts AS (
        SELECT part.bytes, (SELECT count(*) FROM sample s WHERE position(part.bytes IN s.head) > 0) AS had
        FROM (
          SELECT DISTINCT substring(phrase FROM i FOR 3) AS bytes
          FROM generate_series(1, length(phrase) - 2, (length(phrase) + 13) / 16 | 1) AS i) part
      ), shares AS (
        SELECT p.bytes, p.had / h.amount AS share, row_number() OVER rarest_first AS place,
               exp(sum(ln(greatest(p.had, 0.5) / h.amount)) OVER (
                 rarest_first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS share_before
        FROM parts p, heads h WINDOW rarest_first AS (ORDER BY p.had, p.bytes)
      ), amounts AS (
        SELECT count(*) AS seen, count(*) FILTER (WHERE s.matches) AS matched FROM sample s
      ), chosen AS MATERIALIZED (
        SELECT s.bytes FROM shares s, amounts a
        WHERE s.place = 1 OR s.place <= 6 AND (
          s.share <= 0.02 OR s.share_before > greatest(0.0005, 1.5 * a.matched / greatest(a.seen, 1)))
      )
      SELECT a.seen, a.matched, (SELECT array_agg((message_trigrams(workspace, c.bytes))[1]) FROM chosen c), (
        SELECT count(*) FROM sample s
        WHERE s.head IS NOT NULL AND NOT EXISTS (SELECT FROM chosen c WHERE position(c.bytes IN s.head) = 0)) / h.amount
      FROM amounts a, heads h
    $$`

  // All messages with a phrase that few have: found by the index, whatever the planner thinks of it.
  yield* sql`
    CREATE FUNCTION messages_with(workspace text, phrase bytea, trigrams bigint[], cased bytea)
    RETURNS TABLE (number bigint, session_id text, place int, role text, is_exact boolean)
    LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET work_mem = '32MB' AS $$
    BEGIN
      RETURN QUERY
        SELECT t.number, t.session_id, t.position, t.role, cased IS NULL OR (
          SELECT position(cased IN convert_to(m.text, 'UTF8')) > 0 FROM session_messages m WHERE m.number = t.number)
        FROM searched_texts t
        WHERE message_trigrams(t.organization_id, t.folded) @> trigrams
          AND t.organization_id || '' = workspace AND position(phrase IN t.folded) > 0;
    END $$`

  // Which rows a count looks at: by the index if it is given trigrams, else all of the workspace. Conditions are written
  // so that no other index is taken for them. A table that is too large for what the index finds in it to be kept in
  // memory row by row is read instead: to take three bytes apart again costs more.
  yield* sql`
    CREATE FUNCTION searched_rows(has_trigrams boolean, above bigint, upto bigint) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
      IF has_trigrams AND above IS NULL AND pg_relation_size('searched_texts') < 2000000000 THEN
        PERFORM set_config('enable_seqscan', 'off', true);
        RETURN 'message_trigrams(t.organization_id, t.folded) @> $3 AND t.organization_id COLLATE "C" = $1'
          || CASE WHEN upto IS NULL THEN '' ELSE ' AND t.number + 0 <= $5' END;
      END IF;
      RETURN 't.organization_id = $1'
        || CASE WHEN above IS NULL THEN '' ELSE ' AND t.number > $4' END
        || CASE WHEN upto IS NULL THEN '' ELSE ' AND t.number <= $5' END;
    END $$`

  // How many messages have a phrase, of a role or of any, in each range: `[range, count]`. By that every page of any
  // search is near, however many there are. All processors read at once; to have the server's own readers read ahead
  // for them takes longer.
  yield* sql`
    CREATE FUNCTION count_messages(
      workspace text, phrase bytea, trigrams bigint[], of_role text, above bigint, upto bigint,
      OUT counts jsonb, OUT forgotten bigint
    ) LANGUAGE plpgsql STABLE
    SET enable_seqscan = on SET jit = off SET work_mem = '32MB' SET effective_io_concurrency = 0 AS $$
    BEGIN
      EXECUTE format($query$
        SELECT coalesce(jsonb_agg(jsonb_build_array(range, amount)), '[]') FROM (
          SELECT t.range, count(*) AS amount FROM searched_texts t
          WHERE %s AND position($2 IN t.folded) > 0 %s GROUP BY 1) counted
        $query$,
        searched_rows(trigrams IS NOT NULL, above, upto), CASE WHEN of_role IS NULL THEN '' ELSE 'AND t.role = $6' END)
      INTO counts USING workspace, phrase, trigrams, above, upto, of_role;
      forgotten := coalesce((SELECT w.forgotten FROM session_workspaces w WHERE w.organization_id = workspace), 0);
    END $$`

  // The same for sessions: how many messages of each have it, and which are the first and the last.
  yield* sql`
    CREATE FUNCTION sessions_with(workspace text, phrase bytea, trigrams bigint[], above bigint, upto bigint)
    RETURNS TABLE (session_id text, amount bigint, first_place int, newest bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = on SET jit = off SET work_mem = '32MB' SET effective_io_concurrency = 0 AS $$
    BEGIN
      RETURN QUERY EXECUTE format($query$
        SELECT t.session_id, count(*), min(t.position), max(t.number) FROM searched_texts t
        WHERE %s AND position($2 IN t.folded) > 0 GROUP BY 1
        $query$, searched_rows(trigrams IS NOT NULL, above, upto))
      USING workspace, phrase, trigrams, above, upto;
    END $$`
})
