import { assert, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as ClusterLive from "../../../src/adapters/cluster/ClusterLive.ts"
import { prune } from "../../../src/adapters/cluster/EndedTurns.ts"
import { TurnRunner } from "../../../src/application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../../src/application/ports/storage/TurnJournal.ts"
import type { TurnRef } from "../../../src/domain/conversation/Turn.ts"
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
        onServer(await freshDatabase("ended-turns"))
      )
    )
  },
  {
    store: "PGlite",
    live: Layer.orDie(Layer.provideMerge(ClusterLive.layerEmbedded, onPglite(await temporaryDirectory())))
  }
]

it.live.each(stores)(
  "forgets the messages of turns that ended long ago, on $store",
  ({ live }) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const journal = yield* TurnJournal
      const runner = yield* TurnRunner
      const bodies = yield* Bodies
      const workspace = yield* account()

      const started = Effect.fnUntraced(function* (run: (turn: TurnRef) => Effect.Effect<void>) {
        const turn = turnIn(workspace, sessionId())
        yield* journal.submit(turn, submission("Hello"))
        // One that does not end in the journal would be started again after some seconds.
        bodies.set(turn.turn, (turn) => Effect.andThen(run(turn), journal.finish(turn, "completed", {})))
        yield* runner.start(turn)
        return turn
      })
      const rows = Effect.map(
        sql<{ readonly messages: number; readonly replies: number }>`
        SELECT (SELECT count(*)::int FROM cluster_messages) AS messages,
          (SELECT count(*)::int FROM cluster_replies) AS replies`,
        ([counted]) => counted
      )
      const all = prune(Duration.zero, 10)
      const twice = Effect.all([all, all], { concurrency: "unbounded", discard: true })
      const eventually = Effect.fnUntraced(function* (
        messages: number,
        replies: number,
        first: typeof twice | Effect.Effect<void> = Effect.void
      ) {
        for (const until = performance.now() + 30_000; performance.now() < until; yield* Effect.sleep("20 millis")) {
          yield* first
          const counted = yield* rows
          if (counted?.messages === messages && counted.replies === replies) return
        }
        assert.deepStrictEqual(yield* rows, { messages, replies })
      })

      const goOn = yield* Deferred.make<void>()
      const ended = yield* Deferred.make<void>()
      yield* started(() => Effect.andThen(Deferred.await(goOn), Effect.asVoid(Deferred.succeed(ended, undefined))))
      // More than are deleted at a time.
      const [early = assert.fail("Nothing was started.")] = yield* Effect.all(
        Array.from({ length: 31 }, () => started(() => Effect.void)),
        { concurrency: 10 }
      )
      yield* eventually(32, 31)
      yield* prune(Duration.minutes(10))
      yield* eventually(32, 31)
      yield* eventually(1, 0, twice)

      // Turns that took seconds are started by more than one, and a start may come when the first is forgotten.
      yield* runner.start(early)
      yield* eventually(1, 0, twice)

      // The one that ran meanwhile ends like any other.
      yield* Deferred.succeed(goOn, undefined)
      yield* Deferred.await(ended)
      yield* eventually(0, 0, twice)
    }).pipe(Effect.provide(Layer.provideMerge(live, scripted))),
  60_000
)
