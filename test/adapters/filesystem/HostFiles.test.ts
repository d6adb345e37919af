import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { execFile } from "node:child_process"
import { chmod, mkdir, mkdtemp, realpath, rename, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll } from "vitest"
import * as HostFilesLive from "../../../src/adapters/filesystem/HostFilesLive.ts"
import { HostFiles } from "../../../src/application/ports/files/HostFiles.ts"
import type { FileRules } from "../../../src/domain/resource/FileRules.ts"
import { mostRead } from "../../../src/domain/resource/ResourceContent.ts"

const base = await realpath(await mkdtemp(join(tmpdir(), "gateway-host-files-")))
const root = join(base, "sources")
const outside = join(base, "outside")
const own = join(root, "service-data")

const socket = createServer()

const seed = async (files: Readonly<Record<string, string | Uint8Array>>) => {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(base, path, ".."), { recursive: true })
    await writeFile(join(base, path), content)
  }
}

beforeAll(async () => {
  await seed({
    "sources/docs/b.md": "# b",
    "sources/docs/a.txt": "a",
    "sources/docs/.env": "SECRET=1",
    "sources/docs/.env.local": "SECRET=1",
    "sources/docs/.hidden/x.txt": "hidden",
    "sources/docs/sub/c.TXT": "c",
    "sources/docs/sub/deep/d.txt": "d",
    "sources/docs/sub/deep/deeper/e.txt": "e",
    "sources/docs/50% ä%2e #?.txt": "odd",
    "sources/.ssh/id": "key",
    "sources/.ssh/keys/id": "key",
    "sources/service-data/secret.txt": "secret",
    "outside/secret.txt": "secret",
    "outside/sub/secret.txt": "secret"
  })
  await utimes(join(root, "docs/a.txt"), 1_700_000_000, 1_700_000_000)
  await symlink(join(outside, "secret.txt"), join(root, "docs/link-to-file"))
  await symlink(outside, join(root, "docs/link-to-directory"))
  await symlink("/dev/zero", join(root, "docs/link-to-device"))
  await symlink("a.txt", join(root, "docs/link-within"))
  await symlink("loop", join(root, "docs/loop"))
  await symlink(join(root, "docs"), join(base, "way-in"))
  await symlink(outside, join(root, "way-out"))
  await promisify(execFile)("mkfifo", [join(root, "docs/pipe")])
  await new Promise<void>((done) => socket.listen(join(root, "docs/socket"), () => done()))
})

afterAll(async () => {
  socket.close()
  await rm(base, { recursive: true, force: true })
})

const HostFilesHere = HostFilesLive.layer({ roots: [root, join(base, "not-there")], except: [own] })

const rules: FileRules = { maxDepth: 3, maxFiles: 1_000, includeExtensions: undefined }

const listed = (place: string, bounds: Partial<FileRules> = {}) =>
  Effect.flatMap(HostFiles, (files) =>
    Effect.map(files.list(place, { ...rules, ...bounds }), (found) => found.map(({ path }) => path))
  )

const text = (place: string, path: string, most = 1_000) =>
  Effect.flatMap(HostFiles, (files) =>
    Effect.map(
      files.read(place, path, most),
      Option.map(({ bytes }) => Buffer.from(bytes).toString())
    )
  )

