import { Effect, FileSystem } from "effect"
import { fileURLToPath } from "node:url"
import { contenderNames } from "../contenders/Contender.ts"
import type { MachineFacts } from "../machine/MachineFacts.ts"
import { type Measurement, mediansOf, type Metric, metrics } from "./Measurement.ts"
import { verdicts } from "./Targets.ts"

export interface Run {
  readonly startedAt: string
  readonly machine: MachineFacts
  readonly loadGenerator: string
  readonly seconds: number
  readonly rounds: number
  readonly cells: ReadonlyArray<string>
  /** Contenders and cells that could not run, each with why. */
  readonly leftOut: ReadonlyArray<string>
  readonly measurements: ReadonlyArray<Measurement>
}

const folder = fileURLToPath(new URL("../results", import.meta.url))

const summary = (measurements: ReadonlyArray<Measurement>) => {
  const of = mediansOf(measurements)
  return (Object.keys(metrics) as Array<Metric>).flatMap((metric) => {
    const nginx = of(metric, "nginx")
    return contenderNames.flatMap((contender) => {
      const value = of(metric, contender)
      if (value === undefined) return []
      return [{ metric, contender, median: value, ...(nginx ? { toNginx: value / nginx } : {}) }]
    })
  })
}

/** Writes the run with every round's figures; gives the file's path. */
export const writeResults = Effect.fn("writeResults")(function* (run: Run) {
  const files = yield* FileSystem.FileSystem
  yield* files.makeDirectory(folder, { recursive: true })
  const file = `${folder}/${run.startedAt.replaceAll(":", "-")}.json`
  const targets = verdicts(mediansOf(run.measurements)).map((verdict) => ({ ...verdict, met: verdict.met ?? null }))
  yield* files.writeFileString(
    file,
    JSON.stringify({ ...run, medians: summary(run.measurements), targets }, null, 2) + "\n"
  )
  return file
})
