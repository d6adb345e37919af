import { Layer } from "effect"
import { AccountRounds } from "./AccountRounds.ts"
import * as AllowedToolsPg from "./AllowedToolsPg.ts"
import * as ApiKeysPg from "./ApiKeysPg.ts"
import * as BlobsPg from "./BlobsPg.ts"
import * as Clients from "./Clients.ts"
import * as CustomPromptsPg from "./CustomPromptsPg.ts"
import * as EventLogPg from "./EventLogPg.ts"
import * as IdempotentAnswersPg from "./IdempotentAnswersPg.ts"
import * as LedgerPg from "./LedgerPg.ts"
import * as MembersPg from "./MembersPg.ts"
import * as MemoryStorePg from "./MemoryStorePg.ts"
import * as Migrations from "./Migrations.ts"
import * as OrganizationsPg from "./OrganizationsPg.ts"
import * as RateLimitsPg from "./RateLimitsPg.ts"
import * as SessionLlmsPg from "./SessionLlmsPg.ts"
import { SessionNotices } from "./SessionNotices.ts"
import * as SessionsPg from "./SessionsPg.ts"
import * as StoreHealthPg from "./StoreHealthPg.ts"
import * as TurnJournalPg from "./TurnJournalPg.ts"
import * as UsageEventsPg from "./UsageEventsPg.ts"
import * as WorkspaceFilesPg from "./WorkspaceFilesPg.ts"

/** Every storage port on a Postgres client (see `Clients`: a server or the embedded store), schema up to date. */
export const layer = Layer.mergeAll(
  AllowedToolsPg.layer,
  ApiKeysPg.layer,
  BlobsPg.layer,
  CustomPromptsPg.layer,
  EventLogPg.layer,
  IdempotentAnswersPg.layer,
  LedgerPg.layer,
  MembersPg.layer,
  MemoryStorePg.layer,
  OrganizationsPg.layer,
  RateLimitsPg.layer,
  SessionLlmsPg.layer,
  SessionsPg.layer,
  StoreHealthPg.layer,
  TurnJournalPg.layer,
  UsageEventsPg.layer
).pipe(
  Layer.provide(Layer.merge(AccountRounds.layer, SessionNotices.layer)),
  Layer.provide(Layer.effectDiscard(Migrations.run))
)

/** The same, and the files of workspaces with it. */
export const layerWithFiles = Layer.provideMerge(WorkspaceFilesPg.layer, layer)

/** All of it with its client: a Postgres server. */
export const layerServer = (options: Parameters<typeof Clients.server>[0]) =>
  Layer.provide(layerWithFiles, Clients.server(options))

/** All of it with its client: the embedded store in a directory. */
export const layerEmbedded = (directory: string) => Layer.provide(layerWithFiles, Clients.embedded(directory))
