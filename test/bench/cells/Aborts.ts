import { Effect } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { abortDelays } from "../load/AbortProbe.ts"
import type { Measurement } from "../report/Measurement.ts"
import { alternate, type Bounds } from "./Rounds.ts"

const clientsEach = 25

/** Clients that leave in the middle of a stream and before its first byte, in equal parts. */
export const aborts = (contenders: ReadonlyArray<Contender>, upstream: Contender, { rounds }: Bounds) =>
  alternate("abort", contenders, rounds, (contender, round) =>
    abortDelays(contender, upstream, clientsEach, `round ${round}`).pipe(
      Effect.map((delays): ReadonlyArray<Measurement> => {
        const inTime = delays.filter((delay) => delay !== undefined && delay <= 1000)
        const slowest = delays.some((delay) => delay === undefined)
          ? []
          : [{ metric: "abort.slowest", value: Math.max(...delays.map((delay) => delay ?? 0)) } as const]
        return [{ metric: "abort.seen", value: (100 * inTime.length) / delays.length } as const, ...slowest].map(
          (figure) => ({ ...figure, contender: contender.name, round })
        )
      })
    )
  )
