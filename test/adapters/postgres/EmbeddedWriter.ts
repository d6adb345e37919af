import { NodeServices } from "@effect/platform-node"
import { Effect, Layer, Option } from "effect"
import * as SecretsLive from "../../../src/adapters/crypto/SecretsLive.ts"
import * as PostgresLive from "../../../src/adapters/postgres/PostgresLive.ts"
import { Ledger } from "../../../src/application/ports/storage/Ledger.ts"
import { Organizations } from "../../../src/application/ports/storage/Organizations.ts"
import { nanoUsd } from "../../../src/domain/shared/Money.ts"
import { organization } from "../../conformance/Samples.ts"

/**
 * Opens the embedded store in the directory it is given and grants the organization `acme` 1 nano-USD again and again,
 * eight grants at once; says `granted` after each that was acknowledged. It never ends by itself.
 */
const [directory = ""] = process.argv.slice(2)

await Effect.gen(function* () {
  const organizations = yield* Organizations
  const ledger = yield* Ledger
  const found = yield* organizations.findByName("acme")
  const acme = Option.getOrElse(found, () => organization({ name: "acme" }))
  if (Option.isNone(found)) yield* organizations.insert(acme)
  const grant = Effect.tap(ledger.grant(acme.id, nanoUsd(1n), "one more"), () =>
    Effect.sync(() => console.log("granted"))
  )
  yield* Effect.all(
    Array.from({ length: 8 }, () => Effect.forever(grant)),
    { concurrency: "unbounded" }
  )
}).pipe(
  Effect.provide(
    PostgresLive.layerEmbedded(directory).pipe(Layer.provide([NodeServices.layer, SecretsLive.layerNone]))
  ),
  Effect.runPromise
)
