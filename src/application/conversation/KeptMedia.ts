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
    /** Gives the blob's address; undefined for what is empty, or too large to be kept. */
    readonly keep: (workspace: OrganizationId, session: SessionId, medium: Medium) => Effect.Effect<string | undefined>
    /** The part of a message that shows it; undefined for what messages cannot have, of which nothing is kept. */
    readonly part: (
      workspace: OrganizationId,
      session: SessionId,
      medium: Medium
    ) => Effect.Effect<ContentPart | undefined>
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
        const { id } = yield* blobs.put(workspace, blobOwner(session), {
          bytes,
          mimeType: isType.test(mimeType) ? mimeType : "application/octet-stream",
          ...(filename === undefined ? {} : { filename: printable(filename) })
        })
        return blobUri(id)
      })

      const part = Effect.fnUntraced(function* (workspace: OrganizationId, session: SessionId, medium: Medium) {
        const mimeType = typeOfBytes(medium.bytes)
        if (mimeType === undefined) return undefined
        const uri = yield* keep(workspace, session, { ...medium, mimeType })
        return uri === undefined ? undefined : partOf(uri, mimeType, medium.filename)
      })

      return KeptMedia.of({ keep, part })
    })
  )
}

export interface Medium {
  readonly bytes: Uint8Array
  /** As whoever has it calls it. */
  readonly mimeType: string
  readonly filename?: string | undefined
}

/** A part of a message that names a blob. */
export const partOf = (uri: string, mimeType: string, filename: string | undefined): ContentPart =>
  imageTypes.includes(mimeType)
    ? { type: "image", image: uri, mimeType }
    : { type: "file", data: uri, mimeType, ...(filename === undefined ? {} : { filename: printable(filename) }) }

/** Servers write there what they like. */
const isType = /^(?=.{1,255}$)[\w.+-]+\/[\w.+-]+(?: *; *[\w=.+-]+)*$/

/** Characters of a file's name. */
const longestName = 255

/** A name is a name, and no path; it ends up in requests, lists and logs. */
export const printable = (filename: string): string =>
  filename
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, " ")
    .slice(-longestName)
    .toWellFormed()
