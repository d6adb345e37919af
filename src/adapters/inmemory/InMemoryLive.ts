import { Layer } from "effect"
import * as ApiKeysInMemory from "./ApiKeysInMemory.ts"
import * as IdempotentAnswersInMemory from "./IdempotentAnswersInMemory.ts"
import * as LedgerInMemory from "./LedgerInMemory.ts"
import * as MembersInMemory from "./MembersInMemory.ts"
import * as OrganizationsInMemory from "./OrganizationsInMemory.ts"
import * as ProviderKeysInMemory from "./ProviderKeysInMemory.ts"
import * as RateLimitsInMemory from "./RateLimitsInMemory.ts"
import { State } from "./State.ts"
import * as StoreHealthInMemory from "./StoreHealthInMemory.ts"
import * as UsageEventsInMemory from "./UsageEventsInMemory.ts"

/** Every storage port, and the state behind them for tests to look into. Every build is a fresh, empty store. */
export const layer = Layer.mergeAll(
  ApiKeysInMemory.layer,
  IdempotentAnswersInMemory.layer,
  LedgerInMemory.layer,
  MembersInMemory.layer,
  OrganizationsInMemory.layer,
  ProviderKeysInMemory.layer,
  StoreHealthInMemory.layer,
  UsageEventsInMemory.layer
).pipe(Layer.provideMerge(Layer.merge(State.layer, RateLimitsInMemory.layer)))
