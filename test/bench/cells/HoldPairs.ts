import { Config, Effect, Schema } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import type { Database } from "../machine/Postgres.ts"
import type { Measurement } from "../report/Measurement.ts"
import type { Bounds } from "./Rounds.ts"

/** `exact`: afterwards nothing is held and the balance is what was granted minus every cost. */
export const PairsResult = Schema.Struct({
  pairs: Schema.Int,
  millis: Schema.Finite,
  cpuMicros: Schema.Finite,
  exact: Schema.Boolean
})
export type PairsResult = typeof PairsResult.Type

export class PairsFailed extends Schema.TaggedError<PairsFailed>()("PairsFailed", { output: Schema.String }) {
  override get message() {
    return `hold and settlement pairs: ${this.output}`
  }
}

const atOnce = 64

const run = Effect.fn("runPairs")(function* (database: Database, concurrency: number, seconds: number) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const PATH = yield* Config.String("PATH")
  const printed = yield* spawner.string(
    ChildProcess.make(
      process.execPath,
      [`${import.meta.dirname}/HoldPairsWorker.ts`, database.url, `${concurrency}`, `${seconds}`],
      { env: { PATH, NODE_ENV: "production" }, stdin: "ignore" }
    ),
    { includeStderr: true }
  )
  const failed = new PairsFailed({ output: printed.slice(-2000) })
  const result = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(PairsResult))(
    /^\{.*\}$/m.exec(printed)?.[0]
  ).pipe(Effect.mapError(() => failed))
  return result.exact ? result : yield* failed
})

/** Holds and settlements on one organization: 64 at once, and one after the other. */
export const holdPairs = Effect.fn("holdPairs")(function* (database: Database, { rounds, seconds }: Bounds) {
  const measurements: Array<Measurement> = []
  for (let round = 1; round <= rounds; round++) {
    const limit = Effect.timeout(`${seconds + 20} seconds`)
    const grouped = yield* limit(run(database, atOnce, seconds))
    const alone = yield* limit(run(database, 1, Math.min(2, seconds)))
    const figures = [
      ["pairs", grouped.pairs / (grouped.millis / 1000)],
      ["pairs.cpu", grouped.cpuMicros / grouped.pairs],
      ["pairs.alone", alone.millis / alone.pairs]
    ] as const
    for (const [metric, value] of figures) measurements.push({ metric, contender: "gateway", round, value })
  }
  return measurements
})
