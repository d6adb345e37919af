import { Effect, FileSystem, Path, Predicate, Schedule, Schema } from "effect"

/** Another process has the embedded store open; PGlite would lose its transactions silently. */
export class DirectoryInUse extends Schema.TaggedError<DirectoryInUse>()("DirectoryInUse", {
  directory: Schema.String,
  pid: Schema.Int
}) {
  override get message() {
    return (
      `DATA_DIR ${this.directory} is in use by process ${this.pid}. Stop it first, give this one another ` +
      "DATA_DIR, or use DATABASE_URL: a Postgres takes any number of processes."
    )
  }
}

/** `gateway.<pid>.lock` */
const claimOf = (pid: number) => `gateway.${pid}.lock`
const claim = /^gateway\.(\d+)\.lock$/

/** What this process holds itself: another part of it is refused like another process. */
const held = new Set<string>()

/**
 * Holds the directory for this process until the scope ends. Whoever wants it claims it first, by a file that names its
 * process, and then looks for other claims: of two that come at once, at least one sees the other and steps back. The
 * claim of a dead process is removed.
 */
export const take = Effect.fn("DirectoryLock.take")(function* (directory: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const own = path.resolve(directory, claimOf(process.pid))

  const others = Effect.map(files.readDirectory(directory), (names) =>
    names.flatMap((name) => {
      const pid = Number(claim.exec(name)?.[1] ?? Number.NaN)
      return Number.isSafeInteger(pid) && pid !== process.pid ? [pid] : []
    })
  )

  const removeClaim = Effect.orDie(files.remove(own, { force: true }))
  const forget = Effect.sync(() => held.delete(own))

  const refuseOthers = Effect.gen(function* () {
    for (const pid of yield* others) {
      if (isAlive(pid)) return yield* new DirectoryInUse({ directory, pid })
      yield* files.remove(path.join(directory, claimOf(pid)), { force: true })
    }
  })

  const attempt = Effect.suspend(() => {
    if (held.has(own)) return Effect.fail(new DirectoryInUse({ directory, pid: process.pid }))
    held.add(own)
    return files.makeDirectory(directory, { recursive: true }).pipe(
      Effect.andThen(files.writeFileString(own, "", { mode: 0o600 })),
      Effect.andThen(Effect.onError(refuseOthers, () => removeClaim)),
      Effect.onError(() => forget)
    )
  })

  // Two that saw each other both stepped back; the pauses differ, so one of them comes first in the end.
  const pauses = Schedule.spaced("100 millis").pipe(Schedule.jittered, Schedule.upTo({ times: 5 }))

  yield* Effect.acquireRelease(
    Effect.retry(attempt, { schedule: pauses, while: Predicate.isTagged("DirectoryInUse") }),
    () => Effect.andThen(removeClaim, forget)
  )
})

/** Signal 0 asks only whether the process exists. */
const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
