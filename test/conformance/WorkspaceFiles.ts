import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, type Layer, Option, Stream } from "effect"
import { type FileChange, WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { environmentPath, WorkspacePath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account, organization } from "./Samples.ts"

const bytes = (text: string) => new TextEncoder().encode(text)

const change = (path: string, content: string | null, basedOn?: string | null): FileChange => ({
  path: WorkspacePath.make(path),
  content: content === null ? null : bytes(content),
  basedOn
})

/** The text and the version of a file; undefined if there is none. */
const found = Effect.fnUntraced(function* (workspace: OrganizationId, path: string) {
  const file = yield* (yield* WorkspaceFiles).read(workspace, WorkspacePath.make(path))
  if (Option.isNone(file)) return undefined
  assert.strictEqual(file.value.path, path)
  assert.isTrue(Number.isSafeInteger(file.value.lastModified))
  return { text: new TextDecoder().decode(file.value.content), version: file.value.version }
})

const textOf = (workspace: OrganizationId, path: string) =>
  Effect.map(found(workspace, path), (file) => file?.text ?? null)

const versionOf = (workspace: OrganizationId, path: string) =>
  Effect.map(found(workspace, path), (file) => file?.version ?? null)

const commit = (workspace: OrganizationId, ...changes: ReadonlyArray<FileChange>) =>
  Effect.flatMap(WorkspaceFiles, (files) => files.commit(workspace, changes))

/** The text of every file. */
const tree = Effect.fnUntraced(function* (workspace: OrganizationId) {
  const listed = yield* (yield* WorkspaceFiles).list(workspace, "")
  const texts = yield* Effect.forEach(listed, ({ path }) => textOf(workspace, path))
  return Object.fromEntries(listed.map(({ path }, index) => [path, texts[index]]))
})

/** What every store of workspaces' files must do. */
export const workspaceFilesSuite = (
  name: string,
  store: Layer.Layer<WorkspaceFiles | Organizations | Ledger, unknown>
) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("has an absolute path for each workspace", () =>
      Effect.gen(function* () {
        const files = yield* WorkspaceFiles
        const made = organization()
        yield* (yield* Organizations).insert(made)
        const root = yield* files.root(made.id)
        assert.isTrue(root.startsWith("/"))
        assert.isTrue(root.endsWith(`/workspaces/${made.name}`))
        assert.notStrictEqual(yield* files.root(yield* account()), root)
      })
    )

    it.effect("keeps files byte for byte, each workspace its own", () =>
      Effect.gen(function* () {
        const files = yield* WorkspaceFiles
        const [mine, foreign] = [yield* account(), yield* account()]
        for (const path of ["agents/a/files/every-byte", "empty", ".env", "agents/ä ö%_'/x.yml"].map((path) =>
          WorkspacePath.make(path)
        )) {
          const content = Uint8Array.from({ length: path === "empty" ? 0 : 70_000 }, (_, index) => index & 255)
          const kept = content.slice()
          assert.deepStrictEqual(yield* files.read(mine, path), Option.none())
          yield* files.commit(mine, [{ path, content, basedOn: null }])
          content.fill(0)
          assert.deepStrictEqual(Option.getOrThrow(yield* files.read(mine, path)).content, kept)
          assert.deepStrictEqual(yield* files.read(foreign, path), Option.none())
        }
        assert.deepStrictEqual(yield* files.list(foreign, ""), [])
      })
    )

    it.effect("lists what is below a directory, in the order of paths, as it is read", () =>
      Effect.gen(function* () {
        const files = yield* WorkspaceFiles
        const mine = yield* account()
        const paths = [
          "agents/a/b.yml",
          "agents/a/b/c.txt",
          "agents/a-b/x",
          "agents/a_/x",
          "agents/ab",
          "z",
          ".env",
          "B"
        ]
        yield* commit(mine, ...paths.map((path) => change(path, path)))
        const listed = Effect.fnUntraced(function* (directory: string) {
          const below = yield* files.list(mine, directory === "" ? "" : WorkspacePath.make(directory))
          for (const { lastModified, path, version } of below) {
            const read = Option.getOrThrow(yield* files.read(mine, path))
            assert.deepStrictEqual(
              { lastModified: read.lastModified, version: read.version },
              { lastModified, version }
            )
          }
          return below.map(({ path }) => path)
        })
        assert.deepStrictEqual(yield* listed(""), paths.toSorted())
        assert.deepStrictEqual(yield* listed("agents/a"), ["agents/a/b.yml", "agents/a/b/c.txt"])
        assert.deepStrictEqual(yield* listed("agents/a_"), ["agents/a_/x"])
        for (const none of ["agents/a/b.yml", "agents/b", "agent"]) assert.deepStrictEqual(yield* listed(none), [])
      })
    )

    it.effect("changes several files at once, or none if one has another version", () =>
      Effect.gen(function* () {
        const mine = yield* account()
        yield* commit(mine, change("a", "a 1"), change("b", "1"), change("c", "c 1"))
        const [a, b] = [yield* versionOf(mine, "a"), yield* versionOf(mine, "b")]
        yield* commit(mine, change("a", "a 2", a), change("c", null), change("d/e", "2", null))
        const now = { a: "a 2", b: "1", "d/e": "2" }
        assert.deepStrictEqual(yield* tree(mine), now)
        for (const stale of [
          change("a", "3", a),
          change("b", null, a),
          change("b", "3", null),
          change("c", "3", b),
          change("c", null, b),
          change("d/e", "3", "no version")
        ]) {
          const error = yield* Effect.flip(commit(mine, change("x", "3"), change("y", "3", null), stale))
          assert.deepInclude(error, { _tag: "WorkspaceConflict", path: stale.path })
          assert.deepStrictEqual(yield* tree(mine), now)
        }
        yield* commit(mine, change("b", "3", b), change("c", "3", null))
        assert.deepStrictEqual(yield* tree(mine), { ...now, b: "3", c: "3" })
      })
    )

    it.effect("gives another version to another content, and to what was not changed the same", () =>
      Effect.gen(function* () {
        const mine = yield* account()
        yield* commit(mine, change("a", "1"), change("b", "1"))
        const [a, b] = [yield* versionOf(mine, "a"), yield* versionOf(mine, "b")]
        yield* commit(mine, change("a", "2"))
        assert.notStrictEqual(yield* versionOf(mine, "a"), a)
        assert.strictEqual(yield* versionOf(mine, "b"), b)
      })
    )

    it.effect("removes files for good, and what is not there without a word", () =>
      Effect.gen(function* () {
        const mine = yield* account()
        yield* commit(mine, change("agents/a/a.yml", "1"), change("agents/a/b/c", "1"))
        const version = yield* versionOf(mine, "agents/a/a.yml")
        yield* commit(mine, change("agents/a/a.yml", null, version), change("agents/a/b/c", null), change("no", null))
        assert.deepStrictEqual(yield* tree(mine), {})
        yield* commit(mine, change("agents/a/a.yml", null, null), change("agents/a", "now a file", null))
        assert.deepStrictEqual(yield* tree(mine), { "agents/a": "now a file" })
      })
    )

    it.effect("lets one of those win that change the same version at once", () =>
      Effect.gen(function* () {
        const mine = yield* account()
        yield* commit(mine, change("a", "0"), change("b", "0"))
        const version = yield* versionOf(mine, "a")
        const exits = yield* Effect.forEach(
          Array.from({ length: 10 }, (_, index) => `${index + 1}`),
          (text) => Effect.exit(commit(mine, change("b", text), change("a", text, version))),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(exits.filter(Exit.isSuccess), 1)
        const winner = `${exits.findIndex(Exit.isSuccess) + 1}`
        assert.deepStrictEqual(yield* tree(mine), { a: winner, b: winner })
      })
    )

    it.effect("tells of every change, with what has changed, within a second", () =>
      Effect.gen(function* () {
        const files = yield* WorkspaceFiles
        const [mine, foreign] = [yield* account(), yield* account()]
        yield* files.list(mine, "")
        const of = (workspace: OrganizationId, path: string) =>
          files.changes.pipe(
            Stream.filter(
              (change) => change.workspace === workspace && change.paths.includes(WorkspacePath.make(path))
            ),
            Stream.take(1),
            Stream.runDrain,
            Effect.forkChild({ startImmediately: true })
          )
        for (const [workspace, made] of [
          [mine, change(environmentPath, "1")],
          [mine, change("agents/a/a.yml", "1")],
          [mine, change("agents/a/a.yml", null)],
          [foreign, change("agents/a/a.yml", "1")]
        ] as const) {
          const told = yield* of(workspace, made.path)
          yield* commit(workspace, made)
          yield* Effect.timeout(Fiber.join(told), "1 second")
        }
      })
    )

    it.effect("has no files of an organization that is not there", () =>
      Effect.gen(function* () {
        const nobody = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit(commit(nobody, change("a", "1")))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      })
    )
  })
