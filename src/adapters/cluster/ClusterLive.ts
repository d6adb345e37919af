import { Duration, Effect, Layer, Option } from "effect"
import {
  ClusterWorkflowEngine,
  RunnerAddress,
  RunnerHealth,
  Runners,
  RunnerStorage,
  Sharding,
  ShardingConfig,
  SocketRunner,
  SqlRunnerStorage
} from "effect/cluster"
import { NetAddress } from "effect/net"
import { RpcSerialization } from "effect/rpc"
import { SocketServer } from "effect/socket"
import * as EndedTurns from "./EndedTurns.ts"
import * as Membership from "./Membership.ts"
import * as Quiet from "./Quiet.ts"
import * as RunnerSockets from "./RunnerSockets.ts"
import * as ShardLocks from "./ShardLocks.ts"
import * as TurnMessages from "./TurnMessages.ts"
import * as TurnRunnerCluster from "./TurnRunnerCluster.ts"
import * as UnstartedTurns from "./UnstartedTurns.ts"

/**
 * How a cluster notices things. The turns of a replica that died go on within 10 s: its heartbeat is over after 6 s, and
 * the others look for it every second.
 */
const timing = {
  shardLockExpiration: Duration.seconds(6),
  shardLockRefreshInterval: Duration.seconds(2),
  refreshAssignmentsInterval: Duration.seconds(1),
  // What a lost message costs at most; those that arrive are read at once.
  entityMessagePollInterval: Duration.seconds(2),
  // A turn that has to leave is run again elsewhere: nothing is gained by waiting for its end.
  entityTerminationTimeout: Duration.seconds(1),
  // Each costs a statement when it changes hands, and a process has a few of them at least.
  shardsPerGroup: 64,
  // Turns that wait for a person stay where they are. They must not keep others from beginning.
  maxResidentEntities: "unbounded" as const,
  simulateRemoteSerialization: false
}

/** Turns on a cluster, whose own layers are given. */
const turnsOn = <A, E, R>(cluster: Layer.Layer<A, E, R>) =>
  Layer.mergeAll(UnstartedTurns.layer, EndedTurns.layer, Membership.layer).pipe(
    Layer.provideMerge(TurnRunnerCluster.layer),
    Layer.provide(ClusterWorkflowEngine.layer.pipe(Layer.provideMerge(cluster), Layer.provide(Quiet.layer))),
    Layer.provide(migrations)
  )

/** The tables of the cluster. Any number of processes may bring them up to date at once. */
export const migrations = Layer.merge(TurnMessages.migrations, SqlRunnerStorage.layerMigrations({}))

/** One process with its own store. Nobody can reach it: it opens no port. */
export const layerEmbedded = turnsOn(
  Sharding.layer.pipe(
    Layer.provide(Runners.layerNoop),
    Layer.provideMerge(TurnMessages.layer),
    Layer.provide([RunnerStorage.layerMemory, RunnerHealth.layerNoop]),
    Layer.provideMerge(ShardingConfig.layer(timing))
  )
)

export interface ClusterOptions {
  /**
   * Where the other replicas reach this one, and the only address it listens at: of a private network. Whoever does not
   * know the key in the store is turned away, see `RunnerSockets`, but has no business there.
   */
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
}

/**
 * Any number of processes on one Postgres. What they have to do for each other is there, and who is alive; over their
 * sockets they only tell each other sooner. So a socket that cannot be reached costs two seconds, not a turn.
 */
export const layerServer = ({ host, port }: ClusterOptions) =>
  turnsOn(
    SocketRunner.layer.pipe(
      Layer.provideMerge(TurnMessages.layer),
      Layer.provide([ShardLocks.layer, RunnerHealth.layerNoop, RunnerSockets.client]),
      Layer.provideMerge(
        Layer.unwrap(
          Effect.map(SocketServer.SocketServer, ({ address }) =>
            ShardingConfig.layer({
              ...timing,
              runnerAddress: Option.some(
                RunnerAddress.make(host, NetAddress.isInetAddress(address) ? address.port : port)
              )
            })
          )
        )
      ),
      Layer.provide(RunnerSockets.server({ host, port })),
      Layer.provide(RpcSerialization.layerSchemaBinary())
    )
  )
