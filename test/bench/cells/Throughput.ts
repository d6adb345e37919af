import { Effect, Fiber, Schedule } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { Load } from "../load/Load.ts"
import type { LoadSpec } from "../load/LoadGenerator.ts"
import type { Database } from "../machine/Postgres.ts"
import { cpuMicros, familyCpuMicros, residentBytes } from "../machine/ProcessStats.ts"
import type { Measurement, Metric } from "../report/Measurement.ts"
import { type BenchModel, completionsPath, requestBody } from "../Workload.ts"
import { alternate, type Bounds } from "./Rounds.ts"

export const connections = 32

/** Seconds of load that nobody counts, so that code is compiled before the first round. */
const warmUp = 10

/** Seconds within which every connection sees at least two paced streams whole. */
const shortestPaced = 3

/** Work that a contender does after its answers, such as settling, is over by then and counts. */
const settle = Effect.sleep("300 millis")

const perRequest = (before: number | undefined, after: number | undefined, requests: number) =>
  before === undefined || after === undefined ? undefined : (after - before) / requests

/** One load with what its process and, for the gateway, its database spent on it. */
export const measureLoad = Effect.fn("measureLoad")(function* (spec: LoadSpec, database: Database | undefined) {
  const load = yield* Load
  const { pid } = spec.contender
  const [cpuBefore, postgresBefore] = [cpuMicros(pid), database && familyCpuMicros(database.pid)]
  let resident = residentBytes(pid) ?? 0
  const watch = yield* Effect.sync(() => {
    resident = Math.max(resident, residentBytes(pid) ?? 0)
  }).pipe(Effect.repeat(Schedule.spaced("200 millis")), Effect.forkChild)
  const result = yield* load.run(spec).pipe(Effect.timeout(`${spec.seconds + 20} seconds`))
  yield* settle
  yield* Fiber.interrupt(watch)
  return {
    ...result,
    cpuMicros: perRequest(cpuBefore, cpuMicros(pid), result.requests),
    postgresMicros: perRequest(postgresBefore, database && familyCpuMicros(database.pid), result.requests),
    residentMegabytes: resident === 0 ? undefined : resident / 1_000_000
  }
})

const metricsOf = {
  "bench-json": {
    rate: "json",
    cpu: "json.cpu",
    p99: "json.p99",
    resident: "json.resident",
    postgres: "json.postgres"
  },
  "bench-burst": { rate: "burst", cpu: "burst.cpu", postgres: "burst.postgres" },
  "bench-late": { rate: "late", cpu: "late.cpu" },
  "bench-paced": { rate: "paced", cpu: "paced.cpu" }
} as const satisfies Partial<Record<BenchModel, Record<string, Metric>>>

/**
 * Completions with 32 connections. A paced stream lasts over a second, so that counting whole ones within some seconds
 * would only show the rounding: there the rate is connections divided by the mean duration, which is the same in a
 * closed loop.
 */
export const throughput = Effect.fn("throughput")(function* (
  model: keyof typeof metricsOf,
  contenders: ReadonlyArray<Contender>,
  database: Database,
  bounds: Bounds
) {
  const { rounds } = bounds
  const seconds = model === "bench-paced" ? Math.max(bounds.seconds, shortestPaced) : bounds.seconds
  const spec = (contender: Contender, duration: number): LoadSpec => ({
    contender,
    path: completionsPath,
    body: requestBody(model),
    connections,
    seconds: duration
  })
  for (const contender of contenders) yield* measureLoad(spec(contender, warmUp), undefined)

  const names: Partial<Record<"rate" | "cpu" | "p99" | "resident" | "postgres", Metric>> = metricsOf[model]
  return yield* alternate(model, contenders, rounds, (contender, round) =>
    Effect.gen(function* () {
      const result = yield* measureLoad(spec(contender, seconds), contender.name === "gateway" ? database : undefined)
      const rate = model === "bench-paced" ? connections / (result.meanMillis / 1000) : result.requestsPerSecond
      const figures = [
        [names.rate, rate],
        [names.cpu, result.cpuMicros],
        [names.p99, result.p99Millis],
        [names.resident, result.residentMegabytes],
        [names.postgres, result.postgresMicros]
      ] as const
      return figures.flatMap(([metric, value]): ReadonlyArray<Measurement> =>
        metric === undefined || value === undefined ? [] : [{ metric, contender: contender.name, round, value }]
      )
    })
  )
})
