/**
 * `npm run test:endurance`: one process on Postgres under paced streams and JSON requests for half an hour. Fails when
 * its resident memory still grows after the first fifth of that, or when a request is not served. See `--help`.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Layer, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { Agent, type IncomingMessage } from "node:http"
import type { Contender } from "../bench/contenders/Contender.ts"
import { startUpstream } from "../bench/contenders/Direct.ts"
import { startGateway } from "../bench/contenders/Gateway.ts"
import { openStream } from "../bench/load/OpenStream.ts"
import { startPostgres } from "../bench/machine/Postgres.ts"
import { residentBytes } from "../bench/machine/ProcessStats.ts"
import { RunFolder } from "../bench/machine/RunFolder.ts"
import { type BenchModel, requestBody } from "../bench/Workload.ts"

const minutes = Flag.Int("minutes").pipe(
  Flag.withDescription("How long to run (1 to 1440); in less than 20 the heap still warms up, and that fails"),
  Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_440 }))),
  Flag.withDefault(30)
)

/** Streams that run at any time, of about a second each, and clients that ask for JSON after a short pause. */
const streams = 64
const askers = 8
const pauseMillis = 50

const samplesPerMinute = 12

/** How much more the last fifth may hold than the second one. The first belongs to the warm-up. */
const mostGrowth = 1.1

class NotServed extends Schema.TaggedError<NotServed>()("NotServed", { model: Schema.String, reason: Schema.String }) {
  override get message() {
    return `a request for ${this.model} was not served: ${this.reason}`
  }
}

class MemoryGrew extends Schema.TaggedError<MemoryGrew>()("MemoryGrew", {
  second: Schema.Finite,
  last: Schema.Finite
}) {
  override get message() {
    return `resident memory grew from ${this.second.toFixed(0)} to ${this.last.toFixed(0)} MB`
  }
}

class NothingToSee extends Schema.TaggedError<NothingToSee>()("NothingToSee", {}) {
  override get message() {
    return "the memory of a process can be read on Linux only"
  }
}

/** One request, read to its end. */
const served = (contender: Contender, agent: Agent, model: BenchModel): Effect.Effect<void, NotServed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const text = await textOf(await openStream(contender, agent, requestBody(model), signal))
      if (model === "bench-paced" && !text.endsWith("data: [DONE]\n\n"))
        throw new Error(`it ended with ${text.slice(-200)}`)
    },
    catch: (cause) => new NotServed({ model, reason: String(cause) })
  })

const textOf = async (response: IncomingMessage): Promise<string> => {
  let text = ""
  for await (const piece of response.setEncoding("utf8")) text += String(piece)
  return text
}

const endure = Effect.fn("endure")(function* ({ minutes }: { readonly minutes: number }) {
  const upstream = yield* startUpstream()
  const { contender } = yield* startGateway(upstream, yield* startPostgres())
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ keepAlive: true })),
    (agent) => Effect.sync(() => agent.destroy())
  )
  const counts = { streams: 0, json: 0 }

  const streaming = Effect.forever(
    Effect.tap(served(contender, agent, "bench-paced"), () => Effect.sync(() => counts.streams++))
  )
  const asking = Effect.forever(
    Effect.delay(
      Effect.tap(served(contender, agent, "bench-json"), () => Effect.sync(() => counts.json++)),
      pauseMillis
    )
  )
  const load = Effect.andThen(
    Effect.all([...Array.from({ length: streams }, () => streaming), ...Array.from({ length: askers }, () => asking)], {
      concurrency: "unbounded",
      discard: true
    }),
    Effect.never
  )

  const watch = Effect.gen(function* () {
    const samples: Array<number> = []
    yield* Console.log("minute  memory at the median and most (MB)  streams  JSON answers")
    for (let minute = 1; minute <= minutes; minute++) {
      for (let sample = 0; sample < samplesPerMinute; sample++) {
        yield* Effect.sleep(60_000 / samplesPerMinute)
        const bytes = residentBytes(contender.pid)
        if (bytes === undefined) return yield* new NothingToSee()
        samples.push(bytes / 1e6)
      }
      const last = samples.slice(-samplesPerMinute)
      const cells = [
        `${minute}`.padStart(6),
        `${median(last).toFixed(0)} ${Math.max(...last).toFixed(0)}`.padStart(35),
        `${counts.streams}`.padStart(7),
        `${counts.json}`.padStart(12)
      ]
      yield* Console.log(cells.join("  "))
    }
    return samples
  })

  const samples = yield* Effect.raceFirst(watch, load)
  const fifth = samples.length / 5
  const second = median(samples.slice(fifth, 2 * fifth))
  const last = median(samples.slice(-fifth))
  yield* Console.log(
    `median of the second fifth ${second.toFixed(0)} MB, of the last ${last.toFixed(0)} MB ` +
      `(${((last / second - 1) * 100).toFixed(1)} %)`
  )
  if (last > mostGrowth * second) return yield* new MemoryGrew({ second, last })
}, Effect.scoped)

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

Command.make("endurance", { minutes }, endure).pipe(
  Command.withDescription("Serves streams and JSON for long, and watches the memory that it takes"),
  Command.run({ version: "1.0.0" }),
  Effect.provide(RunFolder.layer.pipe(Layer.provideMerge(NodeServices.layer))),
  NodeRuntime.runMain
)
