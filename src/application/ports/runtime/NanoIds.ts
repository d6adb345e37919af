import { Context, type Effect } from "effect"

/** Short unguessable identifiers for what people name in addresses: 21 characters of `A-Za-z0-9_-` (decisions 8). */
export class NanoIds extends Context.Service<NanoIds, { readonly next: Effect.Effect<string> }>()(
  "gateway/ports/runtime/NanoIds"
) {}
