import { Context, Effect, Layer } from "effect"
import { imageTypes, typeOfBytes } from "../../domain/conversation/MediaType.ts"
import type { ContentPart } from "../../domain/conversation/Message.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import { blobUri, largestBlob } from "../../domain/resource/Blob.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import { blobOwner } from "./SessionsOfWorkspace.ts"

/** What a session has that is no text, as blobs that go with it. */
export class KeptMedia extends Context.Service<
  KeptMedia,
  {
    /** Undefined if it is too large to be kept. */
    readonly keep: (
      workspace: OrganizationId,
      session: SessionId,
      medium: Medium
    ) => Effect.Effect<KeptMedium | undefined>
  }
>()("gateway/conversation/KeptMedia") {
  static readonly layer = Layer.effect(
    KeptMedia,
    Effect.gen(function* () {
      const blobs = yield* Blobs

      const keep = Effect.fn("KeptMedia.keep")(function* (
        workspace: OrganizationId,
        session: SessionId,
        { bytes, filename, mimeType }: Medium
      ) {
        if (bytes.length === 0 || bytes.length > largestBlob) return undefined
        const named = filename === undefined ? {} : { filename }
        const { id } = yield* blobs.put(workspace, blobOwner(session), { bytes, mimeType, ...named })
        const uri = blobUri(id)
        const seen = typeOfBytes(bytes)
        return { uri, part: seen === undefined ? undefined : partOf(uri, seen, filename) }
      })

      return KeptMedia.of({ keep })
    })
  )
}

export interface Medium {
  readonly bytes: Uint8Array
  readonly mimeType: string
  readonly filename?: string | undefined
}

export interface KeptMedium {
  /** The blob's address. */
  readonly uri: string
  /** For a message; undefined if its bytes are of no type that messages have. */
  readonly part: ContentPart | undefined
}

/** A part of a message that names a blob. */
export const partOf = (uri: string, mimeType: string, filename: string | undefined): ContentPart =>
  imageTypes.includes(mimeType)
    ? { type: "image", image: uri, mimeType }
    : { type: "file", data: uri, mimeType, ...(filename === undefined ? {} : { filename }) }