describe("Files of this machine", () => {
  it.effect("are listed below a root, in order, without hidden files, links and special files", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* listed(join(root, "docs")), [
        "50% ä%2e #?.txt",
        "a.txt",
        "b.md",
        "sub/c.TXT",
        "sub/deep/d.txt"
      ])
      const [, a] = yield* (yield* HostFiles).list(join(root, "docs"), rules)
      assert.deepStrictEqual(a, { path: "a.txt", size: 1, lastModified: 1_700_000_000_000 })
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are listed as far as the rules allow", () =>
    Effect.gen(function* () {
      const docs = join(root, "docs")
      assert.deepStrictEqual(yield* listed(docs, { maxDepth: 1, maxFiles: 2 }), ["50% ä%2e #?.txt", "a.txt"])
      assert.deepStrictEqual(yield* listed(docs, { maxDepth: 1, includeExtensions: [".md"] }), ["b.md"])
      assert.deepStrictEqual(yield* listed(docs, { includeExtensions: ["md", "TXT"], maxDepth: 2 }), [
        "50% ä%2e #?.txt",
        "a.txt",
        "b.md",
        "sub/c.TXT"
      ])
      assert.lengthOf(yield* listed(docs, { maxDepth: Number.MAX_SAFE_INTEGER }), 6)
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("can be a single one", () =>
    Effect.gen(function* () {
      const file = join(root, "docs/a.txt")
      assert.deepStrictEqual(yield* listed(file), [""])
      assert.deepStrictEqual(yield* listed(file, { includeExtensions: ["md"] }), [])
      assert.deepStrictEqual(yield* text(file, ""), Option.some("a"))
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are read by their names, whatever signs these have", () =>
    Effect.gen(function* () {
      const docs = join(root, "docs")
      assert.deepStrictEqual(yield* text(docs, "sub/deep/deeper/e.txt"), Option.some("e"))
      assert.deepStrictEqual(yield* text(docs, "50% ä%2e #?.txt"), Option.some("odd"))
      assert.deepStrictEqual(yield* text(join(base, "way-in"), "a.txt"), Option.some("a"))
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are read up to a length", () =>
    Effect.gen(function* () {
      const large = join(root, "large.log")
      yield* Effect.promise(async () => {
        await writeFile(large, "beginning")
        await truncate(large, mostRead * 3)
      })
      const found = Option.getOrThrow(yield* (yield* HostFiles).read(root, "large.log", mostRead))
      assert.lengthOf(found.bytes, mostRead)
      assert.strictEqual(found.size, mostRead * 3)
      assert.strictEqual(Buffer.from(found.bytes.subarray(0, 9)).toString(), "beginning")
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are nothing, at once, where links, special files or hidden names are on the way", () =>
    Effect.gen(function* () {
      const docs = join(root, "docs")
      for (const path of [
        "link-to-file",
        "link-to-directory",
        "link-to-directory/secret.txt",
        "link-to-directory/sub/secret.txt",
        "link-to-device",
        "link-within",
        "loop",
        "pipe",
        "socket",
        "sub",
        ".env",
        ".env.local",
        ".hidden/x.txt",
        "sub/../a.txt",
        "../docs/a.txt",
        "../../outside/secret.txt",
        "a.txt/",
        "a.txt/x",
        "nothing",
        "a\0.txt",
        "x".repeat(5_000)
      ]) {
        const found = yield* Effect.timeout(text(docs, path), "2 seconds")
        assert.deepStrictEqual(found, Option.none(), path)
      }
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are nothing outside the allowed directories, below hidden ones, and of the service itself", () =>
    Effect.gen(function* () {
      for (const [place, path] of [
        [outside, "secret.txt"],
        [join(root, "way-out"), "secret.txt"],
        [base, "outside/secret.txt"],
        [join(root, ".ssh"), "id"],
        [join(root, ".ssh/keys"), "id"],
        [own, "secret.txt"],
        [root, "service-data/secret.txt"],
        ["/dev", "zero"],
        ["/proc/self", "environ"],
        ["/", "etc/passwd"],
        [join(base, "not-there"), "x"],
        [`${root}\0`, "x"],
        [`${root}-other`, "x"]
      ] as const) {
        assert.deepStrictEqual(yield* text(place, path), Option.none(), `${place} ${path}`)
        if (place !== root) assert.deepStrictEqual(yield* listed(place), [], place)
      }
      assert.notInclude(yield* listed(root), "service-data/secret.txt")
    }).pipe(Effect.provide(HostFilesHere))
  )

  it.effect("are nothing when nobody allowed any", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* listed(join(root, "docs")), [])
      assert.deepStrictEqual(yield* text(join(root, "docs"), "a.txt"), Option.none())
    }).pipe(Effect.provide(HostFilesLive.layer({ roots: [], except: [] })))
  )

  it.live(
    "never lead outside while somebody exchanges a directory and a link",
    () =>
      Effect.gen(function* () {
        const files = yield* HostFiles
        const place = join(root, "changing")
        const directory = join(base, "kept-directory")
        const link = join(base, "kept-link")
        yield* Effect.promise(async () => {
          await seed({ "kept-directory/secret.txt": "harmless" })
          await symlink(outside, link)
        })
        let ends = false
        const exchange = Effect.promise(async () => {
          while (!ends) {
            await rename(directory, place)
            await rename(place, directory)
            await rename(link, place)
            await rename(place, link)
          }
        })
        const seen = new Set<string>()
        const look = Effect.gen(function* () {
          for (let round = 0; round < 4_000; round++) {
            const found = yield* files.read(root, "changing/secret.txt", 100)
            if (Option.isSome(found)) seen.add(Buffer.from(found.value.bytes).toString())
          }
          ends = true
        })
        yield* Effect.all([exchange, look], { concurrency: "unbounded" })
        assert.deepStrictEqual([...seen], ["harmless"])
      }).pipe(Effect.provide(HostFilesHere)),
    60_000
  )

  it.effect("that the service may not open are nothing", () =>
    Effect.gen(function* () {
      yield* Effect.promise(async () => {
        await seed({ "sources/closed/x.txt": "x" })
        await chmod(join(root, "closed/x.txt"), 0)
      })
      // Root may open everything.
      const expected = process.getuid?.() === 0 ? Option.some("x") : Option.none()
      assert.deepStrictEqual(yield* text(join(root, "closed"), "x.txt"), expected)
    }).pipe(Effect.provide(HostFilesHere))
  )
})
