import { Effect, Layer } from "effect"
import { StoreHealth } from "../../application/ports/storage/StoreHealth.ts"

export const layer = Layer.succeed(StoreHealth, { isReachable: Effect.succeed(true) })
