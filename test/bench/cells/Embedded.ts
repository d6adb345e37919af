import { Effect, FileSystem, Schema } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { asContender, gatewayEnvironment, serve } from "../contenders/Gateway.ts"
import { RunFolder } from "../machine/RunFolder.ts"
import type { Measurement } from "../report/Measurement.ts"
import { completionsPath, requestBody } from "../Workload.ts"
import type { Bounds } from "./Rounds.ts"
import { connections, measureLoad } from "./Throughput.ts"

export class NoKeyPrinted extends Schema.TaggedError<NoKeyPrinted>()("NoKeyPrinted", { log: Schema.String }) {
  override get message() {
    return `the first embedded start printed no key: ${this.log}`
  }
}

const firstStart = Effect.fn("firstEmbeddedStart")(function* (environment: Record<string, string>) {
  const files = yield* FileSystem.FileSystem
  const { log } = yield* serve("gateway-embedded-first", environment)
  const text = yield* files.readFileString(log)
  const key = /sk-gw-\w+/.exec(text)?.[0]
  return key ?? (yield* new NoKeyPrinted({ log: text.slice(-2000) }))
}, Effect.scoped)

/** The service with its embedded store: every start after the first one, and what it holds under the JSON load. */
export const embedded = Effect.fn("embedded")(function* (upstream: Contender, { rounds, seconds }: Bounds) {
  const { path } = yield* RunFolder
  const environment = yield* gatewayEnvironment(upstream, { dataFolder: `${path}/embedded` })
  const key = yield* firstStart(environment)

  const measure = Effect.fn("embeddedRound")(function* (round: number) {
    const running = yield* serve(`gateway-embedded-${round}`, environment)
    const contender = asContender(running, key)
    const spec = { contender, path: completionsPath, body: requestBody("bench-json"), connections, seconds }
    const result = yield* measureLoad(spec, undefined)
    const figures = [
      ["embedded.start", running.startMillis],
      ["embedded.json", result.requestsPerSecond],
      ["embedded.resident", result.residentMegabytes]
    ] as const
    return figures.flatMap(([metric, value]): ReadonlyArray<Measurement> =>
      value === undefined ? [] : [{ metric, contender: "gateway", round, value }]
    )
  }, Effect.scoped)

  const measurements: Array<Measurement> = []
  for (let round = 1; round <= rounds; round++) measurements.push(...(yield* measure(round)))
  return measurements
})
