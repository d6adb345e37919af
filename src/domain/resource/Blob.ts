import { Effect, Schema } from "effect"
import * as Hex from "effect/encoding/Hex"

/** A blob's id: the SHA-256 of its bytes in hexadecimal, so that equal contents are one blob. */
export const BlobId = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)).pipe(Schema.brand("BlobId"))
export type BlobId = typeof BlobId.Type

/** A blob without its bytes. */
export const Blob = Schema.Struct({
  id: BlobId,
  mimeType: Schema.NonEmptyString,
  filename: Schema.optionalKey(Schema.String),
  /** Bytes. */
  size: Schema.Int,
  /** Epoch milliseconds. */
  createdAt: Schema.Int
})
export type Blob = typeof Blob.Type

/** Its address as a resource (section 2.9). */
export const blobUri = (id: BlobId): string => `blob:${id}`

/** The most that one blob may have, in bytes (decisions 6). */
export const largestBlob = 20 * 1024 * 1024

/** The id of these bytes. A digest is worked out beside, so that a large one stops nobody. */
export const blobIdOf = (bytes: Uint8Array): Effect.Effect<BlobId> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", bytes.slice())),
    (digest) => BlobId.make(Hex.encode(new Uint8Array(digest)))
  )
