import { Effect, FileSystem } from "effect"
import type { Contender } from "../contenders/Contender.ts"
import { Load } from "../load/Load.ts"
import { freePort } from "../machine/FreePort.ts"
import { fetchText } from "../machine/Http.ts"
import { RunFolder } from "../machine/RunFolder.ts"
import { startProcess } from "../machine/RunningProcess.ts"
import type { Measurement } from "../report/Measurement.ts"
import { alternate, type Bounds } from "./Rounds.ts"
import { connections } from "./Throughput.ts"

const path = "/v1/models"

const startBareServer = Effect.fn("startBareServer")(function* (bytes: string) {
  const files = yield* FileSystem.FileSystem
  const file = `${(yield* RunFolder).path}/models.json`
  yield* files.writeFileString(file, bytes)
  const port = yield* freePort
  const origin = `http://127.0.0.1:${port}`
  const { pid } = yield* startProcess({
    name: "bare-node",
    command: process.execPath,
    args: [`${import.meta.dirname}/../contenders/BytesServer.ts`, `${port}`, file],
    probe: origin
  })
  return { name: "bare-node", origin, headers: {}, pid } satisfies Contender
})

/** The catalogue from the gateway, key and rate limit checked, against a bare Node server sending the same bytes. */
export const modelList = Effect.fn("modelList")(function* (gateway: Contender, { rounds, seconds }: Bounds) {
  const load = yield* Load
  const bytes = yield* fetchText(`${gateway.origin}${path}`, { headers: gateway.headers })
  const servers = [yield* startBareServer(bytes), gateway]
  const run = (contender: Contender, duration: number) => load.run({ contender, path, connections, seconds: duration })
  for (const contender of servers) yield* run(contender, Math.min(2, seconds))
  return yield* alternate("models", servers, rounds, (contender, round) =>
    run(contender, seconds).pipe(
      Effect.map((result): ReadonlyArray<Measurement> => [
        { metric: "models", contender: contender.name, round, value: result.requestsPerSecond }
      ])
    )
  )
}, Effect.scoped)
