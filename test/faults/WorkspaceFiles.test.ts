import { NodeFileSystem } from "@effect/platform-node"
import { Cause, Effect, Exit, type FileSystem, type Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import * as Clients from "../../src/adapters/postgres/Clients.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { type BeforeStep, layer as stepped, noSpace } from "./SteppedFiles.ts"
import { after, before, changes, commit, create, opened, type Tree, tree } from "./Workspace.ts"

const run = promisify(execFile)

describe("a commit to a workspace on disk", () => {
  let data: string
  let fresh: string

  beforeEach(async () => {
    data = await mkdtemp(join(tmpdir(), "gateway-workspace-"))
    fresh = join(data, "fresh")
    await inside(fresh, commit(create))
  })
  afterEach(() => rm(data, { recursive: true, force: true }))

  /** What a process does with a directory. */
  const inside = <A, E>(
    directory: string,
    effect: Effect.Effect<A, E, Layer.Success<ReturnType<typeof opened>>>,
    files: Layer.Layer<FileSystem.FileSystem> = NodeFileSystem.layer
  ): Promise<A> => Effect.runPromise(Effect.provide(effect, opened(directory, files)))

  /** A copy of the workspace as it was, to break. */
  const copy = async (name: string): Promise<string> => {
    const directory = join(data, name)
    await cp(fresh, directory, { recursive: true, preserveTimestamps: true })
    return directory
  }

  /** Whole, either as it was or as it should be; and usable, with nothing left over. */
  const expectWhole = async (directory: string, problem: string): Promise<Tree> => {
    const found = await inside(directory, tree)
    expect([before, after], problem).toContainEqual(found)
    expect((await stat(join(directory, "workspaces/acme/.env"))).mode & 0o777).toBe(0o600)
    await inside(directory, commit(changes))
    expect(await inside(directory, tree), problem).toEqual(after)
    expect((await readdir(join(directory, "workspaces/acme"))).sort()).toEqual([".env", "agents", "keep"])
    return found
  }

  test("is whole after a kill -9 before every step of it", { timeout: 600_000 }, async () => {
    const outcomes: Array<Tree> = []
    for (let step = 1; ; step++) {
      const directory = await copy(`killed-${step}`)
      const child = spawn(process.execPath, [join(import.meta.dirname, "WorkspaceKilled.ts"), directory, `${step}`], {
        stdio: ["ignore", "ignore", "inherit"]
      })
      await once(child, "exit")
      if (child.signalCode === null) {
        expect(child.exitCode).toBe(0)
        break
      }
      expect(child.signalCode).toBe("SIGKILL")
      outcomes.push(await expectWhole(directory, `killed before step ${step}`))
    }
    // All that come before one step are old, all from there on new.
    const firstNew = outcomes.findIndex((outcome) => outcome["keep"] === "old" && "agents/b/deep/b.yml" in outcome)
    expect(firstNew).toBeGreaterThan(10)
    expect(outcomes.length - firstNew).toBeGreaterThan(10)
    expect(outcomes.slice(firstNew)).toEqual(outcomes.slice(firstNew).map(() => after))
  })

  /** Ends a process before a step: nothing that it would have done later is done. */
  const endingBefore = (step: number): { readonly count: () => number; readonly before: BeforeStep } => {
    let steps = 0
    return {
      count: () => steps,
      before: () => Effect.suspend(() => (++steps >= step ? Effect.die("ended") : Effect.void))
    }
  }

  test("is whole when the process that finishes it after a crash is ended too, before every step", async () => {
    let crashes = 0
    for (let first = 1; ; first++) {
      const committing = endingBefore(first)
      const broken = await copy(`ended-${first}`)
      const ended = await Effect.runPromiseExit(
        Effect.provide(commit(changes), opened(broken, stepped(committing.before)))
      )
      if (Exit.isSuccess(ended)) break
      for (let second = 1; ; second++) {
        const directory = join(data, `ended-${first}-${second}`)
        await cp(broken, directory, { recursive: true, preserveTimestamps: true })
        const finishing = endingBefore(second)
        const exit = await Effect.runPromiseExit(Effect.provide(tree, opened(directory, stepped(finishing.before))))
        const problem = `ended before step ${first}, then before step ${second}`
        expect([before, after], problem).toContainEqual(await inside(directory, tree))
        await rm(directory, { recursive: true })
        if (Exit.isSuccess(exit)) break
        crashes++
      }
    }
    expect(crashes).toBeGreaterThan(50)
  })

  test("leaves nothing half-written on a disk that is full from any step on, and names the file", async () => {
    let full = 0
    for (let step = 1; ; step++) {
      const directory = await copy(`full-${step}`)
      let steps = 0
      let isFull = false
      // Renames and removals need no space.
      const filling: BeforeStep = (name) =>
        Effect.suspend(() =>
          isFull && ++steps >= step && !/^(?:rename|remove) /.test(name) ? Effect.fail(noSpace(name)) : Effect.void
        )
      const [exit, found] = await inside(
        directory,
        Effect.gen(function* () {
          yield* tree
          isFull = true
          const exit = yield* Effect.exit(commit(changes))
          isFull = false
          return [exit, yield* tree] as const
        }),
        stepped(filling)
      )
      if (Exit.isSuccess(exit)) break
      full++
      expect(String(Cause.squash(exit.cause))).toMatch(/workspaces\/acme.*ENOSPC: no space left/)
      expect([before, after]).toContainEqual(found)
      await expectWhole(directory, `full from step ${step} on`)
    }
    expect(full).toBeGreaterThan(15)
  })

  test.skipIf(process.getuid?.() !== 0)(
    "is refused by a real disk that is full, and works when there is room",
    async () => {
      const disk = join(data, "disk")
      await mkdir(disk)
      await run("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk])
      try {
        await inside(disk, commit(create))
        const filler = join(disk, "filler")
        await writeFile(filler, new Uint8Array(2 ** 21)).catch((error: NodeJS.ErrnoException) => {
          if (error.code !== "ENOSPC") throw error
        })
        await inside(
          disk,
          Effect.gen(function* () {
            const exit = yield* Effect.exit(commit(changes))
            expect(String(Exit.isFailure(exit) && Cause.squash(exit.cause))).toMatch(/workspaces\/acme.*ENOSPC/)
            expect(yield* tree).toEqual(before)
            yield* Effect.promise(() => rm(filler))
            yield* commit(changes)
            expect(yield* tree).toEqual(after)
          })
        )
      } finally {
        await run("umount", [disk])
      }
    }
  )
})

describe("workspaces on Postgres", () => {
  const clients: Array<ChildProcess> = []
  afterEach(() => {
    for (const client of clients.splice(0)) client.kill("SIGKILL")
  })

  const Line = Schema.fromJsonString(
    Schema.Struct({
      at: Schema.Finite,
      ready: Schema.optionalKey(Schema.Boolean),
      ended: Schema.optionalKey(Schema.String),
      told: Schema.optionalKey(Schema.Struct({ workspace: Schema.String, paths: Schema.Array(Schema.String) }))
    })
  )
  type Line = typeof Line.Type

  const start = async (url: string) => {
    const child = spawn(process.execPath, [join(import.meta.dirname, "WorkspaceClient.ts"), url], {
      stdio: ["pipe", "pipe", "inherit"]
    })
    clients.push(child)
    const lines: Array<Line> = []
    createInterface(child.stdout).on("line", (line) => {
      if (line.startsWith("{")) lines.push(Schema.decodeUnknownSync(Line)(line))
    })
    const next = async (wanted: (line: Line) => boolean): Promise<Line> => {
      for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(5)) {
        const index = lines.findIndex(wanted)
        const [found] = index === -1 ? [] : lines.splice(index, 1)
        if (found !== undefined) return found
      }
      throw new Error("the client did not say it")
    }
    await next(({ ready }) => ready === true)
    return {
      commit: async (request: object) => {
        child.stdin.write(`${JSON.stringify(request)}\n`)
        return await next(({ ended }) => ended !== undefined)
      },
      told: (path: string) => next(({ told }) => told?.paths.includes(path) === true)
    }
  }

  const prepared = async () => {
    const url = await freshDatabase("workspaces")
    const sql = <A>(use: (sql: SqlClient.SqlClient) => Effect.Effect<A, unknown>): Promise<A> =>
      Effect.flatMap(SqlClient.SqlClient, use).pipe(
        Effect.provide(Clients.server({ url: Redacted.make(url), maxConnections: 2 })),
        Effect.runPromise
      )
    await openAccounts({ env: { DATABASE_URL: url } }, { acme: 0 })
    const [organization] = await sql((sql) => sql<{ readonly id: string }>`SELECT id FROM organizations`)
    return { url, sql, workspace: organization?.id ?? "", one: await start(url), other: await start(url) }
  }

  test("of two processes that commit to the same version at once, one wins", async () => {
    const { one, other, sql, workspace } = await prepared()
    for (let round = 0; round < 20; round++) {
      const rows = await sql(
        (sql) => sql<{ readonly version: string }>`SELECT version::text FROM workspace_files WHERE path = 'a'`
      )
      const request = { workspace, path: "a", text: `${round}`, basedOn: rows[0]?.version ?? null }
      const [first, second] = await Promise.all([one.commit(request), other.commit(request)])
      expect(new Set([first.ended, second.ended])).toEqual(new Set(["WorkspaceConflict", "won"]))
    }
  })

  test("a change is told to the other process within a second, also while its notices are cut off", async () => {
    const { one, other, sql, workspace } = await prepared()
    const listeners = (sql: SqlClient.SqlClient) => sql<{ readonly ended: boolean }>`
      SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
      WHERE datname = current_database() AND query ILIKE 'LISTEN%'`
    const delays: Array<number> = []
    for (const [round, cut] of [false, false, true, false, true, true, true, true].entries()) {
      if (cut) {
        const ended = await sql(listeners)
        expect(ended.length).toBeGreaterThan(0)
        // At every moment of what comes after: nobody has noticed, nobody listens, all listen again.
        await sleep((round % 4) * 200)
      }
      const path = `file-${round}`
      const { at, ended } = await one.commit({ workspace, path, text: "1" })
      expect(ended).toBe("won")
      delays.push((await other.told(path)).at - at)
      await one.told(path)
      await sleep(700)
    }
    expect(Math.max(...delays), delays.join(", ")).toBeLessThanOrEqual(1_000)
    console.info(`told after ${delays.join(", ")} ms; cut off from the third on`)
  })

  test("nothing of .env can be read in the database", async () => {
    const { one, sql, workspace } = await prepared()
    await one.commit({ workspace, path: ".env", text: "A_TOKEN=canary" })
    await one.commit({ workspace, path: "plain", text: "A_TOKEN=canary" })
    const rows = await sql(
      (sql) => sql<{ readonly path: string; readonly content: Uint8Array }>`SELECT path, content FROM workspace_files`
    )
    const readable = rows.filter(({ content }) => {
      const text = Buffer.from(content).toString("latin1")
      return `${text}${Buffer.from(text, "base64").toString("latin1")}`.includes("canary")
    })
    expect(rows.length).toBe(2)
    expect(readable.map(({ path }) => path)).toEqual(["plain"])
  })
})
