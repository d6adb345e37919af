import { Effect, FileSystem, Schema } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { RunFolder } from "../machine/RunFolder.ts"
import { LoadFailed, type LoadResult, type LoadSpec } from "./LoadGenerator.ts"

const Summary = Schema.fromJsonString(
  Schema.Struct({
    requests: Schema.Int,
    micros: Schema.Int,
    meanMicros: Schema.Finite,
    p99Micros: Schema.Finite,
    status: Schema.Int,
    socket: Schema.Int,
    timeout: Schema.Int
  })
)

const script = `${import.meta.dirname}/load.lua`

const headerArgs = (headers: Record<string, string>) =>
  Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`])

/** One thread: the machine's cores belong to the contender and the upstream. */
export const runWrk = (program: string) =>
  Effect.fn("runWrk")(function* (spec: LoadSpec) {
    const files = yield* FileSystem.FileSystem
    const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
    const { path } = yield* RunFolder
    const bodyFile = `${path}/body.json`
    if (spec.body !== undefined) yield* files.writeFileString(bodyFile, spec.body)
    const failed = (reason: string) => new LoadFailed({ contender: spec.contender.name, path: spec.path, reason })
    const printed = yield* spawner.string(
      ChildProcess.make(program, [
        "-t1",
        `-c${spec.connections}`,
        `-d${spec.seconds}s`,
        "--timeout",
        "10s",
        "-s",
        script,
        ...headerArgs(spec.contender.headers),
        `${spec.contender.origin}${spec.path}`,
        ...(spec.body === undefined ? [] : ["--", bodyFile])
      ])
    )
    const summary = yield* Schema.decodeUnknownEffect(Summary)(/^#(.*)$/m.exec(printed)?.[1]).pipe(
      Effect.mapError(() => failed(`wrk printed: ${printed.slice(-500)}`))
    )
    if (summary.requests === 0 || summary.status + summary.socket + summary.timeout > 0) {
      return yield* failed(`not every request succeeded: ${JSON.stringify(summary)}`)
    }
    return {
      requests: summary.requests,
      requestsPerSecond: summary.requests / (summary.micros / 1_000_000),
      meanMillis: summary.meanMicros / 1000,
      p99Millis: summary.p99Micros / 1000
    } satisfies LoadResult
  })
