import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Money is nano-USD. The invariants are constraints: held and balance never go below zero, a hold is charged at most
 * once. Holds and endings come in batches, as JSON arrays, and lock the accounts they touch in the order of their ids,
 * so that two batches can never wait for each other. Rows of holds live for seconds, so most of that table is dead at
 * any time: the functions look holds up by index whatever the planner thinks of a small table.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE credit_accounts (
      organization_id text PRIMARY KEY REFERENCES organizations,
      balance         bigint NOT NULL DEFAULT 0,
      held            bigint NOT NULL DEFAULT 0,
      CHECK (held >= 0 AND balance >= held)
    ) WITH (fillfactor = 50)`
  yield* sql`
    CREATE TABLE ledger_entries (
      id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      organization_id text NOT NULL REFERENCES organizations,
      kind            text NOT NULL CHECK (kind IN ('grant', 'charge')),
      amount          bigint NOT NULL CHECK ((amount > 0) = (kind = 'grant')),
      hold_id         text UNIQUE,
      note            text,
      created_at      timestamptz NOT NULL DEFAULT now()
    )`
  yield* sql`CREATE INDEX ledger_entries_by_organization ON ledger_entries (organization_id, id)`
  yield* sql`
    CREATE TABLE credit_holds (
      id              text PRIMARY KEY,
      organization_id text NOT NULL,
      member_id       text NOT NULL,
      key_id          text NOT NULL,
      request_id      text NOT NULL,
      model           text NOT NULL,
      access_method   text NOT NULL,
      amount          bigint NOT NULL CHECK (amount >= 0),
      lease_until     timestamptz NOT NULL,
      checkpoint      jsonb,
      created_at      timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)`
  yield* sql`
    CREATE TABLE usage_events (
      id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      hold_id         text NOT NULL UNIQUE,
      organization_id text NOT NULL,
      member_id       text NOT NULL,
      key_id          text NOT NULL,
      request_id      text NOT NULL,
      model           text NOT NULL,
      access_method   text NOT NULL,
      input           bigint NOT NULL,
      cache_read      bigint NOT NULL,
      cache_write     bigint NOT NULL,
      output          bigint NOT NULL,
      reasoning       bigint NOT NULL,
      cost            bigint NOT NULL CHECK (cost >= 0),
      estimated       boolean NOT NULL,
      created_at      timestamptz NOT NULL DEFAULT now()
    )`
  yield* sql`CREATE INDEX usage_events_by_organization ON usage_events (organization_id, created_at DESC, id DESC)`
  yield* sql`
    CREATE INDEX usage_events_by_member ON usage_events (organization_id, member_id, created_at DESC, id DESC)`

  yield* sql`
    CREATE FUNCTION take_holds(requests jsonb, lease interval)
    RETURNS TABLE (ordinal bigint, granted bigint, available bigint)
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
    #variable_conflict use_column
    DECLARE
      request   record;
      account   text;
      free      bigint;
      grants    bigint[] := '{}';
      ordinals  bigint[] := '{}';
      leftovers bigint[] := '{}';
    BEGIN
      FOR request IN
        SELECT r.ordinality AS ordinal, r.item->>'organization' AS organization,
               (r.item->>'least')::bigint AS least, (r.item->>'most')::bigint AS most
        FROM jsonb_array_elements(requests) WITH ORDINALITY AS r (item, ordinality)
        ORDER BY 2, 1
      LOOP
        IF account IS DISTINCT FROM request.organization THEN
          account := request.organization;
          SELECT a.balance - a.held INTO free FROM credit_accounts a WHERE a.organization_id = account FOR UPDATE;
          free := coalesce(free, 0);
        END IF;
        ordinals := ordinals || request.ordinal;
        leftovers := leftovers || free;
        IF free < request.least THEN
          grants := grants || NULL::bigint;
        ELSE
          grants := grants || least(request.most, free);
          free := free - least(request.most, free);
        END IF;
      END LOOP;

      INSERT INTO credit_holds (
        id, organization_id, member_id, key_id, request_id, model, access_method, amount, lease_until)
      SELECT q.item->>'id', q.item->>'organization', q.item->>'member', q.item->>'key', q.item->>'request',
             q.item->>'model', q.item->>'method', g.granted, clock_timestamp() + lease
      FROM unnest(ordinals, grants) AS g (ordinal, granted)
      JOIN jsonb_array_elements(requests) WITH ORDINALITY AS q (item, ordinality) ON q.ordinality = g.ordinal
      WHERE g.granted IS NOT NULL;

      UPDATE credit_accounts a SET held = a.held + t.amount
      FROM (
        SELECT q.item->>'organization' AS organization, sum(g.granted)::bigint AS amount
        FROM unnest(ordinals, grants) AS g (ordinal, granted)
        JOIN jsonb_array_elements(requests) WITH ORDINALITY AS q (item, ordinality) ON q.ordinality = g.ordinal
        GROUP BY 1
      ) t
      WHERE a.organization_id = t.organization AND t.amount > 0;

      RETURN QUERY SELECT g.ordinal, g.granted, g.available
      FROM unnest(ordinals, grants, leftovers) AS g (ordinal, granted, available);
    END $$`

  yield* sql`
    CREATE FUNCTION end_holds(endings jsonb)
    RETURNS TABLE (hold_id text, charged bigint)
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
    #variable_conflict use_column
    DECLARE
      ids text[] := ARRAY(SELECT e.item->>'hold' FROM jsonb_array_elements(endings) AS e (item));
    BEGIN
      PERFORM 1 FROM credit_accounts a
      WHERE a.organization_id = ANY (ARRAY(SELECT h.organization_id FROM credit_holds h WHERE h.id = ANY (ids)))
      ORDER BY a.organization_id FOR UPDATE;

      RETURN QUERY
      WITH ended AS (
        DELETE FROM credit_holds h USING jsonb_array_elements(endings) AS e (item)
        WHERE h.id = ANY (ids) AND h.id = e.item->>'hold'
        RETURNING h.*, e.item->'settlement' AS settlement
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
      SELECT id, charge FROM charges;
    END $$`
})
