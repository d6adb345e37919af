import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { readdir } from "node:fs/promises"
import { basename, resolve } from "node:path"
import * as Clients from "../../../src/adapters/postgres/Clients.ts"
import * as Migrations from "../../../src/adapters/postgres/Migrations.ts"
import { Ledger } from "../../../src/application/ports/storage/Ledger.ts"
import { nanoUsd } from "../../../src/domain/shared/Money.ts"
import { account, holdRequest, settlement } from "../../conformance/Samples.ts"
import { StoreProbe } from "../../conformance/StoreProbe.ts"
import { emptyDatabase, freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "./Stores.ts"

const migrations = resolve(import.meta.dirname, "../../../src/adapters/postgres/migrations")

const migrated = Effect.promise(() => freshDatabase("replicas"))

/** Three processes' worth of stores, started at once. */
const replicas = Effect.fnUntraced(function* (url: string) {
  return yield* Effect.all(
    Array.from({ length: 3 }, () => Layer.build(Layer.fresh(onServer(url)))),
    { concurrency: "unbounded" }
  )
})

/** From now on, two sessions that wait for each other do so until the test times out. */
const withoutDeadlockDetection = (url: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`ALTER DATABASE ${sql(new URL(url).pathname.slice(1))} SET deadlock_timeout = '10 min'`
  ).pipe(Effect.provide(Clients.server({ url: Redacted.make(url), maxConnections: 1 })))

const none = { endings: 0, charges: 0 }

describe("Three replicas", () => {
  it.live("run each migration once when they start at once on an empty database", () =>
    Effect.gen(function* () {
      const files = yield* Effect.promise(() => readdir(migrations))
      const written = files.sort().map((file) => basename(file, ".ts").slice("0001_".length))
      for (let round = 0; round < 5; round++) {
        const url = Redacted.make(yield* Effect.promise(() => emptyDatabase("replicas")))
        const start = Effect.provide(Migrations.run, Layer.fresh(Clients.server({ url, maxConnections: 2 })))
        const ran = yield* Effect.all([start, start, start], { concurrency: "unbounded" })
        assert.deepStrictEqual(
          ran.flat().map(([, name]) => name),
          written
        )
        assert.deepStrictEqual(yield* start, [])
      }
    })
  )

  it.live("all serve after starting at once on an empty database", () =>
    Effect.gen(function* () {
      const stores = yield* replicas(yield* migrated)
      for (const store of stores) yield* Effect.provide(account(5n), store)
    })
  )

  it.live("grant one of a hundred parallel holds with credit for one", () =>
    Effect.gen(function* () {
      const stores = yield* replicas(yield* migrated)
      const [first] = stores
      assert.isDefined(first)
      const ledgers = stores.map((store) => Context.get(store, Ledger))
      const organization = yield* Effect.provide(account(10n), first)
      const exits = yield* Effect.all(
        Array.from({ length: 99 }, () => ledgers)
          .flat()
          .slice(0, 100)
          .map((ledger) => Effect.exit(ledger.hold(holdRequest(organization, 10n)))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(exits.filter(Exit.isSuccess).length, 1)
      for (const exit of exits.filter(Exit.isFailure)) {
        assert.strictEqual(Cause.findErrorOption(exit.cause).valueOrUndefined?._tag, "InsufficientCredits")
      }
      const credit = yield* Context.get(first, Ledger).credit(organization)
      assert.deepStrictEqual(credit, { balance: nanoUsd(10n), held: nanoUsd(10n) })
    })
  )

  it.live("end a lapsed hold once, whichever of them settles, releases or sweeps it", () =>
    Effect.gen(function* () {
      const stores = yield* replicas(yield* migrated)
      const [first] = stores
      assert.isDefined(first)
      const ledgers = stores.map((store) => Context.get(store, Ledger))
      const ledger = Context.get(first, Ledger)
      const organization = yield* Effect.provide(account(1_000n), first)
      let charges = 0n
      for (let round = 0; round < 30; round++) {
        const request = holdRequest(organization, 10n)
        const settled = settlement(request.id, 10n)
        yield* ledger.hold(request)
        yield* ledger.renew([{ holdId: request.id, checkpoint: settled }])
        yield* Context.get(first, StoreProbe).pass("31 seconds")
        const endings = yield* Effect.all(
          ledgers.flatMap((ledger) => [
            Effect.map(ledger.sweep, (swept) => ({ endings: swept, charges: swept })),
            Effect.map(ledger.settle(settled), (charge) => (charge === null ? none : { endings: 1, charges: 1 })),
            Effect.map(ledger.release(request.id), (released) => (released ? { endings: 1, charges: 0 } : none))
          ]),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(
          endings.reduce((sum, { endings }) => sum + endings, 0),
          1
        )
        charges += BigInt(endings.reduce((sum, { charges }) => sum + charges, 0))
      }
      const credit = yield* ledger.credit(organization)
      assert.deepStrictEqual(credit, { balance: nanoUsd(1_000n - 10n * charges), held: nanoUsd(0n) })
    })
  )

  it.live("never wait for each other in a circle when bursts touch the same accounts", () =>
    Effect.gen(function* () {
      const url = yield* migrated
      yield* withoutDeadlockDetection(url)
      const stores = yield* replicas(url)
      const [first] = stores
      assert.isDefined(first)
      const ledgers = stores.map((store) => Context.get(store, Ledger))
      const organizations = yield* Effect.all(
        Array.from({ length: 24 }, () => Effect.provide(account(1_000_000n), first))
      )
      const spend = Effect.fnUntraced(function* (index: number) {
        const organization = organizations[(index * 7) % organizations.length]
        const [taker, ender] = [ledgers[index % 3], ledgers[(index + 1) % 3]]
        if (organization === undefined || taker === undefined || ender === undefined) return
        const request = holdRequest(organization, 10n)
        yield* taker.hold(request)
        yield* taker.renew([{ holdId: request.id, checkpoint: settlement(request.id, 1n) }])
        yield* ender.settle(settlement(request.id, 3n))
      })
      yield* Effect.forEach(
        Array.from({ length: 3_000 }, (_, index) => index),
        spend,
        { concurrency: 150, discard: true }
      )
      const left = yield* Effect.forEach(organizations, (id) => Context.get(first, Ledger).credit(id))
      assert.strictEqual(
        left.reduce((sum, { balance }) => sum + balance, 0n),
        24_000_000n - 9_000n
      )
      assert.isTrue(left.every(({ held }) => held === 0n))
    })
  )
})
