import { Effect } from "effect"
import { freePort } from "../machine/FreePort.ts"
import { startProcess } from "../machine/RunningProcess.ts"
import type { Contender } from "./Contender.ts"

export const startNodeProxy = Effect.fn("startNodeProxy")(function* (upstream: Contender) {
  const port = yield* freePort
  const origin = `http://127.0.0.1:${port}`
  const { pid } = yield* startProcess({
    name: "node-undici",
    command: process.execPath,
    args: [`${import.meta.dirname}/NodeProxyServer.ts`, `${port}`, upstream.origin],
    env: { NODE_ENV: "production" },
    probe: origin
  })
  return { name: "node-undici", origin, headers: {}, pid } satisfies Contender
})
