import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { access, mkdir, readdir, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as BlobFiles from "../../../src/adapters/postgres/BlobFiles.ts"
import { Blobs } from "../../../src/application/ports/storage/Blobs.ts"
import { BlobId, blobIdOf } from "../../../src/domain/resource/Blob.ts"
import { OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { account } from "../../conformance/Samples.ts"
import { onPglite, temporaryDirectory } from "./Stores.ts"

const organization = OrganizationId.make("organization")

const bytesOf = (text: string) => new TextEncoder().encode(text)

/** Every file below a directory. */
const filesIn = async (directory: string) =>
  (await readdir(directory, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort()

describe("Files of blobs", () => {
  it.live(
    "are the digests' own, readable by nobody else, and gone with their rows",
    () =>
      Effect.gen(function* () {
        const directory = yield* Effect.promise(temporaryDirectory)
        yield* Effect.gen(function* () {
          const blobs = yield* Blobs
          const workspace = yield* account()
          const { id } = yield* blobs.put(workspace, "owner", { bytes: bytesOf("x"), mimeType: "text/plain" })
          const place = join(directory, "blobs", workspace, id.slice(0, 2), id)
          const { mode, size } = yield* Effect.promise(() => stat(place))
          assert.deepStrictEqual([mode & 0o777, size], [0o600, 1])
          yield* blobs.release(workspace, "owner")
          assert.deepStrictEqual(yield* Effect.promise(() => filesIn(join(directory, "blobs"))), [])
        }).pipe(Effect.provide(onPglite(directory)))
      }),
    120_000
  )

  it.live(
    "that no row speaks of, such as a crash leaves, are removed at the next start",
    () =>
      Effect.gen(function* () {
        const directory = yield* Effect.promise(temporaryDirectory)
        const { id, workspace } = yield* Effect.gen(function* () {
          const workspace = yield* account()
          const put = yield* (yield* Blobs).put(workspace, "owner", { bytes: bytesOf("kept"), mimeType: "text/plain" })
          return { id: put.id, workspace }
        }).pipe(Effect.provide(onPglite(directory)))
        const beside = join(directory, "blobs", workspace, id.slice(0, 2))
        const orphan = join(directory, "blobs", workspace, "ff", "f".repeat(64))
        yield* Effect.promise(async () => {
          await writeFile(join(beside, `${id}.draft`), "half")
          await writeFile(join(beside, `${id.slice(0, 2)}${"0".repeat(62)}`), "no row")
          await mkdir(join(orphan, ".."), { recursive: true })
          await writeFile(orphan, "no row")
        })
        yield* Effect.gen(function* () {
          for (let waits = 0; (yield* Effect.promise(() => filesIn(join(directory, "blobs")))).length > 1; waits++) {
            assert.isBelow(waits, 200)
            yield* Effect.sleep("25 millis")
          }
          const read = yield* (yield* Blobs).read(workspace, id)
          assert.deepStrictEqual(
            Option.map(read, (bytes) => Buffer.from(bytes).toString()),
            Option.some("kept")
          )
        }).pipe(Effect.provide(onPglite(directory)))
      }),
    120_000
  )

  it.live("are not swept while a row for them is being made", () =>
    Effect.gen(function* () {
      const directory = yield* Effect.promise(temporaryDirectory)
      const files = yield* BlobFiles.make(join(directory, "blobs"))
      const bytes = bytesOf("on its way")
      const id = yield* blobIdOf(bytes)
      const rows = new Set<string>()
      const making = yield* Effect.forkChild(
        files.exclusively(
          Effect.gen(function* () {
            yield* files.write(organization, id, bytes)
            yield* Effect.sleep("200 millis")
            rows.add(id)
          })
        )
      )
      yield* Effect.sleep("50 millis")
      assert.strictEqual(yield* files.sweep(() => Effect.sync(() => new Set(rows))), 0)
      yield* Fiber.join(making)
      assert.deepStrictEqual(yield* files.read(organization, id), Option.some(Buffer.from(bytes)))
      rows.clear()
      assert.strictEqual(yield* files.sweep(() => Effect.succeed(rows)), 1)
      assert.deepStrictEqual(yield* files.read(organization, BlobId.make(id)), Option.none())
      yield* Effect.promise(() => access(join(directory, "blobs")))
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
