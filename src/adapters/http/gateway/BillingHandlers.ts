import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { GetBillingSummary } from "../../../application/billing/GetBillingSummary.ts"
import type { BillingSummary } from "../../../domain/billing/BillingSummary.ts"
import { toUsd } from "../../../domain/shared/Money.ts"
import type { BillingSummaryWire } from "./BillingApi.ts"
import type { Handler } from "./Gate.ts"

export const BillingHandlers = Effect.gen(function* () {
  const summary = yield* GetBillingSummary

  const getBillingSummary: Handler = ({ caller }) =>
    Effect.map(summary.of(caller), (found) => HttpServerResponse.jsonUnsafe(toWire(found)))
  return getBillingSummary
})

const toWire = ({ balance, recent, since, totalCost, totalEvents }: BillingSummary): BillingSummaryWire => ({
  balance_usd: toUsd(balance),
  last_30_days: {
    since: iso(since),
    total_cost_usd: toUsd(totalCost),
    total_usage_events: totalEvents
  },
  recent_model_usage: recent.map(({ cost, inputTokens, model, outputTokens, timestamp }) => ({
    cost_usd: toUsd(cost),
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    model,
    timestamp: iso(timestamp)
  }))
})

const iso = (millis: number): string => new Date(millis).toISOString()
