import { Layer } from "effect"
import * as ClusterLive from "../../../src/adapters/cluster/ClusterLive.ts"
import { turnRunnerSuite } from "../../conformance/TurnRunner.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onPglite, onServer, temporaryDirectory } from "../postgres/Stores.ts"

turnRunnerSuite(
  "TurnRunner on a server",
  Layer.provideMerge(ClusterLive.layerServer({ host: "127.0.0.1", port: 0 }), onServer(await freshDatabase("turns")))
)

turnRunnerSuite(
  "TurnRunner on PGlite",
  Layer.provideMerge(ClusterLive.layerEmbedded, onPglite(await temporaryDirectory()))
)
