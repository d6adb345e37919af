import { Layer } from "effect"
import * as InMemoryLive from "../../../src/adapters/inmemory/InMemoryLive.ts"
import * as TurnRunnerInMemory from "../../../src/adapters/inmemory/TurnRunnerInMemory.ts"
import { turnRunnerSuite } from "../../conformance/TurnRunner.ts"

turnRunnerSuite("TurnRunner in memory", Layer.merge(TurnRunnerInMemory.layer, InMemoryLive.layer))
