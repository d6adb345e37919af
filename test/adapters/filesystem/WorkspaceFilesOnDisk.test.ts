import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Option, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as WorkspaceFilesOnDisk from "../../../src/adapters/filesystem/WorkspaceFilesOnDisk.ts"
import * as InMemoryLive from "../../../src/adapters/inmemory/InMemoryLive.ts"
import { WorkspaceFiles } from "../../../src/application/ports/files/WorkspaceFiles.ts"
import { environmentPath, WorkspacePath } from "../../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../../conformance/Samples.ts"
import { workspaceFilesSuite } from "../../conformance/WorkspaceFiles.ts"

const data = mkdtempSync(join(tmpdir(), "gateway-workspaces-"))
afterAll(() => rmSync(data, { recursive: true, force: true }))

const store = WorkspaceFilesOnDisk.layer(data).pipe(
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provideMerge(NodeServices.layer)
)

workspaceFilesSuite("WorkspaceFiles on disk", store)

const path = (text: string) => WorkspacePath.make(text)
const bytes = (text: string) => new TextEncoder().encode(text)

describe("a workspace on disk", () => {
  const opened = Effect.gen(function* () {
    const files = yield* WorkspaceFiles
    const workspace = yield* account()
    const root = yield* files.root(workspace)
    yield* files.commit(workspace, [{ path: path("agents/a/a.yml"), content: bytes("a"), basedOn: null }])
    const texts = Effect.gen(function* () {
      const listed = yield* files.list(workspace, "")
      return yield* Effect.forEach(listed, (file) =>
        Effect.map(files.read(workspace, file.path), (read) => [
          file.path,
          new TextDecoder().decode(Option.getOrThrow(read).content)
        ])
      ).pipe(Effect.map((entries): Record<string, string> => Object.fromEntries(entries)))
    })
    return { files, workspace, root, texts, disk: yield* FileSystem.FileSystem }
  })

  it.live("is nobody's but the owner's where keys are", () =>
    Effect.gen(function* () {
      const { disk, files, root, workspace } = yield* opened
      for (const text of ["A_TOKEN=1", "A_TOKEN=2"]) {
        yield* files.commit(workspace, [{ path: environmentPath, content: bytes(text), basedOn: undefined }])
        assert.strictEqual((yield* disk.stat(join(root, ".env"))).mode & 0o777, 0o600)
      }
      for (const directory of [data, root, join(root, "agents"), join(root, "agents/a")]) {
        assert.strictEqual((yield* disk.stat(directory)).mode & 0o777, 0o700)
      }
      assert.sameMembers(yield* disk.readDirectory(root), [".env", "agents"])
    }).pipe(Effect.provide(store))
  )

  it.live("is what people make of it with an editor", () =>
    Effect.gen(function* () {
      const { disk, files, root, texts, workspace } = yield* opened
      const { version } = Option.getOrThrow(yield* files.read(workspace, path("agents/a/a.yml")))
      const told = yield* files.changes.pipe(
        Stream.filter((change) => change.workspace === workspace),
        Stream.take(1),
        Stream.runCollect,
        Effect.forkChild({ startImmediately: true })
      )
      yield* disk.writeFileString(join(root, "agents/a/a.yml"), "edited")
      assert.deepStrictEqual(yield* Effect.timeout(Fiber.join(told), "1 second"), [
        { workspace, paths: [path("agents/a/a.yml")] }
      ])
      assert.deepStrictEqual(yield* texts, { "agents/a/a.yml": "edited" })
      const stale = files.commit(workspace, [{ path: path("agents/a/a.yml"), content: bytes("b"), basedOn: version }])
      assert.strictEqual((yield* Effect.flip(stale))._tag, "WorkspaceConflict")

      const removed = yield* Effect.forkChild(Stream.runHead(files.changes), { startImmediately: true })
      yield* disk.remove(root, { recursive: true })
      yield* Effect.timeout(Fiber.join(removed), "1 second")
      assert.deepStrictEqual(yield* texts, {})
      yield* files.commit(workspace, [{ path: path("b"), content: bytes("b"), basedOn: null }])
      assert.deepStrictEqual(yield* texts, { b: "b" })
    }).pipe(Effect.provide(store))
  )

  it.live("has no links, no special files, and nothing outside", () =>
    Effect.gen(function* () {
      const { disk, files, root, texts, workspace } = yield* opened
      const outside = join(data, "outside")
      yield* disk.makeDirectory(outside, { recursive: true })
      yield* disk.writeFileString(join(outside, "secret"), "secret")
      yield* disk.symlink(join(outside, "secret"), join(root, "link"))
      yield* disk.symlink(outside, join(root, "linked"))
      yield* disk.symlink("a.yml", join(root, "agents/a/inside.yml"))
      yield* disk.symlink("nowhere", join(root, "dangling"))
      execFileSync("mkfifo", [join(root, "pipe")])
      assert.deepStrictEqual(yield* texts, { "agents/a/a.yml": "a" })
      for (const name of [
        "link",
        "linked/secret",
        "agents/a/inside.yml",
        "dangling",
        "pipe",
        "agents",
        "agents/a/a.yml/x"
      ]) {
        assert.deepStrictEqual(yield* files.read(workspace, path(name)), Option.none())
      }
      assert.deepStrictEqual(yield* files.list(workspace, path("linked")), [])

      const through = Effect.exit(
        files.commit(workspace, [
          { path: path("x"), content: bytes("x"), basedOn: undefined },
          { path: path("linked/secret"), content: bytes("changed"), basedOn: undefined }
        ])
      )
      assert.match(String(yield* through), /linked: it is no directory/)
      assert.strictEqual(yield* disk.readFileString(join(outside, "secret")), "secret")
      // A link is replaced itself, not what it leads to.
      yield* files.commit(workspace, [{ path: path("link"), content: bytes("own"), basedOn: null }])
      assert.strictEqual(yield* disk.readFileString(join(outside, "secret")), "secret")
      assert.deepStrictEqual(yield* texts, { "agents/a/a.yml": "a", link: "own" })
    }).pipe(Effect.provide(store))
  )

  it.live("keeps its journal for itself, and no empty directories", () =>
    Effect.gen(function* () {
      const { disk, files, root, workspace } = yield* opened
      const own = path(".journal/manifest.json")
      const exit = yield* Effect.exit(
        files.commit(workspace, [{ path: own, content: bytes("[]"), basedOn: undefined }])
      )
      assert.match(String(exit), /reserved/)
      assert.deepStrictEqual(yield* files.read(workspace, own), Option.none())
      yield* files.commit(workspace, [{ path: path("agents/a/a.yml"), content: null, basedOn: undefined }])
      assert.deepStrictEqual(yield* disk.readDirectory(root), [])
    }).pipe(Effect.provide(store))
  )
})
