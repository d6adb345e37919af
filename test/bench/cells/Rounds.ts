import { Console, Effect } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import type { Measurement } from "../report/Measurement.ts"
import { orNote } from "../report/Notes.ts"

export interface Bounds {
  readonly seconds: number
  readonly rounds: number
}

/** The order of a round: each starts with another contender, so that none always follows the same one. */
const rotated = <A>(items: ReadonlyArray<A>, by: number) => {
  const start = items.length === 0 ? 0 : by % items.length
  return [...items.slice(start), ...items.slice(0, start)]
}

/** Measures every contender once per round, one at a time. A contender that fails in a round has no figure there. */
export const alternate = Effect.fn("alternate")(function* <E extends { readonly message: string }, R>(
  cell: string,
  contenders: ReadonlyArray<Contender>,
  rounds: number,
  measure: (contender: Contender, round: number) => Effect.Effect<ReadonlyArray<Measurement>, E, R>
) {
  const all: Array<Measurement> = []
  for (let round = 1; round <= rounds; round++) {
    yield* Console.error(`${cell}: round ${round} of ${rounds}`)
    for (const contender of rotated(contenders, round - 1)) {
      const figures = yield* orNote(`${cell}, ${contender.name}, round ${round}`, measure(contender, round))
      all.push(...(figures ?? []))
    }
  }
  return all
})
