import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as ClusterLive from "../../../src/adapters/cluster/ClusterLive.ts"
import { TurnRunner } from "../../../src/application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../../src/application/ports/storage/TurnJournal.ts"
import { sessionId, submission, turnIn } from "../../conformance/Conversation.ts"
import { account } from "../../conformance/Samples.ts"
import { Bodies, scripted } from "../../conformance/TurnRunner.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onPglite, onServer, temporaryDirectory } from "../postgres/Stores.ts"

const stores = [
  {
    store: "a server",
    live: Layer.orDie(
      Layer.provideMerge(
        ClusterLive.layerServer({ host: "127.0.0.1", port: 0 }),
        onServer(await freshDatabase("forgotten-starts"))
      )
    )
  },
  {
    store: "PGlite",
    live: Layer.orDie(Layer.provideMerge(ClusterLive.layerEmbedded, onPglite(await temporaryDirectory())))
  }
]

it.live.each(stores)("a turn whose start was forgotten does not run beside itself, on $store", ({ live }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const runner = yield* TurnRunner
    const turn = turnIn(yield* account(), sessionId())
    yield* (yield* TurnJournal).submit(turn, submission("Hello"))
    const began = yield* Deferred.make<void>()
    const goOn = yield* Deferred.make<void>()
    const again = yield* Deferred.make<void>()
    let runs = 0
    let atOnce = 0
    ;(yield* Bodies).set(turn.turn, () =>
      Effect.gen(function* () {
        runs++
        assert.strictEqual(++atOnce, 1)
        yield* Deferred.succeed(runs === 1 ? began : again, undefined)
        yield* Deferred.await(goOn)
        atOnce--
        return Option.none()
      })
    )
    yield* runner.start(turn)
    yield* Deferred.await(began)

    // As after a crash of the server: commits of this table do not wait for the disk.
    yield* sql`DELETE FROM cluster_messages`
    yield* runner.start(turn)
    yield* Effect.sleep("1 second")
    assert.strictEqual(runs, 1)

    yield* Deferred.succeed(goOn, undefined)
    yield* Effect.timeout(Deferred.await(again), "10 seconds")
    assert.strictEqual(runs, 2)
  }).pipe(Effect.provide(Layer.provideMerge(live, scripted)))
)

it.live.each(stores)(
  "no commit of the cluster's rows waits for the disk, and every other does, on $store",
  ({ live }) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const setting = Effect.map(
        sql<{ readonly setting: string }>`SELECT current_setting('synchronous_commit') AS setting`,
        ([row]) => row?.setting
      )
      assert.strictEqual(yield* setting, "on")
      for (const table of ["cluster_messages", "cluster_replies"]) {
        const within = yield* sql.withTransaction(Effect.andThen(sql`DELETE FROM ${sql(table)} WHERE false`, setting))
        assert.strictEqual(within, "off")
        assert.strictEqual(yield* setting, "on")
      }
    }).pipe(Effect.provide(Layer.provideMerge(live, scripted)))
)
