import { Schema } from "effect"

/** At most `limit` requests of one account in `periodSeconds` (section 8). */
export const RatePolicy = Schema.Struct({
  policy: Schema.String,
  limit: Schema.Int.check(Schema.isGreaterThan(0)),
  periodSeconds: Schema.Int.check(Schema.isGreaterThan(0))
})
export type RatePolicy = typeof RatePolicy.Type

export const modelCatalogRead: RatePolicy = { policy: "model_catalog_read", limit: 600, periodSeconds: 60 }
export const billingSummaryRead: RatePolicy = { policy: "billing_summary_read", limit: 120, periodSeconds: 60 }
export const chatCompletionsCreate: RatePolicy = { policy: "chat_completions_create", limit: 600, periodSeconds: 60 }

/** What a window says of one request. Times are whole seconds, rounded up. */
export interface RateDecision {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  /** Until the window ends: a refused request passes after it. */
  readonly resetSeconds: number
}

/** The account used up its window. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  policy: Schema.String,
  limit: Schema.Int,
  periodSeconds: Schema.Int,
  retryAfterSeconds: Schema.Int
}) {
  override get message() {
    return (
      `Over ${this.limit} requests in ${this.periodSeconds} s (policy ${this.policy}). ` +
      `Try again in ${this.retryAfterSeconds} s.`
    )
  }
}

/** The refusal of a request that the window does not admit. */
export const refusalOf = (policy: RatePolicy, decision: RateDecision): RateLimited =>
  new RateLimited({ ...policy, retryAfterSeconds: decision.resetSeconds })
