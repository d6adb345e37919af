import { Config, Effect, FileSystem, Schedule, Schema } from "effect"
import { ChildProcess } from "effect/process"
import { RunFolder } from "./RunFolder.ts"

export class NotStarted extends Schema.TaggedError<NotStarted>()("NotStarted", {
  name: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `${this.name} did not start: ${this.reason}`
  }
}

class NotReady extends Schema.TaggedError<NotReady>()("NotReady", {}) {}

export interface ProcessSpec {
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Record<string, string>
  /** Any answer of this address accepted by `ready` means that the process serves. */
  readonly probe: string
  readonly ready?: (status: number) => boolean
}

export interface RunningProcess {
  readonly pid: number
  readonly log: string
  /** Milliseconds from the spawn to the first accepted answer of the probe. */
  readonly startMillis: number
}

const tail = (text: string) => text.split("\n").slice(-15).join("\n").trim()

const probeOnce = (spec: ProcessSpec) =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(spec.probe, { signal, headers: { connection: "close" } })
      await response.body?.cancel()
      return response.status
    },
    catch: () => new NotReady()
  }).pipe(
    Effect.timeoutOrElse({ duration: "1 second", orElse: () => Effect.fail(new NotReady()) }),
    Effect.filterOrFail(spec.ready ?? (() => true), () => new NotReady())
  )

/**
 * Starts a process that lives as long as the scope, its output in a log file. Only `PATH`, `HOME` and what the spec
 * names reach its environment, so that a run does not depend on the shell it is started from.
 */
export const startProcess = Effect.fn("startProcess")(function* (spec: ProcessSpec) {
  const files = yield* FileSystem.FileSystem
  const log = `${(yield* RunFolder).path}/${spec.name}.log`
  const PATH = yield* Config.String("PATH")
  const HOME = yield* Config.String("HOME").pipe(Config.withDefault("/"))
  const started = performance.now()
  const child = yield* ChildProcess.make("/bin/sh", ["-c", `exec "$@" >>"$0" 2>&1`, log, spec.command, ...spec.args], {
    env: { PATH, HOME, ...spec.env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
    forceKillAfter: "8 seconds"
  })
  const failed = (reason: string) =>
    files.readFileString(log).pipe(
      Effect.orElseSucceed(() => ""),
      Effect.flatMap((text) => Effect.fail(new NotStarted({ name: spec.name, reason: `${reason}\n${tail(text)}` })))
    )
  yield* probeOnce(spec).pipe(
    Effect.retry(Schedule.spaced("5 millis")),
    Effect.raceFirst(Effect.flatMap(Effect.exit(child.exitCode), () => failed("it ended"))),
    Effect.timeoutOrElse({ duration: "30 seconds", orElse: () => failed("no answer within 30 seconds") })
  )
  return { pid: child.pid, log, startMillis: performance.now() - started } satisfies RunningProcess
})
