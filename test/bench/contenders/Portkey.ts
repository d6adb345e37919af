import { Effect, FileSystem } from "effect"
import { ChildProcess } from "effect/process"
import { freePort } from "../machine/FreePort.ts"
import { startProcess } from "../machine/RunningProcess.ts"
import { type Contender, ContenderMissing } from "./Contender.ts"

/** Kept between runs: only the first run of a checkout installs. */
const folder = `${import.meta.dirname}/../.contenders/portkey`
const entry = `${folder}/node_modules/@portkey-ai/gateway/build/start-server.js`

/** It asks for a range of `@hono/node-server` whose newest versions it does not run on. */
const manifest = {
  name: "bench-portkey",
  private: true,
  dependencies: { "@portkey-ai/gateway": "1.15.2" },
  overrides: { "@hono/node-server": "1.13.5" }
}

const install = Effect.fn("installPortkey")(function* () {
  const files = yield* FileSystem.FileSystem
  if (yield* files.exists(entry)) return
  yield* files.makeDirectory(folder, { recursive: true })
  yield* files.writeFileString(`${folder}/package.json`, JSON.stringify(manifest, null, 2))
  const npm = yield* ChildProcess.make(
    "npm",
    ["install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts"],
    { stdin: "ignore", stdout: "ignore", stderr: "ignore", forceKillAfter: "2 seconds" }
  )
  const code = yield* npm.exitCode
  if (code !== 0) return yield* new ContenderMissing({ name: "portkey", reason: `npm install ended with ${code}` })
}, Effect.scoped)

export const startPortkey = Effect.fn("startPortkey")(function* (upstream: Contender) {
  yield* install().pipe(
    Effect.timeoutOrElse({
      duration: "3 minutes",
      orElse: () => new ContenderMissing({ name: "portkey", reason: "npm install took over 3 minutes" })
    })
  )
  const port = yield* freePort
  const origin = `http://127.0.0.1:${port}`
  const { pid } = yield* startProcess({
    name: "portkey",
    command: process.execPath,
    args: ["--import", `${import.meta.dirname}/LoopbackOnly.ts`, entry, `--port=${port}`, "--headless"],
    env: { NODE_ENV: "production" },
    probe: origin
  })
  return {
    name: "portkey",
    origin,
    headers: {
      authorization: "Bearer upstream-key",
      "x-portkey-provider": "openai",
      "x-portkey-custom-host": `${upstream.origin}/v1`
    },
    pid
  } satisfies Contender
})
