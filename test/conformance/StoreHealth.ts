import { assert, layer } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import { StoreHealth } from "../../src/application/ports/storage/StoreHealth.ts"

/** What every store says of itself while it is there. */
export const storeHealthSuite = (name: string, store: Layer.Layer<StoreHealth, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("is reachable", () =>
      Effect.gen(function* () {
        assert.isTrue(yield* (yield* StoreHealth).isReachable)
      })
    )
  })
