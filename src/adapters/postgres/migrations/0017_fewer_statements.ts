import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What every turn writes, as before, in half as many statements. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A turn has one message or two to add at a time: a statement that takes any number of them takes longer to begin.
  yield* sql`
    CREATE OR REPLACE FUNCTION append_to_session(
      workspace text, session text, turn text, messages jsonb, events text[]
    ) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      now_at  bigint := epoch_millis();
      said    jsonb;
      place   int;
      added   bigint;
      latest  bigint;
    BEGIN
      UPDATE sessions s
      SET message_count = s.message_count + jsonb_array_length(messages),
          last_event = s.last_event + cardinality(events),
          last_activity = now_at
      WHERE s.organization_id = workspace AND s.id = session
      RETURNING s.message_count - jsonb_array_length(messages), s.last_event - cardinality(events)
      INTO place, latest;

      FOR at IN 0 .. jsonb_array_length(messages) - 1 LOOP
        said := messages->at;
        INSERT INTO session_messages (organization_id, session_id, role, position, created_at, text, body)
        VALUES (workspace, session, said->>'role', place + at, now_at, said->>'text', said->>'body')
        RETURNING number INTO added;
        INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
        VALUES (workspace, added, place + at, said->>'role', session, convert_to(said->>'folded', 'UTF8'));
      END LOOP;

      IF cardinality(events) = 0 THEN RETURN NULL; END IF;
      INSERT INTO session_events (organization_id, session_id, id, turn_id, is_chunk, created_at, event)
      SELECT workspace, session, latest + e.place, turn, is_chunk(e.event), now_at, e.event
      FROM unnest(events) WITH ORDINALITY AS e (event, place);
      PERFORM pg_notify('session_events', json_build_array(workspace, session, latest + 1, now_at)::text);
      RETURN latest + 1;
    END $$`

  // The session is nearly always there, and a turn that does not wait begins as it is stored.
  yield* sql`
    CREATE OR REPLACE FUNCTION submit_turn(
      workspace text, session text, turn text, said jsonb, wants_stream boolean, caller_of text, name text,
      OUT place int, OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
      opened record;
      known  record;
      ahead  int;
      events text[] := '{}';
    BEGIN
      SELECT s.title, s.last_event INTO opened FROM sessions s
      WHERE s.organization_id = workspace AND s.id = session AND s.removed_at IS NULL FOR UPDATE;
      IF NOT FOUND THEN
        PERFORM open_session(workspace, session);
        SELECT s.title, s.last_event INTO opened FROM sessions s
        WHERE s.organization_id = workspace AND s.id = session AND s.removed_at IS NULL FOR UPDATE;
      END IF;
      SELECT t.number, t.status INTO known FROM session_turns t
      WHERE t.organization_id = workspace AND t.session_id = session AND t.id = turn;
      SELECT count(*) INTO ahead FROM session_turns t
      WHERE t.organization_id = workspace AND t.session_id = session AND t.status IN ('queued', 'running')
        AND (known.number IS NULL OR t.number < known.number);
      IF known.number IS NOT NULL THEN
        place := CASE WHEN known.status = 'queued' THEN ahead ELSE 0 END;
        RETURN;
      END IF;
      place := ahead;

      IF opened.title IS NULL AND name IS NOT NULL THEN
        UPDATE sessions s SET title = name WHERE s.organization_id = workspace AND s.id = session;
        events := ARRAY[json_build_object('event', 'sessionTitleUpdated', 'data',
          json_build_object('title', name, 'sessionId', session))::text];
      END IF;
      IF place > 0 THEN
        events := events || json_build_object('event', 'messageQueued', 'data',
          json_build_object('position', place, 'sessionId', session))::text;
      END IF;
      INSERT INTO session_turns (organization_id, session_id, id, message, stream, caller, status, first_event)
      VALUES (workspace, session, turn, said, wants_stream, caller_of,
        CASE WHEN place = 0 THEN 'running' ELSE 'queued' END,
        CASE WHEN place = 0 THEN opened.last_event + cardinality(events) + 1 END);
      logged := append_to_session(workspace, session, NULL,
        CASE WHEN place = 0 THEN jsonb_build_array(said) ELSE '[]' END, events);
    END $$`
})
