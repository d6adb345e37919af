import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { KeyRequired } from "../KeyRequired.ts"
import { documentedErrors } from "./GatewayEnvelope.ts"

const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** ISO 8601 in UTC, ending in `Z`. */
const Timestamp = Schema.String.annotate({ format: "date-time" })

/** Section 2.2. */
export const BillingSummaryWire = Schema.Struct({
  balance_usd: Schema.Finite,
  last_30_days: Schema.Struct({
    since: Timestamp,
    total_cost_usd: Schema.Finite,
    total_usage_events: NonNegativeInt
  }),
  recent_model_usage: Schema.Array(
    Schema.Struct({
      cost_usd: Schema.Finite,
      input_tokens: NonNegativeInt,
      output_tokens: NonNegativeInt,
      model: Schema.String,
      timestamp: Timestamp
    })
  )
}).annotate({ identifier: "BillingSummary" })
export type BillingSummaryWire = typeof BillingSummaryWire.Type

export const BillingApi = HttpApiGroup.make("billing")
  .add(
    HttpApiEndpoint.get("getBillingSummary", "/v1/billing/summary", {
      success: BillingSummaryWire,
      error: documentedErrors
    }).annotateMerge(OpenApi.annotations({ identifier: "getBillingSummary", summary: "billing summary" }))
  )
  .middleware(KeyRequired)
