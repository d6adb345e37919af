import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { clientOf, type Store } from "../fixtures/Store.ts"

/** Requests whose holds are taken, and then settled, by one statement. */
const atOnce = 500

/**
 * A million requests of organization `drops`, each held and settled at 100 nano-USD by the function that serves every
 * request. Only HTTP and the upstream are left out, which would take the better part of an hour.
 */
export const settleMillion = (store: Store): Promise<void> =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql`
        DO $$
        DECLARE
          purpose jsonb := (
            SELECT jsonb_build_object('organization', k.organization_id, 'member', k.member_id, 'key', k.id,
                                      'model', 'fake-model', 'method', 'service', 'least', '100', 'most', '100')
            FROM api_keys k JOIN organizations o ON o.id = k.organization_id WHERE o.name = 'drops');
          settlement jsonb := '{"input": 0, "cacheRead": 0, "cacheWrite": 0, "output": 1, "reasoning": 0,
                               "cost": "100", "estimated": false}';
          at_once int := ${sql.literal(`${atOnce}`)};
        BEGIN
          FOR round IN 1 .. 1000000 / at_once LOOP
            PERFORM account_round('{}', (
              SELECT jsonb_agg(purpose || jsonb_build_object('hold', round || '-' || n, 'request', round || '-' || n))
              FROM generate_series(1, at_once) n), '30 seconds');
            PERFORM account_round((
              SELECT jsonb_object_agg(round || '-' || n, settlement) FROM generate_series(1, at_once) n
            ), '[]', '30 seconds');
            COMMIT;
          END LOOP;
        END $$`
  ).pipe(Effect.asVoid, Effect.provide(clientOf(store)), Effect.runPromise)
