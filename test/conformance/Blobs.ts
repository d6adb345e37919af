import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import { createHash } from "node:crypto"
import { Blobs } from "../../src/application/ports/storage/Blobs.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { BlobId, largestBlob } from "../../src/domain/resource/Blob.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "./Samples.ts"
import { StoreProbe } from "./StoreProbe.ts"

const text = (content: string) => ({ bytes: new TextEncoder().encode(content), mimeType: "text/plain" })

/** Bytes that no other test stores. */
const some = () => text(crypto.randomUUID())

/** What every store of blobs must do. */
export const blobsSuite = (name: string, store: Layer.Layer<Blobs | Organizations | Ledger | StoreProbe, unknown>) =>
  layer(store, { timeout: "2 minutes", excludeTestServices: true })(name, (it) => {
    it.effect("keeps bytes of any length by their digest", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const workspace = yield* account()
        for (const length of [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 8 * 256 * 1024, 3_000_001]) {
          const bytes = new Uint8Array(length).map((_, at) => (at * 7 + length) % 256)
          const put = yield* blobs.put(workspace, "owner", { bytes, mimeType: "image/png", filename: "ä b.png" })
          const { createdAt, ...rest } = put
          assert.deepStrictEqual(rest, {
            id: BlobId.make(createHash("sha256").update(bytes).digest("hex")),
            mimeType: "image/png",
            filename: "ä b.png",
            size: length
          })
          assert.isAtLeast(createdAt, 0)
          assert.deepStrictEqual(yield* blobs.find(workspace, put.id), Option.some(put))
          const read = Option.getOrThrow(yield* blobs.read(workspace, put.id))
          assert.isTrue(Buffer.from(bytes).equals(read))
        }
      })
    )

    it.effect("keeps the largest one", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const workspace = yield* account()
        const bytes = new Uint8Array(largestBlob).map((_, at) => (at * 31) >> 3)
        const { id, size } = yield* blobs.put(workspace, "owner", { bytes, mimeType: "application/octet-stream" })
        assert.strictEqual(size, largestBlob)
        assert.isTrue(Buffer.from(bytes).equals(Option.getOrThrow(yield* blobs.read(workspace, id))))
      })
    )

    it.effect("keeps equal bytes once, as they were first described", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const workspace = yield* account()
        const content = some()
        const first = yield* blobs.put(workspace, "a", content)
        yield* (yield* StoreProbe).pass("1 minute")
        const described = Option.getOrThrow(yield* blobs.find(workspace, first.id))
        const again = yield* blobs.put(workspace, "b", { ...content, mimeType: "text/html", filename: "x.html" })
        assert.deepStrictEqual(again, described)
        assert.notProperty(again, "filename")
        assert.deepStrictEqual(yield* blobs.list(workspace), [described])
      })
    )

    it.effect("lists the newest first, of one workspace", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const probe = yield* StoreProbe
        const [mine, foreign] = [yield* account(), yield* account()]
        const ids: Array<BlobId> = []
        for (let count = 0; count < 3; count++) {
          ids.unshift((yield* blobs.put(mine, "owner", some())).id)
          yield* probe.pass("1 minute")
        }
        yield* blobs.put(foreign, "owner", some())
        assert.deepStrictEqual(
          (yield* blobs.list(mine)).map(({ id }) => id),
          ids
        )
        assert.deepStrictEqual(yield* blobs.list(OrganizationId.make(crypto.randomUUID())), [])
      })
    )

    it.effect("keeps a blob until the last that refers to it lets go", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const workspace = yield* account()
        const content = some()
        const { id } = yield* blobs.put(workspace, "prompt:a", content)
        yield* blobs.put(workspace, "prompt:a", content)
        yield* blobs.put(workspace, "prompt:b", content)
        const other = yield* blobs.put(workspace, "prompt:b", some())
        yield* blobs.release(workspace, "prompt:a")
        yield* blobs.release(workspace, "prompt:a")
        yield* blobs.release(workspace, "prompt:%")
        assert.isTrue(Option.isSome(yield* blobs.read(workspace, id)))
        yield* blobs.release(workspace, "prompt:b")
        for (const gone of [id, other.id]) {
          assert.deepStrictEqual(yield* blobs.find(workspace, gone), Option.none())
          assert.deepStrictEqual(yield* blobs.read(workspace, gone), Option.none())
        }
        assert.deepStrictEqual(yield* blobs.list(workspace), [])
        yield* blobs.put(workspace, "prompt:c", content)
        assert.deepStrictEqual(Option.getOrThrow(yield* blobs.read(workspace, id)), Buffer.from(content.bytes))
      })
    )

    it.effect("knows nothing of another workspace's blobs, even of equal ones", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const [mine, foreign] = [yield* account(), yield* account()]
        const content = some()
        const { id } = yield* blobs.put(foreign, "owner", { ...content, filename: "theirs.txt" })
        assert.deepStrictEqual(yield* blobs.find(mine, id), Option.none())
        assert.deepStrictEqual(yield* blobs.read(mine, id), Option.none())
        yield* blobs.release(mine, "owner")
        assert.notProperty(yield* blobs.put(mine, "owner", content), "filename")
        yield* blobs.release(mine, "owner")
        assert.isTrue(Option.isSome(yield* blobs.read(foreign, id)))
      })
    )

    it.effect("loses no blob that is referred to while others let go of it", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const workspace = yield* account()
        const contents = [some(), some(), some()]
        for (let round = 0; round < 20; round++) {
          yield* Effect.all(
            Array.from({ length: 8 }, (_, owner) =>
              Effect.gen(function* () {
                for (const content of owner % 2 === 0 ? contents : contents.toReversed()) {
                  yield* blobs.put(workspace, `owner ${owner}`, content)
                }
                if (owner !== round % 8) yield* blobs.release(workspace, `owner ${owner}`)
              })
            ),
            { concurrency: "unbounded" }
          )
          const listed = yield* blobs.list(workspace)
          assert.lengthOf(listed, contents.length)
          for (const { id, size } of listed) {
            assert.lengthOf(Option.getOrThrow(yield* blobs.read(workspace, id)), size)
          }
          yield* blobs.release(workspace, `owner ${round % 8}`)
          assert.deepStrictEqual(yield* blobs.list(workspace), [])
        }
      })
    )

    it.effect("takes none without an organization", () =>
      Effect.gen(function* () {
        const blobs = yield* Blobs
        const nowhere = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit(blobs.put(nowhere, "owner", some()))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* blobs.list(nowhere), [])
      })
    )
  })
