import { Effect, Option, Schema } from "effect"
import { type Blob, BlobId, blobUri } from "../../domain/resource/Blob.ts"
import type { Resource } from "../../domain/resource/Resource.ts"
import { partOfBytes, type ResourceContent } from "../../domain/resource/ResourceContent.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import type { ResourcePlace, ResourceProvider } from "./ResourceProvider.ts"

/**
 * A workspace's blobs. They are listed when the agent's configuration has blob resources; by its address each can be
 * read in any case, since prompts and messages name theirs.
 */
export const blobResources = Effect.gen(function* () {
  const blobs = yield* Blobs

  const find = Effect.fnUntraced(function* ({ workspace }: ResourcePlace, uri: string) {
    const id = idOf(uri)
    return Option.isNone(id) ? Option.none<Blob>() : yield* blobs.find(workspace, id.value)
  })

  const read = Effect.fnUntraced(function* (place: ResourcePlace, uri: string) {
    const blob = yield* find(place, uri)
    if (Option.isNone(blob)) return Option.none<ResourceContent>()
    const bytes = yield* blobs.read(place.workspace, blob.value.id)
    return Option.map(bytes, (bytes) => ({
      parts: [
        partOfBytes({ uri, name: nameOf(blob.value), mimeType: blob.value.mimeType, bytes, size: blob.value.size })
      ]
    }))
  })

  const provider: ResourceProvider = {
    scheme: "blob",
    list: ({ agent, workspace }) =>
      agent?.config.blobResources === true
        ? Effect.map(blobs.list(workspace), (found) => found.map(resourceOf))
        : Effect.succeed([]),
    exists: (place, uri) => Effect.map(find(place, uri), Option.isSome),
    read
  }
  return provider
})

const resourceOf = (blob: Blob): Resource => ({
  uri: blobUri(blob.id),
  name: nameOf(blob),
  mimeType: blob.mimeType,
  source: "internal",
  size: blob.size,
  lastModified: new Date(blob.createdAt).toISOString()
})

const nameOf = ({ filename, id }: Blob): string => filename ?? blobUri(id)

const isBlobId = Schema.is(BlobId)

const idOf = (uri: string): Option.Option<BlobId> => {
  const id = uri.slice("blob:".length)
  return isBlobId(id) ? Option.some(id) : Option.none()
}
