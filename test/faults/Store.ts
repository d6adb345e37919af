import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as KeyTextsLive from "../../src/adapters/crypto/KeyTextsLive.ts"
import * as Clients from "../../src/adapters/postgres/Clients.ts"
import * as PostgresLive from "../../src/adapters/postgres/PostgresLive.ts"
import { Accounts } from "../../src/application/identity/Accounts.ts"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { fromUsd } from "../../src/domain/shared/Money.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"

/** Where a service keeps its data. An embedded store can be opened only while its service does not run. */
export type Store = Pick<ServiceProcess, "env">

/** The store without its service. */
export const clientOf = ({ env: { DATABASE_URL, DATA_DIR = "" } }: Store) =>
  DATABASE_URL === undefined
    ? Clients.embedded(DATA_DIR).pipe(Layer.provide(NodeServices.layer))
    : Clients.server({ url: Redacted.make(DATABASE_URL), maxConnections: 2 })

const accounts = (store: Store) =>
  Accounts.layer.pipe(
    Layer.provideMerge(PostgresLive.layer.pipe(Layer.provide(clientOf(store)))),
    Layer.provide(KeyTextsLive.layer),
    Layer.provide(IdsLive.layer),
    Layer.provide(NodeCrypto.layer)
  )

/** Organizations with so much credit (USD) each, with an owner whose key it gives. */
export const openAccounts = <Org extends string>(
  store: Store,
  credits: Readonly<Record<Org, number>>
): Promise<Readonly<Record<Org, string>>> =>
  Effect.gen(function* () {
    const accounts = yield* Accounts
    const keys: Record<string, string> = {}
    for (const [organization, credit] of Object.entries<number>(credits)) {
      yield* accounts.createOrganization(organization)
      yield* accounts.addMember({ organization, name: "owner", role: "owner" })
      if (credit > 0) yield* accounts.grantCredit({ organization, amount: fromUsd(credit), note: "test" })
      keys[organization] = (yield* accounts.issueKey({ organization, name: "test" })).text
    }
    // One for each of the given names.
    return keys as Readonly<Record<Org, string>>
  }).pipe(Effect.provide(accounts(store)), Effect.runPromise)

/** Another key of an organization's owner; `expiresAt` is epoch milliseconds. */
export const issueKey = (store: Store, organization: string, expiresAt: number): Promise<string> =>
  Effect.flatMap(Accounts, (accounts) => accounts.issueKey({ organization, name: "expiring", expiresAt })).pipe(
    Effect.map(({ text }) => text),
    Effect.provide(accounts(store)),
    Effect.runPromise
  )

/** How much longer the lease of each open hold lasts, in seconds by the store's clock. */
export const leases = (store: Store): Promise<ReadonlyArray<number>> =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql<{ readonly seconds: number }>`
        SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 AS seconds FROM credit_holds ORDER BY id`
  ).pipe(
    Effect.map((rows) => rows.map(({ seconds }) => seconds)),
    Effect.provide(clientOf(store)),
    Effect.runPromise
  )

/** What any process does every few seconds: ends the holds past their lease. Gives how many. */
export const sweep = (store: Store): Promise<number> =>
  Effect.flatMap(Ledger, (ledger) => ledger.sweep).pipe(Effect.provide(accounts(store)), Effect.runPromise)

/** The numbers of the migrations that ran, in the order of their ending. */
export const appliedMigrations = (store: Store): Promise<ReadonlyArray<number>> =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ readonly migrationId: number }>`SELECT migration_id FROM schema_migrations ORDER BY created_at, 1`
  ).pipe(
    Effect.map((rows) => rows.map(({ migrationId }) => migrationId)),
    Effect.provide(clientOf(store)),
    Effect.runPromise
  )

/** Keeps an account locked meanwhile, so that nothing can be held or settled on it. */
export const holdingAccount = <A>(store: Store, org: string, use: () => Promise<A>): Promise<A> =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      SELECT 1 FROM credit_accounts a JOIN organizations o ON o.id = a.organization_id
      WHERE o.name = ${org} FOR UPDATE OF a`
    return yield* Effect.promise(use)
  }).pipe(
    (held) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(held)),
    Effect.provide(clientOf(store)),
    Effect.runPromise
  )
