import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { SecretsUnavailable } from "../../src/application/ports/runtime/Secrets.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { environmentPath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../conformance/Samples.ts"

/** How the store behaves: how often it was read, and what comes before a reading or a commit. */
class Behaviour extends Context.Service<
  Behaviour,
  { reads: number; beforeRead: Effect.Effect<void>; beforeCommit: Effect.Effect<void> }
>()("test/Behaviour") {
  static readonly layer = Layer.sync(Behaviour, () =>
    Behaviour.of({ reads: 0, beforeRead: Effect.void, beforeCommit: Effect.void })
  )
}

const Watched = Layer.effect(
  WorkspaceFiles,
  Effect.gen(function* () {
    const files = yield* WorkspaceFiles
    const behaviour = yield* Behaviour
    return WorkspaceFiles.of({
      ...files,
      read: (workspace, path) =>
        Effect.suspend(() => {
          behaviour.reads++
          return Effect.andThen(behaviour.beforeRead, files.read(workspace, path))
        }),
      commit: (workspace, changes) =>
        Effect.suspend(() => Effect.andThen(behaviour.beforeCommit, files.commit(workspace, changes)))
    })
  })
)

const layer = Environment.layer.pipe(
  Layer.provideMerge(Watched),
  Layer.provideMerge(Behaviour.layer),
  Layer.provideMerge(Layer.fresh(InMemoryLive.layer))
)

const variables = (workspace: OrganizationId) =>
  Effect.flatMap(Environment, (environment) =>
    Effect.map(environment.variables(workspace), (found) =>
      Object.fromEntries([...found].map(([name, value]) => [name, Redacted.value(value)]))
    )
  )

const set = (workspace: OrganizationId, values: Readonly<Record<string, string | null>>) =>
  Effect.flatMap(Environment, (environment) =>
    environment.set(
      workspace,
      new Map(Object.entries(values).map(([name, value]) => [name, value === null ? null : Redacted.make(value)]))
    )
  )

/** Writes the file as an editor would. */
const write = (workspace: OrganizationId, content: string | Uint8Array) =>
  Effect.flatMap(WorkspaceFiles, (files) =>
    files.commit(workspace, [
      {
        path: environmentPath,
        content: typeof content === "string" ? new TextEncoder().encode(content) : content,
        basedOn: undefined
      }
    ])
  )

const text = (workspace: OrganizationId) =>
  Effect.flatMap(WorkspaceFiles, (files) =>
    Effect.map(
      files.read(workspace, environmentPath),
      Option.match({ onNone: () => null, onSome: ({ content }) => new TextDecoder().decode(content) })
    )
  )

