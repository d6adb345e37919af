import { Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { UsageEvents } from "../../application/ports/storage/UsageEvents.ts"
import { MemberId, OrganizationId } from "../../domain/shared/Ids.ts"
import { Money, SafeInt8 } from "./Columns.ts"
import { toDefect } from "./Failures.ts"
import * as Patience from "./Patience.ts"

const Scope = { organizationId: OrganizationId, memberId: Schema.NullOr(MemberId) }

export const layer = Layer.effect(
  UsageEvents,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { longer } = yield* Patience.make

    const within = ({
      memberId,
      organizationId
    }: {
      readonly organizationId: string
      readonly memberId: string | null
    }) =>
      memberId === null
        ? sql`organization_id = ${organizationId}`
        : sql`organization_id = ${organizationId} AND member_id = ${memberId}`

    const totals = SqlSchema.findOne({
      Request: Schema.Struct({ ...Scope, since: Schema.Int }),
      Result: Schema.Struct({ cost: Money, events: SafeInt8 }),
      execute: ({ since, ...scope }) =>
        sql`
          SELECT coalesce(sum(cost), 0)::bigint AS cost, count(*) AS events FROM usage_events
          WHERE ${within(scope)} AND created_at >= to_timestamp(${since / 1000}::float8)`
    })

    const recent = SqlSchema.findAll({
      Request: Schema.Struct({ ...Scope, limit: Schema.Int }),
      Result: Schema.Struct({
        model: Schema.String,
        cost: Money,
        inputTokens: SafeInt8,
        outputTokens: SafeInt8,
        timestamp: SafeInt8
      }),
      execute: ({ limit, ...scope }) =>
        sql`
          SELECT model, cost, input + cache_read + cache_write AS input_tokens, output + reasoning AS output_tokens,
                 floor(extract(epoch FROM created_at) * 1000)::bigint AS timestamp
          FROM usage_events WHERE ${within(scope)} ORDER BY created_at DESC, id DESC LIMIT ${limit}`
    })

    const byModelAndDay = SqlSchema.findAll({
      Request: Schema.Struct({ ...Scope, since: Schema.Int }),
      Result: Schema.Struct({
        day: Schema.String,
        model: Schema.String,
        events: SafeInt8,
        inputTokens: SafeInt8,
        outputTokens: SafeInt8,
        cost: Money
      }),
      execute: ({ since, ...scope }) =>
        sql`
          SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, model, count(*) AS events,
                 sum(input + cache_read + cache_write)::bigint AS input_tokens,
                 sum(output + reasoning)::bigint AS output_tokens, sum(cost)::bigint AS cost
          FROM usage_events WHERE ${within(scope)} AND created_at >= to_timestamp(${since / 1000}::float8)
          GROUP BY 1, 2 ORDER BY 1 DESC, 6 DESC, 2`
    })

    return UsageEvents.of({
      totals: Effect.fn("UsageEvents.totals")((scope, since) =>
        longer(totals({ ...scope, since })).pipe(
          Effect.catchTag("NoSuchElementError", Effect.die),
          Effect.catch(toDefect)
        )
      ),
      recent: Effect.fn("UsageEvents.recent")((scope, limit) =>
        Effect.catch(longer(recent({ ...scope, limit })), toDefect)
      ),
      byModelAndDay: Effect.fn("UsageEvents.byModelAndDay")((scope, since) =>
        Effect.catch(byModelAndDay({ ...scope, since }), toDefect)
      )
    })
  })
)
