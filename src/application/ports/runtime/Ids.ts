import { Context, type Effect } from "effect"

/** New identifiers: unguessable, sortable by the time of their making. A port, so that a test can give known ones. */
export class Ids extends Context.Service<Ids, { readonly next: Effect.Effect<string> }>()(
  "gateway/ports/runtime/Ids"
) {}
