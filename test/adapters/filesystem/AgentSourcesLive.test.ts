import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import * as AgentSourcesLive from "../../../src/adapters/filesystem/AgentSourcesLive.ts"
import { AgentSources } from "../../../src/application/ports/files/AgentSources.ts"

/** A directory of agents, and beside it what is none of theirs. */
const prepared = Effect.gen(function* () {
  const disk = yield* FileSystem.FileSystem
  const base = yield* Effect.flatMap(disk.makeTempDirectoryScoped(), disk.realPath)
  const root = join(base, "agents")
  const put = (path: string, content: string | Uint8Array = path) =>
    Effect.gen(function* () {
      yield* disk.makeDirectory(join(base, path, ".."), { recursive: true })
      yield* disk.writeFile(join(base, path), typeof content === "string" ? new TextEncoder().encode(content) : content)
    })
  yield* disk.makeDirectory(root)
  const linked = join(base, "linked")
  yield* disk.symlink(root, linked)
  const read = (path: string, roots: ReadonlyArray<string> = [join(base, "not there"), linked]) =>
    Effect.flatMap(AgentSources, (sources) => sources.read(path)).pipe(
      Effect.map(({ files, isDirectory }) => ({
        isDirectory,
        files: Object.fromEntries([...files].map(([name, content]) => [name, new TextDecoder().decode(content)]))
      })),
      Effect.provide(AgentSourcesLive.layer(roots))
    )
  const refused = (path: string, roots?: ReadonlyArray<string>) => Effect.flip(read(path, roots))
  return { base, root, linked, disk, put, read, refused }
})

describe("the sources of agents", () => {
  it.effect("are files and directories below a root, also by way of links", () =>
    Effect.gen(function* () {
      const { base, disk, linked, put, read, root } = yield* prepared
      for (const path of ["agents/a/a.yml", "agents/a/docs/one.md", "agents/a/.env", "agents/a/.git/config"]) {
        yield* put(path)
      }
      yield* put("outside/secret")
      yield* disk.symlink(join(base, "outside/secret"), join(root, "a/secret"))
      yield* disk.symlink(join(base, "outside"), join(root, "a/outside"))
      yield* disk.symlink(join(root, "a/a.yml"), join(root, "a/same.yml"))
      execFileSync("mkfifo", [join(root, "a/pipe")])
      const whole = {
        isDirectory: true,
        files: { "a.yml": "agents/a/a.yml", "docs/one.md": "agents/a/docs/one.md" }
      }
      for (const path of [join(root, "a"), join(linked, "a"), `${root}/../linked/a/`, `${root}/a/docs/..`]) {
        assert.deepStrictEqual(yield* read(path), whole)
      }
      const one = { isDirectory: false, files: { "a.yml": "agents/a/a.yml" } }
      for (const path of ["a/a.yml", "a/same.yml"]) assert.deepStrictEqual(yield* read(join(root, path)), one)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("are nothing else", () =>
    Effect.gen(function* () {
      const { base, disk, put, refused, root } = yield* prepared
      for (const path of ["agents/a/.env", "agents/.hidden/a.yml", "agents-too/a.yml", "outside/a.yml"])
        yield* put(path)
      yield* disk.symlink(join(base, "outside"), join(root, "out"))
      execFileSync("mkfifo", [join(root, "pipe")])
      for (const path of [
        join(root, "a/.env"),
        join(root, ".hidden"),
        join(root, ".hidden/a.yml"),
        join(base, "agents-too/a.yml"),
        join(root, "../outside/a.yml"),
        `${root}/out/a.yml`,
        join(root, "out"),
        join(root, "pipe"),
        join(root, "nowhere"),
        join(root, "a/.env/x"),
        `${root}/a\0`,
        join(root, "x".repeat(300)),
        base,
        "/",
        "/etc/passwd",
        "agents/a",
        ".",
        ""
      ]) {
        assert.deepInclude(yield* refused(path), { _tag: "SourceNotFound", path })
      }
      assert.strictEqual((yield* refused(join(root, "a"), []))._tag, "SourceNotFound")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("have 200 files, 1 MB each and 8 MB together", () =>
    Effect.gen(function* () {
      const { put, read, refused, root } = yield* prepared
      for (let index = 0; index < 200; index++) yield* put(`agents/many/${index}`)
      assert.lengthOf(Object.keys((yield* read(join(root, "many"))).files), 200)
      yield* put("agents/many/200")
      assert.deepInclude(yield* refused(join(root, "many")), { _tag: "SourceTooLarge", limit: "200 files" })

      const megabyte = new Uint8Array(1024 * 1024)
      for (let index = 0; index < 8; index++) yield* put(`agents/large/${index}`, megabyte)
      assert.lengthOf(Object.keys((yield* read(join(root, "large"))).files), 8)
      yield* put("agents/large/8", "1")
      assert.deepInclude(yield* refused(join(root, "large")), { _tag: "SourceTooLarge", limit: "8 MB of files" })
      yield* put("agents/huge.yml", new Uint8Array(1024 * 1024 + 1))
      assert.deepInclude(yield* refused(join(root, "huge.yml")), { _tag: "SourceTooLarge", limit: "1 MB in a file" })
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
