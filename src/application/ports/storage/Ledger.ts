import { Context, type Effect } from "effect"
import type { InsufficientCredits } from "../../../domain/billing/BillingErrors.ts"
import type { Checkpoint, Purpose, Settlement } from "../../../domain/billing/CreditHold.ts"
import type { RateDecision, RateLimited, RatePolicy } from "../../../domain/ratelimit/RatePolicy.ts"
import type { HoldId, OrganizationId } from "../../../domain/shared/Ids.ts"
import type { NanoUsd } from "../../../domain/shared/Money.ts"

/**
 * Credit that is never overdrawn and never charged twice. At all times, for every account: the balance is the sum of
 * the ledger, the open holds sum to `held`, and 0 <= held <= balance. Every operation is atomic and durable when it
 * returns. Leases follow the store's clock.
 */
export class Ledger extends Context.Service<
  Ledger,
  {
    /** Adds credit; gives the new balance. A note says where it came from. */
    readonly grant: (organization: OrganizationId, amount: NanoUsd, note: string) => Effect.Effect<NanoUsd>
    readonly credit: (organization: OrganizationId) => Effect.Effect<Credit>
    /**
     * Sets aside `most`, or what is free if that is at least `least`; gives the amount. Competing holds are admitted in
     * the order of their arrival, each seeing what the ones before it left. With a rate claim the request is counted
     * first, in the same write; one over the limit takes no hold.
     */
    readonly hold: (request: HoldRequest) => Effect.Effect<NanoUsd, InsufficientCredits | RateLimited>
    /**
     * Ends the hold with one charge of at most its amount and one usage event; gives what was charged. A hold that has
     * ended already is left as it is and gives null.
     */
    readonly settle: (settlement: Settlement) => Effect.Effect<NanoUsd | null>
    /** Ends the hold without a charge; false if it has ended already. */
    readonly release: (hold: HoldId) => Effect.Effect<boolean>
    /** Extends the leases of these holds and remembers what they delivered. Holds that have ended are passed over. */
    readonly renew: (holds: ReadonlyArray<Renewal>) => Effect.Effect<void>
    /** Ends every hold past its lease, by its last checkpoint or else by release; gives how many. Any process may. */
    readonly sweep: Effect.Effect<number>
  }
>()("gateway/ports/storage/Ledger") {}

export interface Credit {
  readonly balance: NanoUsd
  readonly held: NanoUsd
}

export interface HoldRequest {
  readonly id: HoldId
  readonly purpose: Purpose
  readonly least: NanoUsd
  readonly most: NanoUsd
  readonly rate?: RateClaim
}

/** The request counts under a policy, as `RateLimits.take` counts it. */
export interface RateClaim {
  readonly policy: RatePolicy
  /** Told once the request is counted, whatever becomes of the hold. */
  readonly decided: (decision: RateDecision) => void
}

export interface Renewal {
  readonly holdId: HoldId
  /** Null: nothing was delivered yet. */
  readonly checkpoint: Checkpoint | null
}

/** A hold that nobody renews for so long is swept. */
export const leaseSeconds = 30
