import { Effect } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { firstBytes } from "../load/FirstByte.ts"
import { median } from "../report/Measurement.ts"
import { alternate, type Bounds } from "./Rounds.ts"

/** One connection asks for one short stream after the other; 64 keep paced streams open, so that most are mid-way. */
const loads = {
  "first-byte-1": { model: "bench-burst", streams: 1 },
  "first-byte-64": { model: "bench-paced", streams: 64 }
} as const

export const firstByte = (metric: keyof typeof loads, contenders: ReadonlyArray<Contender>, bounds: Bounds) =>
  alternate(metric, contenders, bounds.rounds, (contender, round) =>
    firstBytes(contender, loads[metric].model, loads[metric].streams, bounds.seconds).pipe(
      Effect.timeout(`${bounds.seconds + 20} seconds`),
      Effect.map((samples) => {
        const value = median(samples)
        return value === undefined ? [] : [{ metric, contender: contender.name, round, value }]
      })
    )
  )
