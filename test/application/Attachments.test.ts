import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Attachments } from "../../src/application/conversation/Attachments.ts"
import type { ModelMedia } from "../../src/application/conversation/Media.ts"
import { blobOwner } from "../../src/application/conversation/SessionsOfWorkspace.ts"
import type { Attachment } from "../../src/application/conversation/UserMessage.ts"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import { largestBlob } from "../../src/domain/resource/Blob.ts"
import { account } from "../conformance/Samples.ts"
import { session } from "./AgentsAtHand.ts"

const Live = Attachments.layer.pipe(Layer.provideMerge(InMemoryLive.layer))

const everything: ModelMedia = { takes: new Set(["image", "file", "audio"]), allowedMediaTypes: undefined }

const begun = (start: string, size = 64) => {
  const bytes = Buffer.alloc(size, 7)
  bytes.write(start, "latin1")
  return bytes
}
const png = begun("\x89PNG\r\n\x1a\n")
const pdf = begun("%PDF-1.7\n")
const mp3 = begun("ID3")
const wav = begun("RIFF\x04\0\0\0WAVE")

const attached = (bytes: Buffer, mimeType: string, filename?: string): Attachment => ({
  base64: bytes.toString("base64"),
  mimeType,
  filename
})

describe("attachments of a message", () => {
  it.effect("are parts that name blobs of the session, gone with it", () =>
    Effect.gen(function* () {
      const attachments = yield* Attachments
      const blobs = yield* Blobs
      const workspace = yield* account()
      const checked = yield* attachments.check(
        { image: attached(png, "image/PNG; x=y"), file: attached(pdf, "application/pdf", "../a\u0000b\n.pdf") },
        everything
      )
      const parts = yield* attachments.store(workspace, session, checked)
      const kept = yield* blobs.list(workspace)
      const idOf = (mimeType: string) => `blob:${kept.find((blob) => blob.mimeType === mimeType)?.id ?? "none"}`
      assert.deepStrictEqual(parts, [
        { type: "image", image: idOf("image/png"), mimeType: "image/png" },
        { type: "file", data: idOf("application/pdf"), mimeType: "application/pdf", filename: "../a b .pdf" }
      ])
      yield* blobs.release(workspace, blobOwner(session))
      assert.deepStrictEqual(yield* blobs.list(workspace), [])
    }).pipe(Effect.provide(Live))
  )

  it.effect("may be called by all names of their types", () =>
    Effect.gen(function* () {
      const attachments = yield* Attachments
      for (const [bytes, names] of [
        [mp3, ["audio/mp3", "audio/mpeg"]],
        [wav, ["audio/wav", "audio/x-wav", "audio/wave"]]
      ] as const) {
        for (const name of names) {
          const [checked] = yield* attachments.check({ file: attached(bytes, name) }, everything)
          assert.strictEqual(checked?.mimeType, names[0])
        }
      }
      for (const jpeg of ["image/jpeg", "image/jpg"]) {
        const [checked] = yield* attachments.check({ image: attached(begun("\xff\xd8\xff"), jpeg) }, everything)
        assert.strictEqual(checked?.mimeType, "image/jpeg")
      }
      assert.deepStrictEqual(yield* attachments.check({}, everything), [])
    }).pipe(Effect.provide(Live))
  )

  it.effect("are refused with what to change", () =>
    Effect.gen(function* () {
      const attachments = yield* Attachments
      const image = (base64: string) => ({ image: { base64, mimeType: "image/png" } })
      const blind: ModelMedia = { takes: new Set(["file"]), allowedMediaTypes: undefined }
      const onlyPng: ModelMedia = { ...everything, allowedMediaTypes: ["image/PNG", "audio/*"] }
      for (const [message, model, expected] of [
        [
          { image: attached(png, "image/jpeg") },
          everything,
          /^imageData: mimeType says image\/jpeg, but .* is image\/png/u
        ],
        [{ image: attached(begun("GIF88a"), "image/gif") }, everything, /what is in base64 is none/u],
        [{ image: attached(pdf, "application/pdf") }, everything, /Send it as fileData/u],
        [{ file: attached(png, "image/png") }, everything, /Send it as imageData/u],
        [
          { image: attached(png, "image/svg+xml") },
          everything,
          /one of image\/png, image\/jpeg, image\/gif, image\/webp/u
        ],
        [{ file: attached(wav, "audio/ogg") }, everything, /one of application\/pdf, audio\/mp3, audio\/wav/u],
        [image(`data:image/png;base64,${png.toString("base64")}`), everything, /without the `data:`/u],
        [image("iVBORw0KGgo"), everything, /base64 of RFC 4648/u],
        [image("iVBO\nRw0K"), everything, /base64 of RFC 4648/u],
        [image("iVBO====iVBO"), everything, /base64 of RFC 4648/u],
        [image("iV-_"), everything, /base64 of RFC 4648/u],
        [image(""), everything, /at least one byte/u],
        [image("A".repeat(4 * Math.ceil((largestBlob + 3) / 3))), everything, /At most 20 MB/u],
        [{ image: attached(begun("\x89PNG\r\n\x1a\n", largestBlob + 1), "image/png") }, everything, /At most 20 MB/u],
        [{ image: attached(png, "image/png") }, blind, /model takes no image\/png/u],
        [{ file: attached(mp3, "audio/mp3") }, blind, /model takes no audio\/mp3/u],
        [{ file: attached(pdf, "application/pdf") }, onlyPng, /model takes no application\/pdf/u],
        [{ image: attached(begun("GIF89a"), "image/gif") }, onlyPng, /model takes no image\/gif/u]
      ] as const) {
        const refused = yield* Effect.flip(attachments.check(message, model))
        assert.match(refused.message, expected)
      }
      assert.lengthOf(
        yield* attachments.check({ image: attached(png, "image/png"), file: attached(mp3, "audio/mpeg") }, onlyPng),
        2
      )
    }).pipe(Effect.provide(Live))
  )

  it.effect("may have 20 MB, byte for byte", () =>
    Effect.gen(function* () {
      const attachments = yield* Attachments
      for (const size of [largestBlob, largestBlob - 1, 3 * 2 ** 18 + 1]) {
        const bytes = begun("%PDF-", size)
        for (let at = 5; at < size; at += 997) bytes[at] = at % 256
        const [checked] = yield* attachments.check({ file: attached(bytes, "application/pdf") }, everything)
        assert.isTrue(bytes.equals(checked?.bytes ?? new Uint8Array()))
      }
    }).pipe(Effect.provide(Live))
  )
})
