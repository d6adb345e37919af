import { Layer } from "effect"
import * as AllowedToolsInMemory from "./AllowedToolsInMemory.ts"
import * as ApiKeysInMemory from "./ApiKeysInMemory.ts"
import * as BlobsInMemory from "./BlobsInMemory.ts"
import { Conversations } from "./Conversations.ts"
import * as CustomPromptsInMemory from "./CustomPromptsInMemory.ts"
import * as EventLogInMemory from "./EventLogInMemory.ts"
import * as IdempotentAnswersInMemory from "./IdempotentAnswersInMemory.ts"
import * as LedgerInMemory from "./LedgerInMemory.ts"
import * as MembersInMemory from "./MembersInMemory.ts"
import * as MemoryStoreInMemory from "./MemoryStoreInMemory.ts"
import * as OrganizationsInMemory from "./OrganizationsInMemory.ts"
import * as RateLimitsInMemory from "./RateLimitsInMemory.ts"
import * as SessionLlmsInMemory from "./SessionLlmsInMemory.ts"
import * as SessionsInMemory from "./SessionsInMemory.ts"
import { State } from "./State.ts"
import * as StoreHealthInMemory from "./StoreHealthInMemory.ts"
import * as TurnJournalInMemory from "./TurnJournalInMemory.ts"
import * as UsageEventsInMemory from "./UsageEventsInMemory.ts"
import * as WorkspaceFilesInMemory from "./WorkspaceFilesInMemory.ts"

/** Every storage port, and the state behind them for tests to look into. Every build is a fresh, empty store. */
export const layer = Layer.mergeAll(
  AllowedToolsInMemory.layer,
  ApiKeysInMemory.layer,
  BlobsInMemory.layer,
  EventLogInMemory.layer,
  CustomPromptsInMemory.layer,
  IdempotentAnswersInMemory.layer,
  LedgerInMemory.layer,
  MembersInMemory.layer,
  MemoryStoreInMemory.layer,
  OrganizationsInMemory.layer,
  SessionLlmsInMemory.layer,
  SessionsInMemory.layer,
  StoreHealthInMemory.layer,
  TurnJournalInMemory.layer,
  UsageEventsInMemory.layer,
  WorkspaceFilesInMemory.layer
).pipe(Layer.provide(Conversations.layer), Layer.provideMerge(Layer.merge(State.layer, RateLimitsInMemory.layer)))
