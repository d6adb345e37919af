import { NodeServices } from "@effect/platform-node"
import { Duration, Effect, Layer, ManagedRuntime, Redacted, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as SecretsLive from "../../../src/adapters/crypto/SecretsLive.ts"
import * as Clients from "../../../src/adapters/postgres/Clients.ts"
import * as PostgresLive from "../../../src/adapters/postgres/PostgresLive.ts"
import { HoldId, OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { NanoUsd } from "../../../src/domain/shared/Money.ts"
import { StoreProbe } from "../../conformance/StoreProbe.ts"

const Probe = Layer.effect(
  StoreProbe,
  Effect.map(SqlClient.SqlClient, (sql) => {
    const entries = SqlSchema.findAll({
      Request: OrganizationId,
      Result: Schema.Struct({ amount: NanoUsd, holdId: Schema.NullOr(HoldId) }),
      execute: (id) => sql`SELECT amount, hold_id FROM ledger_entries WHERE organization_id = ${id} ORDER BY id`
    })
    return StoreProbe.of({
      pass: (duration) => {
        const passed = `${Duration.toMillis(duration)} milliseconds`
        return sql`UPDATE credit_holds SET lease_until = lease_until - ${passed}::interval`.pipe(
          Effect.andThen(sql`UPDATE rate_windows SET started_at = started_at - ${passed}::interval`),
          Effect.andThen(sql`UPDATE usage_events SET created_at = created_at - ${passed}::interval`),
          Effect.andThen(sql`UPDATE sessions SET last_activity = last_activity - ${Duration.toMillis(duration)}`),
          Effect.andThen(sql`UPDATE blobs SET created_at = created_at - ${Duration.toMillis(duration)}`),
          Effect.andThen(sql`UPDATE idempotent_answers SET expires_at = expires_at - ${passed}::interval`),
          Effect.orDie
        )
      },
      entries: (organization) => Effect.orDie(entries(organization))
    })
  })
)

const Stores = Layer.merge(PostgresLive.layerWithFiles, Probe).pipe(
  Layer.provide(SecretsLive.layerKey(Redacted.make(new Uint8Array(32))))
)

/** The stores on a Postgres server, with a client of their own. */
export const onServer = (url: string) =>
  Layer.fresh(Stores).pipe(Layer.provideMerge(Clients.server({ url: Redacted.make(url), maxConnections: 4 })))

/** The stores on an embedded PGlite. */
export const onPglite = (directory: string) =>
  Layer.fresh(Stores).pipe(Layer.provideMerge(Clients.embedded(directory)), Layer.provide(NodeServices.layer))

/** An empty directory that is deleted after the tests of the file. */
export const temporaryDirectory = async (): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "gateway-store-"))
  afterAll(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** One build of a store for all suites of a file. */
export const shared = <R, E>(store: Layer.Layer<R, E>): Layer.Layer<R, E> => {
  const runtime = ManagedRuntime.make(store)
  afterAll(() => runtime.dispose())
  return Layer.effectContext(runtime.contextEffect)
}
