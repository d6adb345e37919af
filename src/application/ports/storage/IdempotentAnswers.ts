import { Context, type Effect } from "effect"
import type { IdempotencyKeyBusy, IdempotencyKeyReused } from "../../../domain/completion/IdempotencyErrors.ts"
import type { IdempotencyKey } from "../../../domain/completion/IdempotencyKey.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * Answers by the idempotency keys of their requests. An organization's key belongs to one request at a time, among all
 * processes on the store: first by a claim, which is a lease and has to be renewed while the request runs, then by the
 * answer. Leases and ages follow the store's clock. Every operation is atomic and durable when it returns.
 */
export class IdempotentAnswers extends Context.Service<
  IdempotentAnswers,
  {
    /**
     * Claims the key; null: the claim has it. Otherwise the answer that is stored for the same digest. Fails while
     * another claim has the key, and when what has it is of another digest.
     */
    readonly claim: (claim: KeyClaim) => Effect.Effect<string | null, IdempotencyKeyBusy | IdempotencyKeyReused>
    /** Extends the leases of these claims. Those that have lost their key, or are answered, are passed over. */
    readonly renew: (claims: ReadonlyArray<KeyClaim>) => Effect.Effect<void>
    /** Turns the claim into an answer; false if it has lost its key. The text has no NUL and no lone surrogate. */
    readonly store: (claim: KeyClaim, answer: string) => Effect.Effect<boolean>
    /** Gives the key up; false if it has an answer, or the claim has lost it. */
    readonly free: (claim: KeyClaim) => Effect.Effect<boolean>
    /** Deletes lapsed claims and old answers; gives how many. Any process may. */
    readonly sweep: Effect.Effect<number>
  }
>()("gateway/ports/storage/IdempotentAnswers") {}

/** One request's claim to a key. */
export interface KeyClaim {
  readonly organizationId: OrganizationId
  readonly key: IdempotencyKey
  /** Of this claim alone. */
  readonly id: string
  /** Of the request's body. */
  readonly digest: string
}

/** A claim that nobody renews for so long has lost its key. */
export const claimSeconds = 30

/** From its storing on an answer is kept for so long. */
export const answerHours = 24
