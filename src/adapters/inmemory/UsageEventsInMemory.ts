import { Array, Effect, Layer, Order } from "effect"
import { type DailySpend, UsageEvents, type UsageScope } from "../../application/ports/storage/UsageEvents.ts"
import { type NanoUsd, nanoUsd, zero } from "../../domain/shared/Money.ts"
import { State } from "./State.ts"

const newestDayThenDearest = Order.combineAll([
  Order.flip(Order.mapInput(Order.String, ({ day }: DailySpend) => day)),
  Order.flip(Order.mapInput(Order.BigInt, ({ cost }: DailySpend) => cost)),
  Order.mapInput(Order.String, ({ model }: DailySpend) => model)
])

export const layer = Layer.effect(
  UsageEvents,
  Effect.gen(function* () {
    const { usage } = yield* State

    const within = ({ memberId, organizationId }: UsageScope, since = 0) =>
      usage.filter(
        (event) =>
          event.organizationId === organizationId &&
          (memberId === null || event.memberId === memberId) &&
          event.timestamp >= since
      )

    return UsageEvents.of({
      totals: (scope, since) =>
        Effect.sync(() => {
          const events = within(scope, since)
          return { cost: sum(events), events: events.length }
        }),
      recent: (scope, limit) =>
        Effect.sync(() =>
          within(scope)
            .reverse()
            .slice(0, limit)
            .map(({ cost, inputTokens, model, outputTokens, timestamp }) => ({
              model,
              cost,
              inputTokens,
              outputTokens,
              timestamp
            }))
        ),
      byModelAndDay: (scope, since) =>
        Effect.sync(() => {
          const day = (timestamp: number) => new Date(timestamp).toISOString().slice(0, "YYYY-MM-DD".length)
          const groups = Array.groupBy(within(scope, since), ({ model, timestamp }) => `${day(timestamp)} ${model}`)
          const spend = Object.values(groups).map((events) => ({
            day: day(events[0].timestamp),
            model: events[0].model,
            events: events.length,
            inputTokens: Array.reduce(events, 0, (total, { inputTokens }) => total + inputTokens),
            outputTokens: Array.reduce(events, 0, (total, { outputTokens }) => total + outputTokens),
            cost: sum(events)
          }))
          return Array.sort(spend, newestDayThenDearest)
        })
    })
  })
)

const sum = (events: ReadonlyArray<{ readonly cost: NanoUsd }>): NanoUsd =>
  events.reduce((total, { cost }) => nanoUsd(total + cost), zero)
