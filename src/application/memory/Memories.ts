import { Context, Effect, Layer, Option, Schema } from "effect"
import {
  changed,
  contentsOf,
  type Memory,
  type MemoryChanges,
  type MemoryFilter,
  MemoryId,
  type NewMemory
} from "../../domain/memory/Memory.ts"
import { MemoryNotFound, type MetadataTooLarge } from "../../domain/memory/MemoryErrors.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { NanoIds } from "../ports/runtime/NanoIds.ts"
import { MemoryStore } from "../ports/storage/MemoryStore.ts"

/** What a workspace remembers (section 4.5). Another workspace's memories are not found. */
export class Memories extends Context.Service<
  Memories,
  {
    readonly create: (workspace: OrganizationId, memory: NewMemory) => Effect.Effect<Memory>
    readonly find: (workspace: OrganizationId, id: string) => Effect.Effect<Memory, MemoryNotFound>
    readonly update: (
      workspace: OrganizationId,
      id: string,
      changes: MemoryChanges
    ) => Effect.Effect<Memory, MemoryNotFound | MetadataTooLarge>
    readonly remove: (workspace: OrganizationId, id: string) => Effect.Effect<void, MemoryNotFound>
    /** The last changed first. */
    readonly list: MemoryStore["Service"]["list"]
    readonly count: (workspace: OrganizationId, filter: MemoryFilter) => Effect.Effect<number>
  }
>()("gateway/memory/Memories") {
  static readonly layer = Layer.effect(
    Memories,
    Effect.gen(function* () {
      const store = yield* MemoryStore
      const ids = yield* NanoIds

      const create = Effect.fn("Memories.create")(function* (workspace: OrganizationId, memory: NewMemory) {
        return yield* store.insert(workspace, MemoryId.make(yield* ids.next), contentsOf(memory))
      })

      const find = Effect.fn("Memories.find")(function* (workspace: OrganizationId, given: string) {
        const id = yield* idOf(given)
        return yield* foundOr(id, yield* store.find(workspace, id))
      })

      const update = Effect.fn("Memories.update")(function* (
        workspace: OrganizationId,
        given: string,
        changes: MemoryChanges
      ) {
        const id = yield* idOf(given)
        return yield* foundOr(id, yield* store.update(workspace, id, (memory) => changed(memory, changes)))
      })

      const remove = Effect.fn("Memories.remove")(function* (workspace: OrganizationId, given: string) {
        const id = yield* idOf(given)
        if (!(yield* store.remove(workspace, id))) return yield* new MemoryNotFound({ id })
      })

      return Memories.of({
        create,
        find,
        update,
        remove,
        list: Effect.fn("Memories.list")(store.list),
        count: Effect.fn("Memories.count")(store.count)
      })
    })
  )
}

const isId = Schema.is(MemoryId)

/** What cannot be an id is nobody's. */
const idOf = (id: string): Effect.Effect<MemoryId, MemoryNotFound> =>
  isId(id) ? Effect.succeed(id) : Effect.fail(new MemoryNotFound({ id }))

const foundOr = (id: MemoryId, found: Option.Option<Memory>): Effect.Effect<Memory, MemoryNotFound> =>
  Option.match(found, { onNone: () => Effect.fail(new MemoryNotFound({ id })), onSome: Effect.succeed })
