import { Context, type Effect } from "effect"

/** Whether this process is one of those that run turns (decisions 9). */
export class ClusterHealth extends Context.Service<
  ClusterHealth,
  {
    /** False until it has joined, once it has left, and when it was put out of the cluster and does not get back in. */
    readonly isMember: Effect.Effect<boolean>
  }
>()("gateway/ports/runtime/ClusterHealth") {}
