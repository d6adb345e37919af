import { assert, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { startChild } from "../adapters/postgres/Child.ts"
import { onPglite, temporaryDirectory } from "../adapters/postgres/Stores.ts"
import { StoreProbe } from "../conformance/StoreProbe.ts"

const directory = await temporaryDirectory()

it.live(
  "keeps what the embedded store acknowledged before its process was killed",
  () =>
    Effect.gen(function* () {
      let acknowledged = 0n
      for (const until of [1, 40, 150]) {
        const writer = yield* startChild("EmbeddedWriter.ts", directory)
        for (let heard = 0; heard < until; heard++) assert.strictEqual(yield* writer.hear, "granted")
        yield* writer.kill
        acknowledged += BigInt(until)
        while ((yield* writer.hear) === "granted") acknowledged++
      }

      const { balance, entries } = yield* Effect.gen(function* () {
        const acme = Option.getOrThrow(yield* (yield* Organizations).findByName("acme"))
        const { balance } = yield* (yield* Ledger).credit(acme.id)
        return { balance, entries: yield* (yield* StoreProbe).entries(acme.id) }
      }).pipe(Effect.provide(onPglite(directory)))
      assert.isAtLeast(Number(balance), Number(acknowledged))
      // At most the eight that were on their way at each of the three ends.
      assert.isAtMost(Number(balance), Number(acknowledged) + 3 * 8)
      assert.strictEqual(
        entries.reduce((sum, { amount }) => sum + amount, 0n),
        balance
      )
    }),
  120_000
)
