import { Effect } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { abortDelays, type AbortWay, abortWays } from "../load/AbortProbe.ts"
import type { Measurement } from "../report/Measurement.ts"
import { alternate, type Bounds } from "./Rounds.ts"

const clients = 50

const percentInTime = (delays: ReadonlyArray<number | undefined>) =>
  (100 * delays.filter((delay) => delay !== undefined && delay <= 1000).length) / delays.length

/** Clients that leave in the middle of a stream, and clients that leave before its first byte. */
export const aborts = Effect.fn("aborts")(function* (
  contenders: ReadonlyArray<Contender>,
  upstream: Contender,
  { rounds }: Bounds
) {
  const measure = (way: AbortWay) => (contender: Contender, round: number) =>
    Effect.map(abortDelays(way, contender, upstream, clients), (delays): ReadonlyArray<Measurement> => {
      const seen = delays.filter((delay) => delay !== undefined)
      const figures = [
        ...(delays.length === 0 ? [] : [[way, percentInTime(delays)] as const]),
        ...(seen.length === 0 ? [] : [[`${way}.slowest`, Math.max(...seen)] as const])
      ]
      return figures.map(([metric, value]) => ({ metric, contender: contender.name, round, value }))
    })
  const all = yield* Effect.forEach(abortWays, (way) => alternate(way, contenders, rounds, measure(way)))
  return all.flat()
})
