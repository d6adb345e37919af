import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, FileSystem, Scope } from "effect"
import * as DirectoryLock from "../../../src/adapters/postgres/DirectoryLock.ts"
import { startChild } from "./Child.ts"

const emptyDirectory = Effect.flatMap(FileSystem.FileSystem, (files) =>
  Effect.orDie(files.makeTempDirectoryScoped({ prefix: "gateway-lock-" }))
)

const filesIn = (directory: string) =>
  Effect.flatMap(FileSystem.FileSystem, (files) => Effect.orDie(files.readDirectory(directory)))

const holder = Effect.fnUntraced(function* (directory: string) {
  const child = yield* startChild("LockHolder.ts", directory)
  assert.strictEqual(yield* child.hear, "ready")
  return child
})

layer(NodeServices.layer, { excludeTestServices: true })("DirectoryLock", (it) => {
  it.effect("refuses a second process and names the first", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      const first = yield* holder(directory)
      yield* first.tell("go")
      assert.strictEqual(yield* first.hear, "taken")
      const error = yield* Effect.flip(DirectoryLock.take(directory))
      assert.strictEqual(error._tag === "DirectoryInUse" ? error.pid : undefined, first.pid)
      assert.include(error.message, `process ${first.pid}`)

      yield* first.leave
      yield* DirectoryLock.take(directory)
    })
  )

  it.effect("takes the lock of a process that was killed", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      const first = yield* holder(directory)
      yield* first.tell("go")
      assert.strictEqual(yield* first.hear, "taken")
      yield* first.kill
      assert.deepStrictEqual(yield* filesIn(directory), [`gateway.${first.pid}.lock`])
      yield* DirectoryLock.take(directory)
      assert.deepStrictEqual(yield* filesIn(directory), [`gateway.${process.pid}.lock`])
    })
  )

  it.effect("takes a lock that an earlier process of the same id left", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      const files = yield* FileSystem.FileSystem
      yield* Effect.orDie(files.writeFileString(`${directory}/gateway.${process.pid}.lock`, ""))
      yield* DirectoryLock.take(directory)
    })
  )

  it.effect(
    "lets one of several have it that come at once, also after a crash",
    () =>
      Effect.gen(function* () {
        const directory = yield* emptyDirectory
        const dead = yield* holder(directory)
        yield* dead.tell("go")
        yield* dead.hear
        yield* dead.kill
        const rivals = yield* Effect.all([holder(directory), holder(directory), holder(directory)], {
          concurrency: "unbounded"
        })
        yield* Effect.forEach(rivals, ({ tell }) => tell("go"), { concurrency: "unbounded" })
        const said = yield* Effect.forEach(rivals, ({ hear }) => hear, { concurrency: "unbounded" })
        const winner = rivals[said.indexOf("taken")]
        assert.isDefined(winner)
        // Who gives up has seen the winner, or one who was about to give up too.
        const refusals = rivals.map(({ pid }) => new DirectoryLock.DirectoryInUse({ directory, pid: pid ?? 0 }).message)
        const refused = said.filter((line) => line !== "taken")
        assert.lengthOf(refused, 2)
        for (const line of refused) assert.include(refusals, line)
      }),
    60_000
  )

  it.effect("refuses another part of the same process, until the first is done", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      const scope = yield* Scope.make()
      yield* Scope.provide(DirectoryLock.take(directory), scope)
      const error = yield* Effect.flip(DirectoryLock.take(directory))
      assert.strictEqual(error._tag === "DirectoryInUse" ? error.pid : undefined, process.pid)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* filesIn(directory), [])
      yield* DirectoryLock.take(directory)
    })
  )

  it.effect("says what is wrong with a directory that cannot be made", () =>
    Effect.gen(function* () {
      const directory = yield* emptyDirectory
      const files = yield* FileSystem.FileSystem
      yield* Effect.orDie(files.writeFileString(`${directory}/file`, ""))
      const error = yield* Effect.flip(DirectoryLock.take(`${directory}/file/data`))
      assert.strictEqual(error._tag, "PlatformError")
    })
  )
})
