import { Effect, Schema } from "effect"
import { freePort } from "./FreePort.ts"
import { getJson } from "./Http.ts"
import { RunFolder } from "./RunFolder.ts"
import { startProcess } from "./RunningProcess.ts"

const Database = Schema.Struct({ url: Schema.String, pid: Schema.Int })
export type Database = typeof Database.Type

/** An empty database for one run; `pid` is the server that all its sessions descend from. */
export const startPostgres = Effect.fn("startPostgres")(function* () {
  const { path } = yield* RunFolder
  const port = yield* freePort
  const statusPort = yield* freePort
  const status = `http://127.0.0.1:${statusPort}/`
  yield* startProcess({
    name: "postgres",
    command: process.execPath,
    args: [`${import.meta.dirname}/PostgresServer.ts`, `${port}`, `${path}/postgres`, `${statusPort}`],
    probe: status
  })
  return yield* getJson(status, Database)
})
