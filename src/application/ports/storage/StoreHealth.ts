import { Context, type Effect } from "effect"

/** Whether the store answers right now. Bounded in time: at most two seconds. */
export class StoreHealth extends Context.Service<StoreHealth, { readonly isReachable: Effect.Effect<boolean> }>()(
  "gateway/ports/storage/StoreHealth"
) {}
