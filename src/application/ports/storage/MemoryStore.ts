import { Context, type Effect, type Option, type Result } from "effect"
import type { Memory, MemoryContents, MemoryFilter, MemoryId } from "../../../domain/memory/Memory.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/** Where workspaces keep their memories. Their times are the store's. */
export class MemoryStore extends Context.Service<
  MemoryStore,
  {
    readonly insert: (workspace: OrganizationId, id: MemoryId, contents: MemoryContents) => Effect.Effect<Memory>
    readonly find: (workspace: OrganizationId, id: MemoryId) => Effect.Effect<Option.Option<Memory>>
    /**
     * Changes a memory while nobody else can: of two changes at once, the second sees what the first has done. A change
     * that fails leaves it as it is; none if there is no such memory.
     */
    readonly update: <E>(
      workspace: OrganizationId,
      id: MemoryId,
      change: (memory: Memory) => Result.Result<MemoryContents, E>
    ) => Effect.Effect<Option.Option<Memory>, E>
    /** Whether there was such a memory. */
    readonly remove: (workspace: OrganizationId, id: MemoryId) => Effect.Effect<boolean>
    /** The last changed first, and by id what was changed in the same millisecond. */
    readonly list: (
      workspace: OrganizationId,
      filter: MemoryFilter,
      page: { readonly limit: number; readonly offset: number }
    ) => Effect.Effect<ReadonlyArray<Memory>>
    readonly count: (workspace: OrganizationId, filter: MemoryFilter) => Effect.Effect<number>
  }
>()("gateway/ports/storage/MemoryStore") {}
