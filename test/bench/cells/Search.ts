import { Config, Console, Effect, Schema } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import type { Contender } from "../contenders/Contender.ts"
import { UnexpectedAnswer } from "../machine/Http.ts"
import type { Database } from "../machine/Postgres.ts"
import type { Measurement, Metric } from "../report/Measurement.ts"
import type { Bounds } from "./Rounds.ts"

/** What `SearchFill.ts` prints. */
export const Filled = Schema.Struct({ common: Schema.Array(Schema.String) })

export class FillFailed extends Schema.TaggedError<FillFailed>()("FillFailed", { output: Schema.String }) {
  override get message() {
    return `messages to search in: ${this.output}`
  }
}

const many = 1_000_000
const tenth = many / 10

/** Of each kind, one after the other. */
const searches = 100

/** Of the most common words: those whose pages are asked for again and again. */
const mostAsked = 10

/** Requires that the organization `bench` is there, as the gateway of the run makes it. */
const fill = Effect.fn("fillMessages")(function* (database: Database, first: number, last: number) {
  yield* Console.error(`search: writing messages ${first} to ${last}`)
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const PATH = yield* Config.String("PATH")
  const printed = yield* spawner.string(
    ChildProcess.make(
      process.execPath,
      [`${import.meta.dirname}/SearchFill.ts`, database.url, "bench", `${first}`, `${last}`],
      { env: { PATH, NODE_ENV: "production" }, stdin: "ignore" }
    ),
    { includeStderr: true }
  )
  return yield* Schema.decodeUnknownEffect(Schema.fromJsonString(Filled))(/^\{.*\}$/m.exec(printed)?.[0]).pipe(
    Effect.mapError(() => new FillFailed({ output: printed.slice(-2000) }))
  )
})

const Answer = Schema.Struct({ total: Schema.Int, results: Schema.Array(Schema.Json) })
const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Answer))

/** Milliseconds of one search, until its answer is there and has at least so many hits. */
const timed = Effect.fn("timedSearch")(function* ({ headers, origin }: Contender, path: string, least: number) {
  const url = `${origin}/api/search/${path}`
  return yield* Effect.tryPromise({
    try: async (signal) => {
      const started = performance.now()
      const response = await fetch(url, { headers, signal })
      const text = await response.text()
      const millis = performance.now() - started
      if (response.status !== 200) throw new Error(`status ${response.status}: ${text.slice(0, 500)}`)
      const { total } = decode(text)
      if (total < least) throw new Error(`${total} hits, expected at least ${least}`)
      return millis
    },
    catch: (cause) => new UnexpectedAnswer({ url, reason: String(cause) })
  })
})

const p95 = (values: ReadonlyArray<number>) =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? Number.NaN

/** Searches in a workspace of 100,000 messages, then of 1,000,000, as a caller sees them. */
export const search = Effect.fn("search")(function* (gateway: Contender, database: Database, { rounds }: Bounds) {
  const measurements: Array<Measurement> = []
  const add = (metric: Metric, round: number, values: ReadonlyArray<number>) =>
    measurements.push({ metric, contender: "gateway", round, value: p95(values) })
  let asked = 0

  /** Each for another phrase. */
  const selective = Effect.fn("selectiveSearches")(function* (hits: number) {
    const times: Array<number> = []
    for (let count = 0; count < searches; count++) {
      const topic = `${(asked++ * 7919) % 50_000}`.padStart(5, "0")
      times.push(yield* timed(gateway, `messages?q=TOPIC-${topic}x`, hits))
    }
    return times
  })

  yield* fill(database, 0, tenth - 1)
  yield* selective(tenth / 50_000)
  for (let round = 1; round <= rounds; round++) add("search.tenth", round, yield* selective(tenth / 50_000))

  const { common } = yield* fill(database, tenth, many - 1)
  yield* selective(many / 50_000)
  for (let round = 1; round <= rounds; round++) {
    yield* Console.error(`search: round ${round} of ${rounds}`)
    add("search.selective", round, yield* selective(many / 50_000))
    // Words of an earlier round are not searched for the first time.
    if (round === 1) {
      const first: Array<number> = []
      for (const word of common) first.push(yield* timed(gateway, `messages?q=${word}`, many / 100))
      add("search.first", round, first)
    }
    const again: Array<number> = []
    for (let count = 0; count < searches; count++) {
      const path = `messages?q=${common[count % mostAsked]}&limit=20&offset=${Math.floor(count / mostAsked) * 20}`
      again.push(yield* timed(gateway, path, many / 100))
    }
    add("search.common", round, again)
    const sessions: Array<number> = []
    for (const word of common.slice(0, mostAsked)) yield* timed(gateway, `sessions?q=${word}`, many / 1_000)
    for (let count = 0; count < searches; count++) {
      sessions.push(yield* timed(gateway, `sessions?q=${common[count % mostAsked]}`, many / 1_000))
    }
    add("search.sessions", round, sessions)
  }
  return measurements
})
