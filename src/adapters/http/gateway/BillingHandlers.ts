import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { GetBillingSummary } from "../../../application/billing/GetBillingSummary.ts"
import { toUsd } from "../../../domain/shared/Money.ts"
import { CurrentCaller } from "./Gate.ts"
import { GatewayApi } from "./GatewayApi.ts"

export const BillingHandlers = HttpApiBuilder.group(
  GatewayApi,
  "billing",
  Effect.fn(function* (handlers) {
    const summary = yield* GetBillingSummary
    return handlers.handleAll({
      getBillingSummary: () =>
        Effect.map(Effect.flatMap(CurrentCaller, summary.of), ({ balance, recent, since, totalCost, totalEvents }) => ({
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
        }))
    })
  })
)

const iso = (millis: number): string => new Date(millis).toISOString()
