import { Layer, type Redacted } from "effect"
import * as ApiKeysPg from "./ApiKeysPg.ts"
import * as Clients from "./Clients.ts"
import * as LedgerPg from "./LedgerPg.ts"
import * as MembersPg from "./MembersPg.ts"
import * as Migrations from "./Migrations.ts"
import * as OrganizationsPg from "./OrganizationsPg.ts"
import * as StoreHealthPg from "./StoreHealthPg.ts"
import * as UsageEventsPg from "./UsageEventsPg.ts"

const Stores = Layer.mergeAll(
  ApiKeysPg.layer,
  LedgerPg.layer,
  MembersPg.layer,
  OrganizationsPg.layer,
  StoreHealthPg.layer,
  UsageEventsPg.layer
).pipe(Layer.provide(Layer.effectDiscard(Migrations.run)))

/** Every storage port on a Postgres server, schema up to date. */
export const layerServer = (options: { readonly url: Redacted.Redacted; readonly maxConnections: number }) =>
  Layer.provide(Stores, Clients.server(options))

/** Every storage port on the embedded store in a directory, schema up to date. */
export const layerEmbedded = (directory: string) => Layer.provide(Stores, Clients.embedded(directory))

