import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { MemoryStore } from "../../src/application/ports/storage/MemoryStore.ts"
import type { MemoryFilter } from "../../src/domain/memory/Memory.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { onServer, shared } from "../adapters/postgres/Stores.ts"
import { account } from "../conformance/Samples.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"

const many = 100_000
const rounds = 40

/** Milliseconds. */
const bound = 20

/** Another program may take the machine meanwhile: the bound must hold in one of so many tries. */
const tries = 3

const store = shared(onServer(await freshDatabase("many")))

const filters: ReadonlyArray<readonly [string, MemoryFilter]> = [undefined, "user", "system"].flatMap((source) =>
  [undefined, true, false].flatMap((pinned) =>
    [[], ["common"], ["rare"], ["common", "half"], ["common", "tag 1", "tag 2", "rare", "nobody's"]].map((tags) => {
      const conditions = [
        ...(tags.length === 0 ? [] : [`tags=${tags.join(",")}`]),
        ...(source === undefined ? [] : [`source=${source}`]),
        ...(pinned === undefined ? [] : [`pinned=${pinned}`])
      ]
      const name = conditions.length === 0 ? "no filter" : conditions.join("&")
      return [name, { tags, source: source === "user" || source === "system" ? source : undefined, pinned }] as const
    })
  )
)

const p95 = (times: ReadonlyArray<number>) => times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.95) - 1] ?? 0

/** Written as one statement: a workspace gets them one by one. */
const fill = Effect.fnUntraced(function* (workspace: OrganizationId, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO memories (organization_id, id, content, tags, metadata, created_at, updated_at)
    SELECT ${workspace}, substr(md5(n::text), 1, 21), repeat('A sentence to remember. ', 1 + n % 40),
      ARRAY(SELECT t FROM (VALUES ('tag ' || n % 1000), ('common'), (CASE WHEN n % 2 = 0 THEN 'half' END),
        (CASE WHEN n % 10000 = 0 THEN 'rare' END)) v (t) WHERE t IS NOT NULL),
      json_build_object('source', CASE WHEN n % 50 = 1 THEN 'system' ELSE 'user' END, 'pinned', n % 100 = 2),
      n, 1700000000000 + (n::bigint * 7919) % 100003
    FROM generate_series(1, ${count}::int) n`
})

describe(`A workspace of ${many} memories beside another`, () => {
  it.live(
    `lists a hundred of them by every combination of filters within ${bound} ms at p95`,
    () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const [mine, foreign] = [yield* account(), yield* account()]
        yield* fill(foreign, 10_000)
        yield* fill(mine, many)
        const measured: Array<{ readonly filter: string; readonly p95: number }> = []
        for (const [name, filter] of filters) {
          let best = Infinity
          for (let round = 0; round < tries && best > bound; round++) {
            const times: Array<number> = []
            while (times.length < rounds) {
              const start = performance.now()
              const page = yield* memories.list(mine, filter, { limit: 100, offset: 0 })
              times.push(performance.now() - start)
              assert.isAtMost(page.length, 100)
            }
            best = Math.min(best, p95(times))
          }
          measured.push({ filter: name, p95: Number(best.toFixed(2)) })
        }
        console.table(measured)
        assert.deepStrictEqual(
          measured.filter(({ p95 }) => p95 > bound),
          []
        )
      }).pipe(Effect.provide(store)),
    240_000
  )
})
