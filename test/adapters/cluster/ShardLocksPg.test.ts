import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Runner, RunnerAddress, RunnerStorage, ShardId, ShardingConfig } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as ClusterLive from "../../../src/adapters/cluster/ClusterLive.ts"
import * as ShardLocks from "../../../src/adapters/cluster/ShardLocks.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "../postgres/Stores.ts"

const store = Layer.orDie(
  ShardLocks.layer.pipe(
    Layer.provide(ShardingConfig.layer({ shardLockRefreshInterval: "2 seconds" })),
    Layer.provideMerge(Layer.provideMerge(ClusterLive.migrations, onServer(await freshDatabase("shard-locks"))))
  )
)

it.effect("asks for one shard of several only when all have not been looked at for long", () =>
  Effect.gen(function* () {
    const { acquire, refresh, register, release } = yield* RunnerStorage.RunnerStorage
    const sql = yield* SqlClient.SqlClient
    const address = RunnerAddress.make("127.0.0.1", 1)
    const shards = [ShardId.make("default", 1), ShardId.make("default", 2), ShardId.make("default", 3)] as const
    const [one, two, three] = shards
    const signOfLife = Effect.map(
      sql<{ readonly at: string }>`SELECT last_heartbeat::text AS at FROM cluster_runners`,
      ([row]) => row?.at
    )

    yield* register(Runner.make({ address, groups: ["default"], weight: 1 }), true)
    assert.sameMembers(yield* acquire(address, shards), [one, two, three])
    assert.sameMembers(yield* refresh(address, shards), [one, two, three])
    const first = yield* signOfLife
    assert.deepStrictEqual(yield* refresh(address, [one]), [one])
    assert.strictEqual(yield* signOfLife, first)
    // One that it does not have is always asked for.
    assert.deepStrictEqual(yield* refresh(address, [ShardId.make("default", 9)]), [])
    const second = yield* signOfLife
    assert.notStrictEqual(second, first)

    yield* TestClock.adjust("3 seconds")
    assert.deepStrictEqual(yield* refresh(address, [one]), [one])
    const third = yield* signOfLife
    assert.notStrictEqual(third, second)

    // All that are left, at their time: not taken for a question about one of several.
    assert.sameMembers(yield* refresh(address, shards), [one, two, three])
    yield* release(address, one)
    yield* release(address, two)
    yield* TestClock.adjust("2 seconds")
    const fourth = yield* signOfLife
    assert.deepStrictEqual(yield* refresh(address, [three]), [three])
    assert.notStrictEqual(yield* signOfLife, fourth)
  }).pipe(Effect.provide(store))
)
