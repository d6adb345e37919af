import { Effect, FileSystem, Schema } from "effect"
import { fileURLToPath } from "node:url"
import { freePort } from "../machine/FreePort.ts"
import type { Database } from "../machine/Postgres.ts"
import { RunFolder } from "../machine/RunFolder.ts"
import { type RunningProcess, startProcess } from "../machine/RunningProcess.ts"
import { models } from "../Workload.ts"
import { type Contender, ContenderMissing } from "./Contender.ts"
import { commandLine } from "./GatewayCommandLine.ts"

export const mainFile = fileURLToPath(new URL("../../../src/main.ts", import.meta.url))

/** Where the service keeps its state: a Postgres, or a data folder of the embedded store. */
export type Store = { readonly database: Database } | { readonly dataFolder: string }

const modelsFile = (upstream: string) =>
  [
    "upstreams:",
    "  bench:",
    `    base_url: ${upstream}/v1`,
    "    api_key: BENCH_UPSTREAM_KEY",
    "models:",
    ...models.flatMap((id) => [
      `  - id: ${id}`,
      "    upstream: bench",
      "    max_input_tokens: 128000",
      "    max_output_tokens: 1024",
      "    pricing: { input: 0.15, output: 0.6 }"
    ]),
    ""
  ].join("\n")

/**
 * The environment of the service as deployed. The rate policies stand so high that they admit everything and are
 * still counted; draining waits for nobody, so that a run can end.
 */
export const gatewayEnvironment = Effect.fn("gatewayEnvironment")(function* (upstream: Contender, store: Store) {
  const files = yield* FileSystem.FileSystem
  const { path } = yield* RunFolder
  yield* files.writeFileString(`${path}/models.yml`, modelsFile(upstream.origin))
  return {
    NODE_ENV: "production",
    NODE_COMPILE_CACHE: `${path}/compile-cache`,
    HOST: "127.0.0.1",
    MODELS_FILE: `${path}/models.yml`,
    BENCH_UPSTREAM_KEY: "upstream-key",
    SECRETS_KEY: Buffer.alloc(32, "bench").toString("base64"),
    RATE_LIMIT_CHAT: "100000000",
    RATE_LIMIT_MODELS: "100000000",
    DRAIN_DELAY: "0",
    DRAIN_TIMEOUT: "1",
    ALLOW_PRIVATE_UPSTREAMS: "true",
    ...("database" in store ? { DATABASE_URL: store.database.url } : { DATA_DIR: store.dataFolder })
  }
})

/** Starts the service and waits until it is ready; `startMillis` is the figure of the row "start to ready". */
export const serve = Effect.fn("serveGateway")(function* (name: string, environment: Record<string, string>) {
  const port = yield* freePort
  const running = yield* startProcess({
    name,
    command: process.execPath,
    args: [mainFile, "serve"],
    env: { ...environment, PORT: `${port}` },
    probe: `http://127.0.0.1:${port}/health/ready`,
    ready: (status) => status === 200
  })
  return { ...running, origin: `http://127.0.0.1:${port}` }
})

export const asContender = (running: RunningProcess & { readonly origin: string }, key: string): Contender => ({
  name: "gateway",
  origin: running.origin,
  headers: { authorization: `Bearer ${key}` },
  pid: running.pid
})

const Key = Schema.Struct({ key: Schema.String })

/** One organization with credit that no run can spend, and a key of its owner. */
const openAccount = Effect.fn("openAccount")(function* (environment: Record<string, string>) {
  const run = commandLine(mainFile, environment)
  yield* run(["migrate"])
  yield* run(["orgs", "create", "bench", "--json"])
  yield* run(["members", "add", "bencher", "--org", "bench", "--role", "owner", "--json"])
  yield* run(["credits", "grant", "100000", "--org", "bench", "--json"])
  const printed = yield* run(["keys", "create", "--org", "bench", "--member", "bencher", "--json"])
  return (yield* Schema.decodeUnknownEffect(Schema.fromJsonString(Key))(printed)).key
})

/** This service as deployed, on Postgres. */
export const startGateway = Effect.fn("startGateway")(function* (upstream: Contender, database: Database) {
  const files = yield* FileSystem.FileSystem
  if (!(yield* files.exists(mainFile))) {
    return yield* new ContenderMissing({ name: "gateway", reason: `${mainFile} does not exist` })
  }
  const environment = yield* gatewayEnvironment(upstream, { database })
  const key = yield* openAccount(environment)
  return { contender: asContender(yield* serve("gateway", environment), key), environment }
})
