import { Clock, Duration, Effect, Layer } from "effect"
import { ShardId, Sharding, ShardingConfig } from "effect/cluster"
import { ClusterHealth } from "../../application/ports/runtime/ClusterHealth.ts"

/** A member that has lost its shards, as all do with the store, has them back by then. */
const patience = Duration.toMillis("30 seconds")

/** A member has shards: it holds their locks in the store, and their turns come to it. */
export const layer = Layer.effect(
  ClusterHealth,
  Effect.gen(function* () {
    const sharding = yield* Sharding.Sharding
    const { assignedShardGroups, shardsPerGroup } = yield* ShardingConfig.ShardingConfig
    const shards = assignedShardGroups.flatMap((group) =>
      Array.from({ length: shardsPerGroup }, (_, index) => ShardId.make(group, index + 1))
    )
    /** Since when it has none, by those who asked. Epoch milliseconds. */
    let without = -Infinity
    return ClusterHealth.of({
      isMember: Effect.gen(function* () {
        if (yield* sharding.isShutdown) return false
        if (shards.some((shard) => sharding.hasShardId(shard))) {
          without = Infinity
          return true
        }
        const now = yield* Clock.currentTimeMillis
        without = Math.min(without, now)
        return now - without < patience
      })
    })
  })
)