describe("Environment", () => {
  it.effect("sets and removes several variables at once; the other lines stay", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      assert.deepStrictEqual(yield* variables(mine), {})
      yield* write(mine, "# mine\nOTHER=1\nA_TOKEN=old\n")
      yield* set(mine, { A_TOKEN: null, B_API_KEY: "a \"b\" 'c' # `d`", C_BASE_URL: "http://localhost:1/v1" })
      assert.deepStrictEqual(yield* variables(mine), {
        OTHER: "1",
        B_API_KEY: "a \"b\" 'c' # `d`",
        C_BASE_URL: "http://localhost:1/v1"
      })
      assert.match((yield* text(mine)) ?? "", /^# mine\nOTHER=1\nB_API_KEY=/)
      assert.deepStrictEqual(yield* variables(yield* account()), {})
    }).pipe(Effect.provide(layer))
  )

  it.effect("refuses other names and values that are no line, says what to change, and writes nothing", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      const refused = Effect.fnUntraced(function* (name: string, value: string | null) {
        const error = yield* Effect.flip(set(mine, { GOOD_API_KEY: "1", [name]: value }))
        assert.isTrue(error._tag === "InvalidVariable" && error.name === name)
        assert.notInclude(inspect(error, { depth: 9 }), "canary")
        return error.message
      })
      for (const name of [
        "PATH",
        "a_TOKEN",
        "1_TOKEN",
        "_TOKEN",
        "A-B_TOKEN",
        "NODE_OPTIONS",
        "A_API_KEYS",
        "A_TOKEN\n"
      ]) {
        assert.match(yield* refused(name, "1"), /ends in _API_KEY, _TOKEN or _BASE_URL/)
        yield* refused(name, null)
      }
      for (const value of ["canary\n", "canary\r", "\u2028canary"]) {
        assert.match(yield* refused("A_TOKEN", value), /line break/)
      }
      assert.match(yield* refused("A_TOKEN", "canary\0"), /NUL/)
      assert.match(yield* refused("A_TOKEN", "canary\ud800"), /surrogate/)
      assert.match(yield* refused("A_TOKEN", "é".repeat(2049)), /4096 bytes/)
      assert.isNull(yield* text(mine))
      yield* set(mine, { A_TOKEN: "é".repeat(2048) })
      assert.deepStrictEqual(yield* variables(mine), { A_TOKEN: "é".repeat(2048) })
    }).pipe(Effect.provide(layer))
  )

  it.effect("reads the store once in a second, however many ask", () =>
    Effect.gen(function* () {
      const behaviour = yield* Behaviour
      const mine = yield* account()
      yield* write(mine, "A_TOKEN=1")
      yield* Effect.all(
        Array.from({ length: 100 }, () => variables(mine)),
        { concurrency: "unbounded" }
      )
      yield* TestClock.adjust("999 millis")
      yield* variables(mine)
      assert.strictEqual(behaviour.reads, 1)
      yield* TestClock.adjust("1 millis")
      yield* variables(mine)
      assert.strictEqual(behaviour.reads, 2)
    }).pipe(Effect.provide(layer))
  )

  it.effect("sees at once what it wrote itself, and what it is told of", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      yield* variables(mine)
      yield* set(mine, { A_TOKEN: "1" })
      assert.deepStrictEqual(yield* variables(mine), { A_TOKEN: "1" })
      yield* write(mine, "A_TOKEN=2")
      yield* Effect.yieldNow
      assert.deepStrictEqual(yield* variables(mine), { A_TOKEN: "2" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("asks a store again at once that was away", () =>
    Effect.gen(function* () {
      const behaviour = yield* Behaviour
      const mine = yield* account()
      yield* set(mine, { A_TOKEN: "1" })
      behaviour.beforeRead = Effect.die(new Error("away"))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(variables(mine))))
      behaviour.beforeRead = Effect.void
      assert.deepStrictEqual(yield* variables(mine), { A_TOKEN: "1" })
    }).pipe(Effect.provide(layer))
  )

  it.effect("loses no variable when many are set at once, here and elsewhere", () =>
    Effect.gen(function* () {
      const behaviour = yield* Behaviour
      const mine = yield* account()
      behaviour.beforeCommit = Effect.yieldNow
      const names = Array.from({ length: 20 }, (_, index) => `A${index}_TOKEN`)
      yield* Effect.forEach(names, (name) => set(mine, { [name]: "1" }), { concurrency: "unbounded" })
      assert.sameMembers(Object.keys(yield* variables(mine)), names)
    }).pipe(Effect.provide(layer))
  )

  it.effect("says what a server without SECRETS_KEY lacks, and passes other defects on", () =>
    Effect.gen(function* () {
      const behaviour = yield* Behaviour
      const mine = yield* account()
      behaviour.beforeCommit = Effect.die(new SecretsUnavailable({ message: "SECRETS_KEY is not set" }))
      assert.deepInclude(yield* Effect.flip(set(mine, { A_TOKEN: "1" })), {
        _tag: "SecretsUnavailable",
        message: "SECRETS_KEY is not set"
      })
      behaviour.beforeCommit = Effect.die(new Error("the disk is full"))
      const exit = yield* Effect.exit(set(mine, { A_TOKEN: "1" }))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    }).pipe(Effect.provide(layer))
  )

  it.effect("does not damage a file that is not UTF-8, and keeps a byte order mark", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      yield* write(mine, Uint8Array.of(0x41, 0x3d, 0xff))
      assert.match((yield* Effect.flip(set(mine, { A_TOKEN: "1" }))).message, /not UTF-8/)
      yield* write(mine, "\uFEFFA_TOKEN=1\n")
      yield* set(mine, { B_TOKEN: "2" })
      const file = Option.getOrThrow(yield* (yield* WorkspaceFiles).read(mine, environmentPath))
      assert.strictEqual(Buffer.from(file.content).toString(), "\uFEFFA_TOKEN=1\nB_TOKEN=2\n")
      assert.deepStrictEqual(yield* variables(mine), { A_TOKEN: "1", B_TOKEN: "2" })
    }).pipe(Effect.provide(layer))
  )
})
