import { Effect, FileSystem, Option, Path, Schema, type Scope } from "effect"

/** Another process has the embedded store open; PGlite would lose its transactions silently. */
export class DirectoryInUse extends Schema.TaggedError<DirectoryInUse>()("DirectoryInUse", {
  directory: Schema.String,
  pid: Schema.Int
}) {
  override get message() {
    return `DATA_DIR ${this.directory} is in use by process ${this.pid}. Stop it first, give this one another ` +
      "DATA_DIR, or use DATABASE_URL: a Postgres takes any number of processes."
  }
}

/** Holds `<directory>/gateway.pid` with this process's id until the scope ends. The lock of a dead process is taken. */
export const take = (directory: string): Effect.Effect<void, DirectoryInUse, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const files = yield* FileSystem.FileSystem
    const file = (yield* Path.Path).join(directory, "gateway.pid")

    const claim = files.writeFileString(file, String(process.pid), { flag: "wx", mode: 0o600 })

    const holder = files.readFileString(file).pipe(
      Effect.map((text) => Number.parseInt(text, 10)),
      Effect.catchReason("PlatformError", "NotFound", () => Effect.succeed(Number.NaN)),
      Effect.orDie,
      Effect.map((pid) => isAlive(pid) ? Option.some(pid) : Option.none())
    )

    const takeOver = Effect.gen(function*() {
      const pid = yield* holder
      if (Option.isSome(pid)) return yield* new DirectoryInUse({ directory, pid: pid.value })
      yield* Effect.orDie(files.remove(file, { force: true }))
      yield* Effect.orDie(claim)
    })

    yield* Effect.orDie(files.makeDirectory(directory, { recursive: true }))
    yield* Effect.acquireRelease(
      Effect.catchReason(claim, "PlatformError", "AlreadyExists", () => takeOver).pipe(
        Effect.catchTag("PlatformError", Effect.die)
      ),
      () => Effect.orDie(files.remove(file, { force: true }))
    )
  })

/** Signal 0 asks only whether the process exists. */
const isAlive = (pid: number): boolean => {
  if (!Number.isSafeInteger(pid) || pid === process.pid) return false
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}
