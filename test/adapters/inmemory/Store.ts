import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as InMemoryLive from "../../../src/adapters/inmemory/InMemoryLive.ts"
import { State } from "../../../src/adapters/inmemory/State.ts"
import { StoreProbe } from "../../conformance/StoreProbe.ts"

const Probe = Layer.effect(
  StoreProbe,
  Effect.map(State, ({ accounts }) =>
    StoreProbe.of({
      pass: TestClock.adjust,
      entries: (organization) => Effect.sync(() => [...(accounts.get(organization)?.entries ?? [])])
    })
  )
)

/** The in-memory stores, and a clock that only the probe moves. */
export const store = Probe.pipe(Layer.provideMerge(InMemoryLive.layer), Layer.provideMerge(TestClock.layer()))
