import { DateTime, Effect, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { Accounts } from "../../application/identity/Accounts.ts"
import { UsageEvents } from "../../application/ports/storage/UsageEvents.ts"
import { nanoUsd, toUsd } from "../../domain/shared/Money.ts"
import type { Opened } from "./Options.ts"
import { print, table } from "./Output.ts"
import * as Parameters from "./Parameters.ts"
import { toDecimal } from "./Usd.ts"

const Days = Schema.NumberFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 3650 }))

/** Whole UTC days, so that no row of the table is a part of a day. */
const startOf = (days: number) =>
  Effect.map(DateTime.now, (now) => DateTime.subtract(DateTime.startOf(now, "day"), { days: days - 1 }))

export const usage = (stores: Opened<Accounts | UsageEvents>) =>
  Command.make(
    "usage",
    {
      org: Parameters.org,
      days: Parameters.flag("days", Days).pipe(
        Flag.withDescription("How many UTC days back, today included; 30 if not given"),
        Flag.withMetavar("count"),
        Flag.withDefault(30)
      ),
      json: Parameters.json
    },
    Effect.fnUntraced(function* ({ days, json, org }) {
      const { id: organizationId } = yield* (yield* Accounts).organization(org)
      const since = yield* startOf(days)
      const spend = yield* (yield* UsageEvents).byModelAndDay(
        { organizationId, memberId: null },
        DateTime.toEpochMillis(since)
      )
      const total = nanoUsd(spend.reduce((sum, { cost }) => sum + cost, 0n))
      const text = table(
        spend,
        [
          { header: "day", cell: ({ day }) => day },
          { header: "model", cell: ({ model }) => model },
          { header: "requests", cell: ({ events }) => `${events}`, align: "right" },
          { header: "input tokens", cell: ({ inputTokens }) => `${inputTokens}`, align: "right" },
          { header: "output tokens", cell: ({ outputTokens }) => `${outputTokens}`, align: "right" },
          { header: "cost (usd)", cell: ({ cost }) => toDecimal(cost), align: "right" }
        ],
        "No usage."
      )
      yield* print(
        json,
        {
          org,
          since: DateTime.formatIso(since),
          total_cost_usd: toUsd(total),
          usage: spend.map(({ cost, day, events, inputTokens, model, outputTokens }) => ({
            day,
            model,
            usage_events: events,
            input_tokens: inputTokens,
            output_tokens: outputTokens,
            cost_usd: toUsd(cost)
          }))
        },
        `${text}\n\nOrganization ${org} spent ${toDecimal(total)} USD since ${DateTime.formatIsoDateUtc(since)} (UTC).`
      )
    })
  ).pipe(
    Command.withDescription("Show what an organization spent, by day and model"),
    Command.withExamples(({ commandPath }) => [{ command: `${commandPath.join(" ")} --org acme --days 7` }]),
    Command.provide(stores)
  )
