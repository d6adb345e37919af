import { Context, Effect, Layer, Option } from "effect"
import { fileTypes, imageTypes, typeOfBytes, usualType } from "../../domain/conversation/MediaType.ts"
import type { ContentPart } from "../../domain/conversation/Message.ts"
import type { SessionId } from "../../domain/conversation/Session.ts"
import { blobUri, largestBlob } from "../../domain/resource/Blob.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Blobs } from "../ports/storage/Blobs.ts"
import { partOf, printable } from "./KeptMedia.ts"
import { decode } from "./LongBase64.ts"
import { type ModelMedia, shows } from "./Media.ts"
import { blobOwner } from "./SessionsOfWorkspace.ts"
import { type Attachment, MessageRefused, type UserMessage } from "./UserMessage.ts"

/** What comes with a message (section 4.9, decisions 6): images, PDF and audio, kept as blobs of its session. */
export class Attachments extends Context.Service<
  Attachments,
  {
    /** Refuses what is no base64, too large, not what it says it is, or nothing that the model may be shown. */
    readonly check: (
      message: Pick<UserMessage, "image" | "file">,
      model: ModelMedia
    ) => Effect.Effect<ReadonlyArray<CheckedAttachment>, MessageRefused>
    /** Gives the parts of the message that name them. The session's removal or reset lets go of them. */
    readonly store: (
      workspace: OrganizationId,
      session: SessionId,
      attachments: ReadonlyArray<CheckedAttachment>
    ) => Effect.Effect<ReadonlyArray<ContentPart>>
  }
>()("gateway/conversation/Attachments") {
  static readonly layer = Layer.effect(
    Attachments,
    Effect.gen(function* () {
      const blobs = yield* Blobs

      const check = Effect.fn("Attachments.check")(function* (
        { file, image }: Pick<UserMessage, "image" | "file">,
        model: ModelMedia
      ) {
        const checked: Array<CheckedAttachment> = []
        if (image !== undefined) checked.push(yield* checkedAs("imageData", imageTypes, image, model))
        if (file !== undefined) checked.push(yield* checkedAs("fileData", fileTypes, file, model))
        return checked
      })

      const store = Effect.fn("Attachments.store")(
        (workspace: OrganizationId, session: SessionId, attachments: ReadonlyArray<CheckedAttachment>) =>
          Effect.forEach(attachments, (attachment) =>
            Effect.map(blobs.put(workspace, blobOwner(session), attachment), ({ id }) =>
              partOf(blobUri(id), attachment.mimeType, attachment.filename)
            )
          )
      )

      return Attachments.of({ check, store })
    })
  )
}

/** An attachment that is what it says it is. */
export interface CheckedAttachment {
  readonly bytes: Uint8Array
  /** Of several names of a type the usual one. */
  readonly mimeType: string
  readonly filename?: string
}

const mostMegabytes = largestBlob / 1024 / 1024

const checkedAs = Effect.fnUntraced(function* (
  field: "imageData" | "fileData",
  types: ReadonlyArray<string>,
  { base64, filename, mimeType: declared }: Attachment,
  model: ModelMedia
) {
  const refused = (problem: string) => new MessageRefused({ message: `${field}${problem}` })
  const mimeType = usualType(declared)
  if (!types.includes(mimeType)) {
    const other =
      field === "imageData" ? { field: "fileData", types: fileTypes } : { field: "imageData", types: imageTypes }
    const hint = other.types.includes(mimeType) ? ` Send it as ${other.field}.` : ""
    return yield* refused(
      `.mimeType: Expected one of ${types.join(", ")}, not ${JSON.stringify(declared.slice(0, 100))}.${hint}`
    )
  }
  if (!shows(model, mimeType)) {
    return yield* refused(`: The model takes no ${mimeType}. Switch to one that does, or send the message without it.`)
  }
  if (/^data:/i.test(base64)) {
    return yield* refused(".base64: Expected base64 alone, without the `data:` and what is in front of the comma.")
  }
  // What is too large is not decoded.
  if (base64.length > 4 * Math.ceil(largestBlob / 3)) return yield* refused(tooLarge)
  const decoded = yield* decode(base64)
  if (Option.isNone(decoded)) {
    return yield* refused(".base64: Expected base64 of RFC 4648 with its padding and without line breaks.")
  }
  const bytes = decoded.value
  if (bytes.length === 0) return yield* refused(".base64: Expected at least one byte.")
  if (bytes.length > largestBlob) return yield* refused(tooLarge)
  const seen = typeOfBytes(bytes)
  if (seen !== mimeType) {
    const found = seen === undefined ? "is none" : `is ${seen}`
    return yield* refused(`: mimeType says ${mimeType}, but what is in base64 ${found}.`)
  }
  if (filename === undefined || filename === "") return { bytes, mimeType }
  return { bytes, mimeType, filename: printable(filename) }
})

const tooLarge = `.base64: At most ${mostMegabytes} MB.`
