import { Effect } from "effect"
import { freePort } from "../machine/FreePort.ts"
import { startProcess } from "../machine/RunningProcess.ts"
import type { Contender } from "./Contender.ts"

/** The upstream itself: everything else is measured against the way to it. */
export const startUpstream = Effect.fn("startUpstream")(function* () {
  const origin = `http://127.0.0.1:${yield* freePort}`
  const { pid } = yield* startProcess({
    name: "upstream",
    command: process.execPath,
    args: [`${import.meta.dirname}/../MockUpstream.ts`, new URL(origin).port],
    probe: origin
  })
  return { name: "direct", origin, headers: {}, pid } satisfies Contender
})
