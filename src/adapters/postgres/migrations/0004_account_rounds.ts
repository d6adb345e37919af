import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Everything that accounts are asked at one moment is one statement and one commit: holds end, then requests are
 * counted and get their holds. Rate windows last a minute, so theirs is a table without a log: a crash of the server
 * empties it, and windows begin anew.
 *
 * Endings come by the ids of their holds: a settlement each, or null for a release.
 *
 * All accounts are locked first and in the order of their ids, then all windows in the order of theirs, so that two
 * rounds can never wait for each other. Rows of holds live for seconds and most of that table is dead at any time: it
 * is looked up by index whatever the planner thinks of a small table, and nothing is planned twice.
 *
 * What every request writes has no more indexes than its readers need, and an account's organization is checked where
 * the account is made.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE UNLOGGED TABLE rate_windows (
      organization_id text NOT NULL,
      policy          text NOT NULL,
      started_at      timestamptz NOT NULL,
      used            integer NOT NULL,
      PRIMARY KEY (organization_id, policy)
    ) WITH (fillfactor = 50)`

  yield* sql`
    CREATE FUNCTION account_round(endings jsonb, requests jsonb, lease interval) RETURNS jsonb
    LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
    #variable_conflict use_column
    DECLARE
      ids       text[] := ARRAY(SELECT jsonb_object_keys(endings));
      total     int := jsonb_array_length(requests);
      ended     jsonb;
      request   record;
      account   text;
      free      bigint;
      counting  text;
      clock     timestamptz;
      begun     timestamptz;
      counted   int;
      windows   int := 0;
      w_account text[] := '{}';
      w_policy  text[] := '{}';
      w_begun   timestamptz[] := '{}';
      w_counted int[] := '{}';
      allowed   boolean[] := array_fill(true, ARRAY[total]);
      remaining int[] := array_fill(NULL::int, ARRAY[total]);
      resets    int[] := array_fill(NULL::int, ARRAY[total]);
      grants    bigint[] := array_fill(NULL::bigint, ARRAY[total]);
      leftovers bigint[] := array_fill(0::bigint, ARRAY[total]);
    BEGIN
      PERFORM 1 FROM credit_accounts a
      WHERE a.organization_id = ANY (ARRAY(
        SELECT h.organization_id FROM credit_holds h WHERE h.id = ANY (ids)
        UNION
        SELECT r.item->>'organization' FROM jsonb_array_elements(requests) AS r (item) WHERE r.item ? 'hold'
      ))
      ORDER BY a.organization_id FOR UPDATE;

      IF cardinality(ids) > 0 THEN
        WITH ended AS (
          DELETE FROM credit_holds h WHERE h.id = ANY (ids) RETURNING h.*, endings->h.id AS settlement
        ), charges AS (
          SELECT *, least(coalesce((settlement->>'cost')::bigint, 0), amount) AS charge FROM ended
        ), entries AS (
          INSERT INTO ledger_entries (organization_id, kind, amount, hold_id)
          SELECT organization_id, 'charge', -charge, id FROM charges WHERE charge > 0
        ), events AS (
          INSERT INTO usage_events (
            hold_id, organization_id, member_id, key_id, request_id, model, access_method,
            input, cache_read, cache_write, output, reasoning, cost, estimated)
          SELECT id, organization_id, member_id, key_id, request_id, model, access_method,
                 (settlement->>'input')::bigint, (settlement->>'cacheRead')::bigint,
                 (settlement->>'cacheWrite')::bigint, (settlement->>'output')::bigint,
                 (settlement->>'reasoning')::bigint, charge, (settlement->>'estimated')::boolean
          FROM charges WHERE jsonb_typeof(settlement) = 'object'
        ), accounts AS (
          UPDATE credit_accounts a SET balance = a.balance - t.charge, held = a.held - t.amount
          FROM (
            SELECT organization_id, sum(charge)::bigint AS charge, sum(amount)::bigint AS amount
            FROM charges GROUP BY organization_id
          ) t
          WHERE a.organization_id = t.organization_id AND (t.charge > 0 OR t.amount > 0)
        )
        SELECT jsonb_agg(jsonb_build_array(id, charge::text)) INTO ended FROM charges;
      END IF;

      FOR request IN
        SELECT r.ordinality AS ordinal, r.item->>'organization' AS organization, r.item->>'policy' AS policy,
               (r.item->>'limit')::int AS most_requests, make_interval(secs => (r.item->>'period')::int) AS period,
               r.item ? 'hold' AS holds, (r.item->>'least')::bigint AS least, (r.item->>'most')::bigint AS most
        FROM jsonb_array_elements(requests) WITH ORDINALITY AS r (item, ordinality)
        ORDER BY 2, 3, 1
      LOOP
        IF account IS DISTINCT FROM request.organization THEN
          account := request.organization;
          counting := NULL;
          SELECT a.balance - a.held INTO free FROM credit_accounts a WHERE a.organization_id = account;
          free := coalesce(free, 0);
        END IF;

        IF request.policy IS NOT NULL THEN
          IF counting IS DISTINCT FROM request.policy THEN
            counting := request.policy;
            LOOP
              SELECT w.started_at, w.used INTO begun, counted FROM rate_windows w
              WHERE w.organization_id = account AND w.policy = counting FOR UPDATE;
              EXIT WHEN FOUND;
              INSERT INTO rate_windows VALUES (account, counting, clock_timestamp(), 0) ON CONFLICT DO NOTHING;
            END LOOP;
            clock := clock_timestamp();
            IF begun + request.period <= clock THEN
              begun := clock;
              counted := 0;
            END IF;
            windows := windows + 1;
            w_account[windows] := account;
            w_policy[windows] := counting;
            w_begun[windows] := begun;
          END IF;
          allowed[request.ordinal] := counted < request.most_requests;
          IF allowed[request.ordinal] THEN
            counted := counted + 1;
          END IF;
          w_counted[windows] := counted;
          remaining[request.ordinal] := greatest(request.most_requests - counted, 0);
          resets[request.ordinal] := ceil(extract(epoch FROM begun + request.period - clock));
        END IF;

        IF request.holds THEN
          leftovers[request.ordinal] := free;
          IF allowed[request.ordinal] AND free >= request.least THEN
            grants[request.ordinal] := least(request.most, free);
            free := free - grants[request.ordinal];
          END IF;
        END IF;
      END LOOP;

      UPDATE rate_windows w SET started_at = c.begun, used = c.counted
      FROM unnest(w_account, w_policy, w_begun, w_counted) AS c (account, policy, begun, counted)
      WHERE w.organization_id = c.account AND w.policy = c.policy AND (w.used, w.started_at) <> (c.counted, c.begun);

      WITH granted AS (
        SELECT r.item, grants[r.ordinality] AS amount
        FROM jsonb_array_elements(requests) WITH ORDINALITY AS r (item, ordinality)
        WHERE grants[r.ordinality] IS NOT NULL
      ), holds AS (
        INSERT INTO credit_holds (
          id, organization_id, member_id, key_id, request_id, model, access_method, amount, lease_until)
        SELECT item->>'hold', item->>'organization', item->>'member', item->>'key', item->>'request',
               item->>'model', item->>'method', amount, clock_timestamp() + lease
        FROM granted
      )
      UPDATE credit_accounts a SET held = a.held + t.amount
      FROM (SELECT item->>'organization' AS organization, sum(amount)::bigint AS amount FROM granted GROUP BY 1) t
      WHERE a.organization_id = t.organization AND t.amount > 0;

      RETURN jsonb_build_object(
        'ended', coalesce(ended, '[]'), 'allowed', allowed, 'remaining', remaining, 'resets', resets,
        'granted', grants::text[], 'free', leftovers::text[]);
    END $$`

  yield* sql`
    ALTER TABLE ledger_entries
      DROP CONSTRAINT ledger_entries_organization_id_fkey,
      DROP CONSTRAINT ledger_entries_pkey,
      ADD PRIMARY KEY (organization_id, id)`
  yield* sql`DROP INDEX ledger_entries_by_organization`
  yield* sql`ALTER TABLE usage_events DROP CONSTRAINT usage_events_pkey`
  yield* sql`ALTER TABLE usage_events DROP CONSTRAINT usage_events_hold_id_key, ADD PRIMARY KEY (hold_id)`

  yield* sql`DROP FUNCTION take_holds(jsonb, interval)`
  yield* sql`DROP FUNCTION end_holds(jsonb)`
})
