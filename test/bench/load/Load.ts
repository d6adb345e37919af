import { Context, Effect, Layer } from "effect"
import { findProgram } from "../machine/FindProgram.ts"
import { runAutocannon } from "./Autocannon.ts"
import type { LoadSpec } from "./LoadGenerator.ts"
import { runWrk } from "./Wrk.ts"

const select = Effect.gen(function* () {
  const wrk = yield* findProgram("wrk")
  return wrk === undefined ? { name: "autocannon", run: runAutocannon } : { name: "wrk", run: runWrk(wrk) }
})

/** The one load generator of a run. */
export class Load extends Context.Service<
  Load,
  {
    readonly name: string
    readonly run: (spec: LoadSpec) => ReturnType<typeof runAutocannon> | ReturnType<ReturnType<typeof runWrk>>
  }
>()("bench/Load") {
  static readonly layer = Layer.effect(Load, select)
}
