import { Effect } from "effect"
import { serve } from "../contenders/Gateway.ts"
import type { Measurement } from "../report/Measurement.ts"
import type { Bounds } from "./Rounds.ts"

/** From the spawn to a ready service on a database that is migrated already, as a replica that joins finds it. */
export const startToReady = Effect.fn("startToReady")(function* (
  environment: Record<string, string>,
  { rounds }: Bounds
) {
  const measurements: Array<Measurement> = []
  for (let round = 1; round <= rounds; round++) {
    const { startMillis } = yield* Effect.scoped(serve(`gateway-start-${round}`, environment))
    measurements.push({ metric: "start", contender: "gateway", round, value: startMillis })
  }
  return measurements
})
