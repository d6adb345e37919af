import { Schema } from "effect"
import { AccessMethod } from "../catalog/AccessMethod.ts"
import { ApiKeyId, HoldId, MemberId, OrganizationId } from "../shared/Ids.ts"
import { NanoUsd } from "../shared/Money.ts"
import { Usage } from "./Usage.ts"

/** Whose request it is and what for: what a usage event and a ledger line remember. */
export const Purpose = Schema.Struct({
  organizationId: OrganizationId,
  memberId: MemberId,
  keyId: ApiKeyId,
  requestId: Schema.String,
  model: Schema.String,
  accessMethod: AccessMethod
})
export type Purpose = typeof Purpose.Type

/**
 * Credit set aside before an upstream is called. A lease: whoever holds it renews it, and when its process dies another
 * one settles it from the last checkpoint. It ends once, by a settlement or a release.
 */
export const CreditHold = Schema.Struct({ id: HoldId, purpose: Purpose, amount: NanoUsd })
export type CreditHold = typeof CreditHold.Type

/** How a hold ends: what was used and what it costs, at most the hold. */
export const Settlement = Schema.Struct({
  holdId: HoldId,
  usage: Usage,
  /** The price of the usage; the ledger charges at most the hold, the rest is the operator's loss. */
  cost: NanoUsd,
  /** True: the vendor reported no usage, it was counted here. */
  estimated: Schema.Boolean
})
export type Settlement = typeof Settlement.Type

/** What a running request has delivered so far; settles the hold if its process dies. */
export const Checkpoint = Settlement
export type Checkpoint = Settlement
