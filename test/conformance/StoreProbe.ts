import { Context, type Duration, type Effect } from "effect"
import type { HoldId, OrganizationId } from "../../src/domain/shared/Ids.ts"
import type { NanoUsd } from "../../src/domain/shared/Money.ts"

/** What the suites need of a store beyond its ports. Each store brings its own. */
export class StoreProbe extends Context.Service<
  StoreProbe,
  {
    /** Time passes for the store: leases run down, what it recorded grows older, windows close. */
    readonly pass: (duration: Duration.Input) => Effect.Effect<void>
    /** The ledger of an account, oldest entry first. */
    readonly entries: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<LedgerEntry>>
  }
>()("test/conformance/StoreProbe") {}

/** `holdId` is null for a grant. */
export interface LedgerEntry {
  readonly amount: NanoUsd
  readonly holdId: HoldId | null
}
