import { Array, Clock, Effect, Layer, Option, Order } from "effect"
import { MemoryStore } from "../../application/ports/storage/MemoryStore.ts"
import { isPinned, type Memory, type MemoryFilter, type MemoryId, sourceOf } from "../../domain/memory/Memory.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

const lastChangedFirst = Order.combine(
  Order.flip(Order.mapInput(Order.Number, ({ updatedAt }: Memory) => updatedAt)),
  Order.mapInput(Order.String, ({ id }: Memory) => id)
)

export const layer = Layer.effect(
  MemoryStore,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, Map<MemoryId, Memory>>()

    const selected = (workspace: OrganizationId, filter: MemoryFilter): ReadonlyArray<Memory> =>
      Array.filter(stored.get(workspace)?.values() ?? [], matches(filter))

    return MemoryStore.of({
      insert: Effect.fnUntraced(function* (workspace, id, contents) {
        if (!organizations.has(workspace)) return yield* Effect.die(new Error(`no organization ${workspace}`))
        const now = yield* Clock.currentTimeMillis
        const memory = { id, ...contents, createdAt: now, updatedAt: now }
        const own = stored.get(workspace) ?? new Map<MemoryId, Memory>()
        stored.set(workspace, own.set(id, memory))
        return memory
      }),
      find: (workspace, id) => Effect.sync(() => Option.fromUndefinedOr(stored.get(workspace)?.get(id))),
      update: Effect.fnUntraced(function* (workspace, id, change) {
        const now = yield* Clock.currentTimeMillis
        const memory = stored.get(workspace)?.get(id)
        if (memory === undefined) return Option.none()
        const contents = yield* Effect.fromResult(change(memory))
        const after = { ...memory, ...contents, updatedAt: Math.max(memory.updatedAt + 1, now) }
        stored.get(workspace)?.set(id, after)
        return Option.some(after)
      }),
      remove: (workspace, id) => Effect.sync(() => stored.get(workspace)?.delete(id) ?? false),
      list: (workspace, filter, { limit, offset }) =>
        Effect.sync(() => Array.sort(selected(workspace, filter), lastChangedFirst).slice(offset, offset + limit)),
      count: (workspace, filter) => Effect.sync(() => selected(workspace, filter).length)
    })
  })
)

const matches =
  ({ pinned, source, tags }: MemoryFilter) =>
  (memory: Memory): boolean =>
    (tags.length === 0 || memory.tags.some((tag) => tags.includes(tag))) &&
    (source === undefined || sourceOf(memory.metadata) === source) &&
    (pinned === undefined || isPinned(memory.metadata) === pinned)
