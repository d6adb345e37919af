import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Money, SafeInt8 } from "../../src/adapters/postgres/Columns.ts"
import { clientOf, type Store } from "../fixtures/Store.ts"

/** All that a store knows of money, read past the service. Amounts are nano-USD. */
export interface Books {
  readonly accounts: ReadonlyArray<{ readonly org: string; readonly balance: bigint; readonly held: bigint }>
  readonly entries: ReadonlyArray<{ readonly org: string; readonly amount: bigint; readonly holdId: string | null }>
  readonly holds: ReadonlyArray<{
    readonly id: string
    readonly org: string
    readonly requestId: string
    readonly amount: bigint
    /** By the store's clock. */
    readonly lapsed: boolean
  }>
  readonly events: ReadonlyArray<{
    readonly holdId: string
    readonly org: string
    readonly requestId: string
    readonly input: number
    readonly output: number
    readonly cost: bigint
    readonly estimated: boolean
  }>
}

const read = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`
  const org = sql.literal("JOIN organizations o ON o.id = organization_id")
  const all = <A>(Result: Schema.ConstraintDecoder<A>, rows: Effect.Effect<ReadonlyArray<unknown>, unknown>) =>
    SqlSchema.findAll({ Request: Schema.Void, Result, execute: () => rows })(undefined)
  return {
    accounts: yield* all(
      Schema.Struct({ org: Schema.String, balance: Money, held: Money }),
      sql`SELECT o.name AS org, balance, held FROM credit_accounts ${org} ORDER BY 1`
    ),
    entries: yield* all(
      Schema.Struct({ org: Schema.String, amount: Money, holdId: Schema.NullOr(Schema.String) }),
      sql`SELECT o.name AS org, amount, hold_id FROM ledger_entries e ${org} ORDER BY e.id`
    ),
    holds: yield* all(
      Schema.Struct({
        id: Schema.String,
        org: Schema.String,
        requestId: Schema.String,
        amount: Money,
        lapsed: Schema.Boolean
      }),
      sql`
        SELECT h.id, o.name AS org, request_id, amount, lease_until < clock_timestamp() AS lapsed
        FROM credit_holds h ${org} ORDER BY h.id`
    ),
    events: yield* all(
      Schema.Struct({
        holdId: Schema.String,
        org: Schema.String,
        requestId: Schema.String,
        input: SafeInt8,
        output: SafeInt8,
        cost: Money,
        estimated: Schema.Boolean
      }),
      sql`
        SELECT hold_id, o.name AS org, request_id, input, output, cost, estimated
        FROM usage_events e ${org} ORDER BY e.id`
    )
  }
})

/** One consistent reading. */
export const readBooks = (store: Store): Promise<Books> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(read)).pipe(
    Effect.provide(clientOf(store)),
    Effect.runPromise
  )

/** Nano-USD per token of `fake-model`. */
const rates = { input: 2_500n, output: 10_000n }

/** What `fake-model` costs for so many tokens. */
export const costOf = (tokens: { readonly input: number; readonly output: number }): bigint =>
  BigInt(tokens.input) * rates.input + BigInt(tokens.output) * rates.output
