import { Array, Clock, Effect, Layer, Option, Order } from "effect"
import { Blobs } from "../../application/ports/storage/Blobs.ts"
import { type Blob, type BlobId, blobIdOf } from "../../domain/resource/Blob.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

interface Entry {
  readonly blob: Blob
  readonly bytes: Uint8Array
  readonly owners: Set<string>
}

const newestFirst = Order.combine(
  Order.flip(Order.mapInput(Order.Number, ({ createdAt }: Blob) => createdAt)),
  Order.mapInput(Order.String, ({ id }: Blob) => id)
)

export const layer = Layer.effect(
  Blobs,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, Map<BlobId, Entry>>()

    const find = (workspace: OrganizationId, id: BlobId) => Option.fromUndefinedOr(stored.get(workspace)?.get(id))

    return Blobs.of({
      put: Effect.fnUntraced(function* (workspace, owner, { bytes, filename, mimeType }) {
        if (!organizations.has(workspace)) return yield* Effect.die(new Error(`no organization ${workspace}`))
        const id = yield* blobIdOf(bytes)
        const createdAt = yield* Clock.currentTimeMillis
        const own = stored.get(workspace) ?? new Map<BlobId, Entry>()
        stored.set(workspace, own)
        const entry = own.get(id) ?? {
          blob: { id, mimeType, ...(filename === undefined ? {} : { filename }), size: bytes.length, createdAt },
          bytes: bytes.slice(),
          owners: new Set()
        }
        own.set(id, entry)
        entry.owners.add(owner)
        return entry.blob
      }),
      find: (workspace, id) => Effect.sync(() => Option.map(find(workspace, id), ({ blob }) => blob)),
      read: (workspace, id) => Effect.sync(() => Option.map(find(workspace, id), ({ bytes }) => bytes.slice())),
      list: (workspace) =>
        Effect.sync(() =>
          Array.sort(
            Array.map([...(stored.get(workspace)?.values() ?? [])], ({ blob }) => blob),
            newestFirst
          )
        ),
      release: (workspace, owner) =>
        Effect.sync(() => {
          for (const [id, { owners }] of stored.get(workspace) ?? []) {
            if (owners.delete(owner) && owners.size === 0) stored.get(workspace)?.delete(id)
          }
        })
    })
  })
)
