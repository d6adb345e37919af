import { Layer } from "effect"
import { AccountRounds } from "./AccountRounds.ts"
import * as ApiKeysPg from "./ApiKeysPg.ts"
import * as Clients from "./Clients.ts"
import * as IdempotentAnswersPg from "./IdempotentAnswersPg.ts"
import * as LedgerPg from "./LedgerPg.ts"
import * as MembersPg from "./MembersPg.ts"
import * as Migrations from "./Migrations.ts"
import * as OrganizationsPg from "./OrganizationsPg.ts"
import * as ProviderKeysPg from "./ProviderKeysPg.ts"
import * as RateLimitsPg from "./RateLimitsPg.ts"
import * as StoreHealthPg from "./StoreHealthPg.ts"
import * as UsageEventsPg from "./UsageEventsPg.ts"

/** Every storage port on a Postgres client (see `Clients`: a server or the embedded store), schema up to date. */
export const layer = Layer.mergeAll(
  ApiKeysPg.layer,
  IdempotentAnswersPg.layer,
  LedgerPg.layer,
  MembersPg.layer,
  OrganizationsPg.layer,
  ProviderKeysPg.layer,
  RateLimitsPg.layer,
  StoreHealthPg.layer,
  UsageEventsPg.layer
).pipe(Layer.provide(AccountRounds.layer), Layer.provide(Layer.effectDiscard(Migrations.run)))

/** The same with its client: a Postgres server. */
export const layerServer = (options: Parameters<typeof Clients.server>[0]) =>
  Layer.provide(layer, Clients.server(options))

/** The same with its client: the embedded store in a directory. */
export const layerEmbedded = (directory: string) => Layer.provide(layer, Clients.embedded(directory))
