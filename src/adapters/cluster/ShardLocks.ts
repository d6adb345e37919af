import { Clock, Duration, Effect, Layer } from "effect"
import { RunnerStorage, type ShardId, ShardingConfig, SqlRunnerStorage } from "effect/cluster"

/** Of the time between two looks at all locks: so old the last one may be. Less than all, so that a look is always one. */
const tolerance = 0.9

/**
 * Who has which shard, in the store. Before the end of a turn is stored, the library looks once more whether its shard is
 * still here, and gives a sign of life: two statements, of which one waits for the disk, for every turn. By then the end
 * is in the turn's journal, and whoever else takes it up finds it there. So what the last look at all shards has found
 * is enough.
 */
export const layer = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.gen(function* () {
    const storage = yield* RunnerStorage.RunnerStorage
    const { shardLockRefreshInterval } = yield* ShardingConfig.ShardingConfig
    const valid = Duration.toMillis(shardLockRefreshInterval) * tolerance

    let held: ReadonlySet<ShardId.ShardId> = new Set()
    let heldAt = -Infinity

    const refresh: typeof storage.refresh = Effect.fnUntraced(function* (address, shards) {
      const asked = [...shards]
      const [only] = asked
      const now = yield* Clock.currentTimeMillis
      if (asked.length === 1 && only !== undefined && held.has(only) && now - heldAt < valid) return [only]
      const found = yield* Effect.onError(storage.refresh(address, asked), () =>
        Effect.sync(() => {
          heldAt = -Infinity
        })
      )
      if (asked.length > 1) {
        held = new Set(found)
        heldAt = now
      }
      return found
    })

    return RunnerStorage.RunnerStorage.of({ ...storage, refresh })
  })
).pipe(Layer.provide(SqlRunnerStorage.layerStorage({})))
