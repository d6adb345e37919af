import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Sessions with their histories, turns and events. Times are epoch milliseconds.
 *
 * Whoever adds to a session locks its row first, to the end of the statement: positions in a history and numbers of
 * events have no gaps and are in the order of their commits. Every change is one statement for its caller, so nobody
 * can die or fall silent while a session is locked. Of several sessions the rows are locked in the order of their ids.
 *
 * A session that was removed leaves a row for a day, with the number of its last event: one made again under its id
 * goes on from there, so that nobody who still listens takes its events for old ones.
 *
 * A session's row is written at every event, so nothing is indexed that is written then.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE FUNCTION epoch_millis() RETURNS bigint LANGUAGE sql VOLATILE AS
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'`
  yield* sql`
    CREATE TABLE sessions (
      organization_id text NOT NULL REFERENCES organizations,
      id              text COLLATE "C" NOT NULL,
      created_at      bigint NOT NULL,
      last_activity   bigint NOT NULL,
      title           text,
      message_count   int NOT NULL DEFAULT 0,
      last_event      bigint NOT NULL DEFAULT 0,
      removed_at      bigint,
      PRIMARY KEY (organization_id, id)
    ) WITH (fillfactor = 70)`

  // Of a workspace: which session was loaded last, and how often messages were forgotten.
  yield* sql`
    CREATE TABLE session_workspaces (
      organization_id text PRIMARY KEY REFERENCES organizations,
      current_session text COLLATE "C",
      forgotten       bigint NOT NULL DEFAULT 0
    )`

  // What a search compares is in front. Messages are numbered over all sessions, in the order of time; searches count
  // them by ranges of 4096 numbers.
  yield* sql`
    CREATE TABLE session_messages (
      organization_id text NOT NULL,
      number          bigint GENERATED ALWAYS AS IDENTITY,
      range           int NOT NULL GENERATED ALWAYS AS ((number >> 12)::int) STORED,
      folded          bytea NOT NULL,
      session_id      text COLLATE "C" NOT NULL,
      role            text NOT NULL,
      position        int NOT NULL,
      created_at      bigint NOT NULL,
      text            text NOT NULL,
      body            text NOT NULL,
      PRIMARY KEY (organization_id, session_id, position),
      FOREIGN KEY (organization_id, session_id) REFERENCES sessions
    )`
  yield* sql`CREATE UNIQUE INDEX session_messages_by_number ON session_messages (organization_id, number)`

  // Three bytes each, under the mark of a workspace, so that a search reads nothing of others and takes as long as the
  // workspace is large. The extension pg_trgm leaves out what is no letter in the locale of the server, and shares its
  // lists among all. A mark is made by a function that no version of Postgres changes.
  yield* sql`
    CREATE FUNCTION message_trigrams(workspace text, content bytea) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
      SELECT coalesce(array_agg(
        (mark.of << 24) | (get_byte(content, i) << 16) | (get_byte(content, i + 1) << 8) | get_byte(content, i + 2)
      ), '{}')
      FROM (
        SELECT ('x' || encode(substring(sha256(convert_to(workspace, 'UTF8')) FOR 5), 'hex'))::bit(40)::bigint AS of
      ) mark,
           generate_series(0, length(content) - 3) AS i
    $$`
  yield* sql`
    CREATE INDEX session_messages_by_trigram ON session_messages
    USING gin (message_trigrams(organization_id, folded)) WITH (gin_pending_list_limit = 256)`

  yield* sql`
    CREATE TABLE session_turns (
      organization_id  text NOT NULL,
      session_id       text COLLATE "C" NOT NULL,
      id               text COLLATE "C" NOT NULL,
      number           bigint GENERATED ALWAYS AS IDENTITY,
      status           text NOT NULL DEFAULT 'queued',
      message          jsonb NOT NULL,
      stream           boolean NOT NULL,
      caller           text,
      cancel_requested boolean NOT NULL DEFAULT false,
      first_event      bigint,
      PRIMARY KEY (organization_id, session_id, id),
      FOREIGN KEY (organization_id, session_id) REFERENCES sessions
    )`
  yield* sql`
    CREATE UNIQUE INDEX session_turns_running ON session_turns (organization_id, session_id) INCLUDE (id)
    WHERE status = 'running'`
  yield* sql`
    CREATE INDEX session_turns_queued ON session_turns (organization_id, session_id, number) WHERE status = 'queued'`
  yield* sql`
    CREATE TABLE turn_entries (
      organization_id text NOT NULL,
      session_id      text COLLATE "C" NOT NULL,
      turn_id         text COLLATE "C" NOT NULL,
      key             text COLLATE "C" NOT NULL,
      memo            text NOT NULL,
      PRIMARY KEY (organization_id, session_id, turn_id, key),
      FOREIGN KEY (organization_id, session_id, turn_id) REFERENCES session_turns ON DELETE CASCADE
    )`
  yield* sql`
    CREATE TABLE turn_questions (
      organization_id text NOT NULL,
      id              text COLLATE "C" NOT NULL,
      session_id      text COLLATE "C" NOT NULL,
      turn_id         text COLLATE "C" NOT NULL,
      type            text NOT NULL,
      timeout         bigint NOT NULL,
      asked_at        bigint NOT NULL,
      metadata        text NOT NULL,
      answer          text,
      PRIMARY KEY (organization_id, id),
      FOREIGN KEY (organization_id, session_id, turn_id) REFERENCES session_turns ON DELETE CASCADE
    )`
  yield* sql`CREATE INDEX turn_questions_by_turn ON turn_questions (organization_id, session_id, turn_id)`

  // Written at the speed of models, under the lock of its session: it needs nothing checked.
  yield* sql`
    CREATE TABLE session_events (
      organization_id text NOT NULL,
      session_id      text COLLATE "C" NOT NULL,
      id              bigint NOT NULL,
      turn_id         text COLLATE "C",
      is_chunk        boolean NOT NULL,
      created_at      bigint NOT NULL,
      event           text NOT NULL,
      PRIMARY KEY (organization_id, session_id, id)
    )`

  // Events are texts here: a model may have said what no JSON of Postgres takes. The name of one always comes first.
  yield* sql`
    CREATE FUNCTION is_chunk(event text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
      SELECT starts_with(event, '{"event":"chunk"')
    $$`

  // What follows works on a session that its caller has locked.

  yield* sql`
    CREATE FUNCTION lock_session(workspace text, session text) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM 1 FROM sessions s
      WHERE s.organization_id = workspace AND s.id = session AND s.removed_at IS NULL FOR UPDATE;
      RETURN FOUND;
    END $$`

  // Gives the number of the first of the events.
  yield* sql`
    CREATE FUNCTION append_to_session(
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

      INSERT INTO session_messages (organization_id, folded, session_id, role, position, created_at, text, body)
      SELECT workspace, convert_to(m.item->>'folded', 'UTF8'), session, m.item->>'role', counted + m.place - 1, now_at,
             m.item->>'text', m.item->>'body'
      FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (item, place) ORDER BY m.place;

      IF cardinality(events) = 0 THEN RETURN NULL; END IF;
      INSERT INTO session_events (organization_id, session_id, id, turn_id, is_chunk, created_at, event)
      SELECT workspace, session, latest + e.place, turn, is_chunk(e.event), now_at, e.event
      FROM unnest(events) WITH ORDINALITY AS e (event, place);
      PERFORM pg_notify('session_events', json_build_array(workspace, session, latest + 1, now_at)::text);
      RETURN latest + 1;
    END $$`

  yield* sql`
    CREATE FUNCTION begin_turn(workspace text, session text, turn text) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE said jsonb;
    BEGIN
      UPDATE session_turns t SET status = 'running', first_event = s.last_event + 1
      FROM sessions s
      WHERE s.organization_id = workspace AND s.id = session
        AND t.organization_id = workspace AND t.session_id = session AND t.id = turn
      RETURNING jsonb_build_array(t.message) INTO said;
      PERFORM append_to_session(workspace, session, NULL, said, '{}');
    END $$`

  yield* sql`
    CREATE FUNCTION forget_messages(workspace text, session text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM session_messages m WHERE m.organization_id = workspace AND m.session_id = session;
      UPDATE sessions s SET message_count = 0 WHERE s.organization_id = workspace AND s.id = session;
      INSERT INTO session_workspaces AS w (organization_id, forgotten) VALUES (workspace, 1)
      ON CONFLICT (organization_id) DO UPDATE SET forgotten = w.forgotten + 1;
    END $$`

  // What callers call. Those that log events give the number of the first as `logged`.

  yield* sql`
    CREATE FUNCTION open_session(workspace text, session text) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE now_at bigint := epoch_millis();
    BEGIN
      INSERT INTO sessions (organization_id, id, created_at, last_activity) VALUES (workspace, session, now_at, now_at)
      ON CONFLICT DO NOTHING;
      IF FOUND THEN RETURN true; END IF;
      PERFORM 1 FROM sessions s WHERE s.organization_id = workspace AND s.id = session FOR UPDATE;
      -- A removed one was forgotten for good meanwhile.
      IF NOT FOUND THEN RETURN open_session(workspace, session); END IF;
      UPDATE sessions s SET created_at = now_at, last_activity = now_at, title = NULL, removed_at = NULL
      WHERE s.organization_id = workspace AND s.id = session AND s.removed_at IS NOT NULL;
      RETURN FOUND;
    END $$`

  // Null: there is no room for a new one.
  yield* sql`
    CREATE FUNCTION open_session_within(workspace text, session text, most bigint, millis bigint) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtextextended('sessions ' || workspace, 0));
      IF NOT EXISTS (
        SELECT 1 FROM sessions s WHERE s.organization_id = workspace AND s.id = session AND s.removed_at IS NULL
      ) AND (
        SELECT count(*) FROM sessions s
        WHERE s.organization_id = workspace AND s.removed_at IS NULL AND s.last_activity > epoch_millis() - millis
      ) >= most THEN RETURN NULL; END IF;
      RETURN open_session(workspace, session);
    END $$`

  yield* sql`
    CREATE FUNCTION rename_session(workspace text, session text, name text, event text, OUT renamed boolean, OUT logged bigint)
    LANGUAGE plpgsql AS $$
    BEGIN
      renamed := lock_session(workspace, session);
      IF NOT renamed THEN RETURN; END IF;
      UPDATE sessions s SET title = name WHERE s.organization_id = workspace AND s.id = session;
      logged := append_to_session(workspace, session, NULL, '[]', ARRAY[event]);
    END $$`

  yield* sql`
    CREATE FUNCTION load_session(workspace text, session text) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
      IF NOT lock_session(workspace, session) THEN RETURN false; END IF;
      INSERT INTO session_workspaces AS w (organization_id, current_session) VALUES (workspace, session)
      ON CONFLICT (organization_id) DO UPDATE SET current_session = session;
      RETURN true;
    END $$`

  // `ran` is null if there is no such session.
  yield* sql`
    CREATE FUNCTION reset_session(
      workspace text, session text, ending text, event text, OUT ran text[], OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
      since   bigint;
      endings text[];
    BEGIN
      IF NOT lock_session(workspace, session) THEN RETURN; END IF;
      SELECT coalesce(array_agg(t.id), '{}'), min(t.first_event) INTO ran, since FROM session_turns t
      WHERE t.organization_id = workspace AND t.session_id = session AND t.status = 'running';
      DELETE FROM turn_entries e WHERE e.organization_id = workspace AND e.session_id = session;
      DELETE FROM turn_questions q WHERE q.organization_id = workspace AND q.session_id = session;
      DELETE FROM session_turns t
      WHERE t.organization_id = workspace AND t.session_id = session AND t.status NOT IN ('running', 'queued');
      WITH ended AS (
        UPDATE session_turns t SET status = 'cancelled'
        WHERE t.organization_id = workspace AND t.session_id = session RETURNING t.id)
      SELECT coalesce(array_agg(ending), '{}') INTO endings FROM ended;
      DELETE FROM session_events e
      WHERE e.organization_id = workspace AND e.session_id = session AND e.id >= since AND e.is_chunk;
      logged := append_to_session(workspace, session, NULL, '[]', endings || event);
      PERFORM forget_messages(workspace, session);
    END $$`

  // Null if there was no such session, else the turns that ran.
  yield* sql`
    CREATE FUNCTION remove_session(workspace text, session text) RETURNS text[] LANGUAGE plpgsql AS $$
    DECLARE
      now_at bigint := epoch_millis();
      ran    text[];
    BEGIN
      IF NOT lock_session(workspace, session) THEN RETURN NULL; END IF;
      ran := ARRAY(
        SELECT t.id FROM session_turns t
        WHERE t.organization_id = workspace AND t.session_id = session AND t.status = 'running');
      DELETE FROM session_turns t WHERE t.organization_id = workspace AND t.session_id = session;
      DELETE FROM session_events e WHERE e.organization_id = workspace AND e.session_id = session;
      UPDATE sessions s SET removed_at = now_at WHERE s.organization_id = workspace AND s.id = session;
      PERFORM forget_messages(workspace, session);
      UPDATE session_workspaces w SET current_session = NULL
      WHERE w.organization_id = workspace AND w.current_session = session;
      DELETE FROM sessions s WHERE s.organization_id = workspace AND s.id IN (
        SELECT old.id FROM sessions old
        WHERE old.organization_id = workspace AND old.removed_at < now_at - 86400000 FOR UPDATE SKIP LOCKED);
      RETURN ran;
    END $$`

  yield* sql`
    CREATE FUNCTION submit_turn(
      workspace text, session text, turn text, said jsonb, wants_stream boolean, caller_of text, name text,
      OUT place int, OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
      known  record;
      ahead  int;
      events text[] := '{}';
    BEGIN
      PERFORM open_session(workspace, session);
      PERFORM lock_session(workspace, session);
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

      INSERT INTO session_turns (organization_id, session_id, id, message, stream, caller)
      VALUES (workspace, session, turn, said, wants_stream, caller_of);
      UPDATE sessions s SET title = name
      WHERE s.organization_id = workspace AND s.id = session AND s.title IS NULL AND name IS NOT NULL;
      IF FOUND THEN
        events := ARRAY[json_build_object('event', 'sessionTitleUpdated', 'data',
          json_build_object('title', name, 'sessionId', session))::text];
      END IF;
      IF place > 0 THEN
        events := events || json_build_object('event', 'messageQueued', 'data',
          json_build_object('position', place, 'sessionId', session))::text;
      END IF;
      logged := append_to_session(workspace, session, NULL, '[]', events);
      IF place = 0 THEN PERFORM begin_turn(workspace, session, turn); END IF;
    END $$`

  yield* sql`
    CREATE FUNCTION is_running(workspace text, session text, turn text) RETURNS boolean LANGUAGE sql AS $$
      SELECT EXISTS (
        SELECT 1 FROM session_turns t
        WHERE t.organization_id = workspace AND t.session_id = session AND t.id = turn AND t.status = 'running')
    $$`

  yield* sql`
    CREATE FUNCTION record_entry(
      workspace text, session text, turn text, entry text, remembered text, messages jsonb, events text[],
      OUT recorded boolean, OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    BEGIN
      recorded := false;
      IF NOT lock_session(workspace, session) OR NOT is_running(workspace, session, turn) THEN RETURN; END IF;
      INSERT INTO turn_entries (organization_id, session_id, turn_id, key, memo)
      VALUES (workspace, session, turn, entry, remembered) ON CONFLICT DO NOTHING;
      recorded := FOUND;
      IF recorded THEN logged := append_to_session(workspace, session, turn, messages, events); END IF;
    END $$`

  // `next` is the turn that runs now.
  yield* sql`
    CREATE FUNCTION finish_turn(
      workspace text, session text, turn text, ended text, messages jsonb, events text[],
      OUT next text, OUT logged bigint
    ) LANGUAGE plpgsql AS $$
    DECLARE since bigint;
    BEGIN
      IF NOT lock_session(workspace, session) THEN RETURN; END IF;
      UPDATE session_turns t SET status = ended
      WHERE t.organization_id = workspace AND t.session_id = session AND t.id = turn AND t.status = 'running'
      RETURNING t.first_event INTO since;
      IF FOUND THEN
        DELETE FROM turn_entries e
        WHERE e.organization_id = workspace AND e.session_id = session AND e.turn_id <> turn;
        DELETE FROM turn_questions q
        WHERE q.organization_id = workspace AND q.session_id = session AND q.turn_id <> turn;
        DELETE FROM session_events e
        WHERE e.organization_id = workspace AND e.session_id = session AND e.id >= since AND e.is_chunk;
        logged := append_to_session(workspace, session, turn, messages, events);
        SELECT t.id INTO next FROM session_turns t
        WHERE t.organization_id = workspace AND t.session_id = session AND t.status = 'queued'
        ORDER BY t.number LIMIT 1;
        IF FOUND THEN PERFORM begin_turn(workspace, session, next); END IF;
      ELSE
        SELECT t.id INTO next FROM session_turns t
        WHERE t.organization_id = workspace AND t.session_id = session AND t.status = 'running';
      END IF;
    END $$`

  yield* sql`
    CREATE FUNCTION ask_question(
      workspace text, session text, turn text, question text, kind text, millis bigint, about text
    ) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE now_at bigint := epoch_millis();
    BEGIN
      IF NOT lock_session(workspace, session) OR NOT is_running(workspace, session, turn) THEN RETURN NULL; END IF;
      INSERT INTO turn_questions (organization_id, id, session_id, turn_id, type, timeout, asked_at, metadata)
      VALUES (workspace, question, session, turn, kind, millis, now_at, about) ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN RETURN NULL; END IF;
      RETURN append_to_session(workspace, session, turn, '[]', ARRAY[json_build_object('event', 'approvalRequest', 'data',
        json_build_object('approvalId', question, 'type', kind, 'timeout', millis, 'timestamp', now_at,
          'metadata', about::json, 'sessionId', session))::text]);
    END $$`

  // Events of any number of turns: `[{workspace, session, turn, event}]`. Gives what was told
  // of each session that has new ones: `[workspace, session, first, now]`.
  yield* sql`
    CREATE FUNCTION append_events(batch jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
    DECLARE
      now_at bigint := epoch_millis();
      logged jsonb;
    BEGIN
      PERFORM 1 FROM sessions s
      WHERE s.removed_at IS NULL AND (s.organization_id, s.id) IN (
        SELECT b.item->>'workspace', b.item->>'session' FROM jsonb_array_elements(batch) AS b (item))
      ORDER BY s.organization_id, s.id FOR UPDATE;

      WITH wanted AS (
        SELECT t.organization_id AS workspace, t.session_id AS session, t.id AS turn, b.item->>'event' AS event,
               row_number() OVER (PARTITION BY t.organization_id, t.session_id ORDER BY b.place) AS place
        FROM jsonb_array_elements(batch) WITH ORDINALITY AS b (item, place)
        JOIN session_turns t ON t.organization_id = b.item->>'workspace' AND t.session_id = b.item->>'session'
                            AND t.id = b.item->>'turn' AND t.status = 'running'
      ), counted AS (
        UPDATE sessions s SET last_event = s.last_event + w.amount, last_activity = now_at
        FROM (SELECT workspace, session, count(*) AS amount FROM wanted GROUP BY 1, 2) w
        WHERE s.organization_id = w.workspace AND s.id = w.session
        RETURNING s.organization_id, s.id, s.last_event - w.amount AS before
      ), added AS (
        INSERT INTO session_events (organization_id, session_id, id, turn_id, is_chunk, created_at, event)
        SELECT w.workspace, w.session, c.before + w.place, w.turn, is_chunk(w.event), now_at, w.event
        FROM wanted w JOIN counted c ON c.organization_id = w.workspace AND c.id = w.session
      )
      SELECT coalesce(jsonb_agg(jsonb_build_array(c.organization_id, c.id, c.before + 1, now_at)), '[]') INTO logged
      FROM counted c;

      PERFORM pg_notify('session_events', n.item::text) FROM jsonb_array_elements(logged) AS n (item);
      RETURN logged;
    END $$`

  // Searches. A phrase is compared as bytes, which is several times as fast as texts are. `cased` is null for a phrase
  // that looks the same in any case.

  // How often a phrase is among some messages from all over the workspace.
  yield* sql`
    CREATE FUNCTION sample_messages(workspace text, phrase bytea, OUT seen bigint, OUT matched bigint)
    LANGUAGE sql STABLE AS $$
      SELECT count(*), count(*) FILTER (WHERE position(phrase IN picked.folded) > 0)
      FROM (
        SELECT (SELECT m.number FROM session_messages m WHERE m.organization_id = workspace ORDER BY m.number LIMIT 1) AS low,
               (SELECT m.number FROM session_messages m WHERE m.organization_id = workspace ORDER BY m.number DESC LIMIT 1) AS high
      ) ends, generate_series(0, 24) AS step, LATERAL (
        SELECT m.folded FROM session_messages m
        WHERE m.organization_id = workspace AND m.number >= ends.low + (ends.high - ends.low) * step / 25
        ORDER BY m.number LIMIT 40) picked
    $$`

  // All messages with a phrase that few have, of three bytes or more: found by the index of trigrams, whatever the
  // planner thinks of it.
  yield* sql`
    CREATE FUNCTION messages_with(workspace text, phrase bytea, cased bytea)
    RETURNS TABLE (number bigint, session_id text, place int, role text, is_exact boolean)
    LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET work_mem = '32MB' AS $$
    BEGIN
      RETURN QUERY
        SELECT m.number, m.session_id, m.position, m.role,
               cased IS NULL OR position(cased IN convert_to(m.text, 'UTF8')) > 0
        FROM session_messages m
        WHERE message_trigrams(m.organization_id, m.folded) @> message_trigrams(workspace, phrase)
          AND m.organization_id || '' = workspace AND position(phrase IN m.folded) > 0;
    END $$`

  // How many messages have a phrase, of a role or of any, in each range: `[range, count]`. By that every page of any
  // search is near, however many there are. All processors read at once.
  yield* sql`
    CREATE FUNCTION count_messages(
      workspace text, phrase bytea, of_role text, above bigint, upto bigint, OUT counts jsonb, OUT forgotten bigint
    ) LANGUAGE plpgsql STABLE SET jit = off AS $$
    BEGIN
      EXECUTE format($query$
        SELECT coalesce(jsonb_agg(jsonb_build_array(range, amount)), '[]') FROM (
          SELECT m.range, count(*) AS amount FROM session_messages m
          WHERE m.organization_id = $1 AND position($2 IN m.folded) > 0 %s %s %s GROUP BY 1) counted
        $query$,
        CASE WHEN of_role IS NULL THEN '' ELSE 'AND m.role = $3' END,
        CASE WHEN above IS NULL THEN '' ELSE 'AND m.number > $4' END,
        CASE WHEN upto IS NULL THEN '' ELSE 'AND m.number <= $5' END)
      INTO counts USING workspace, phrase, of_role, above, upto;
      forgotten := coalesce((SELECT w.forgotten FROM session_workspaces w WHERE w.organization_id = workspace), 0);
    END $$`

  // The same for sessions: how many messages of each have it, and which are the first and the last.
  yield* sql`
    CREATE FUNCTION sessions_with(workspace text, phrase bytea, above bigint, upto bigint)
    RETURNS TABLE (session_id text, amount bigint, first_place int, newest bigint)
    LANGUAGE plpgsql STABLE SET jit = off AS $$
    BEGIN
      RETURN QUERY EXECUTE format($query$
        SELECT m.session_id, count(*), min(m.position), max(m.number) FROM session_messages m
        WHERE m.organization_id = $1 AND position($2 IN m.folded) > 0 %s %s GROUP BY 1
        $query$,
        CASE WHEN above IS NULL THEN '' ELSE 'AND m.number > $3' END,
        CASE WHEN upto IS NULL THEN '' ELSE 'AND m.number <= $4' END)
      USING workspace, phrase, above, upto;
    END $$`
})
