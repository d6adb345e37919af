import { Context, type Effect, type Option } from "effect"
import type { Blob, BlobId } from "../../../domain/resource/Blob.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"

/**
 * The blobs of workspaces: bytes by their digest, each kept as long as something refers to it. An owner is whatever
 * refers to blobs, such as `prompt:<name>` or `session:<id>`; when the last one lets go, the blob is gone. Equal bytes
 * of two workspaces are two blobs: whether another one has them cannot be learned.
 */
export class Blobs extends Context.Service<
  Blobs,
  {
    /** Stores the bytes unless they are there, and refers to them. The first one's type and file name stay. */
    readonly put: (
      workspace: OrganizationId,
      owner: string,
      content: { readonly bytes: Uint8Array; readonly mimeType: string; readonly filename?: string }
    ) => Effect.Effect<Blob>
    readonly find: (workspace: OrganizationId, id: BlobId) => Effect.Effect<Option.Option<Blob>>
    readonly read: (workspace: OrganizationId, id: BlobId) => Effect.Effect<Option.Option<Uint8Array>>
    /** Newest first. */
    readonly list: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Blob>>
    /** The owner refers to nothing any more. */
    readonly release: (workspace: OrganizationId, owner: string) => Effect.Effect<void>
  }
>()("gateway/ports/storage/Blobs") {}
