import { Effect, Schema } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { LoadFailed, type LoadResult, type LoadSpec } from "./LoadGenerator.ts"

const Summary = Schema.fromJsonString(
  Schema.Struct({
    requests: Schema.Struct({ total: Schema.Int }),
    duration: Schema.Finite,
    latency: Schema.Struct({ mean: Schema.Finite, p99: Schema.Finite }),
    errors: Schema.Int,
    non2xx: Schema.Int
  })
)

const headerArgs = (headers: Record<string, string>) =>
  Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}=${value}`])

/** For machines without wrk. It spends far more CPU itself, so its figures compare only with each other. */
export const runAutocannon = Effect.fn("runAutocannon")(function* (spec: LoadSpec) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const failed = (reason: string) => new LoadFailed({ contender: spec.contender.name, path: spec.path, reason })
  const printed = yield* spawner.string(
    ChildProcess.make("npx", [
      "--yes",
      "autocannon@9.0.0",
      "--json",
      "--no-progress",
      "-c",
      `${spec.connections}`,
      "-d",
      `${spec.seconds}`,
      ...(spec.body === undefined ? [] : ["-m", "POST", "-H", "content-type=application/json", "-b", spec.body]),
      ...headerArgs(spec.contender.headers),
      `${spec.contender.origin}${spec.path}`
    ])
  )
  const summary = yield* Schema.decodeUnknownEffect(Summary)(printed).pipe(
    Effect.mapError(() => failed(`autocannon printed: ${printed.slice(-500)}`))
  )
  if (summary.requests.total === 0 || summary.errors + summary.non2xx > 0) {
    return yield* failed(`not every request succeeded: ${JSON.stringify(summary)}`)
  }
  return {
    requests: summary.requests.total,
    requestsPerSecond: summary.requests.total / summary.duration,
    meanMillis: summary.latency.mean,
    p99Millis: summary.latency.p99
  } satisfies LoadResult
})
