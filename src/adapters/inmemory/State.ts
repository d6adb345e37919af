import { Context, Layer } from "effect"
import type { UsageEvent } from "../../domain/billing/BillingSummary.ts"
import type { Member } from "../../domain/identity/Member.ts"
import type { Organization } from "../../domain/identity/Organization.ts"
import type { HoldId, MemberId, OrganizationId } from "../../domain/shared/Ids.ts"
import type { NanoUsd } from "../../domain/shared/Money.ts"

/** What the stores of this folder share. Empty in every build of the layer. */
export class State extends Context.Service<
  State,
  {
    readonly organizations: Map<OrganizationId, Organization>
    readonly members: Map<MemberId, Member>
    readonly accounts: Map<OrganizationId, Account>
    /** Oldest first. */
    readonly usage: Array<RecordedUsage>
  }
>()("gateway/adapters/inmemory/State") {
  static readonly layer = Layer.sync(State, () =>
    State.of({ organizations: new Map(), members: new Map(), accounts: new Map(), usage: [] })
  )
}

export interface Account {
  balance: NanoUsd
  held: NanoUsd
  /** The ledger: grants above zero, charges below. */
  readonly entries: Array<{ readonly amount: NanoUsd; readonly holdId: HoldId | null }>
}

export interface RecordedUsage extends UsageEvent {
  readonly organizationId: OrganizationId
  readonly memberId: MemberId
}
