import { Console, Effect } from "effect"
import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import { WebSocket } from "ws"
import type { Contender } from "../contenders/Contender.ts"
import { serve } from "../contenders/Gateway.ts"
import { UnexpectedAnswer } from "../machine/Http.ts"
import { residentBytes } from "../machine/ProcessStats.ts"
import type { Measurement } from "../report/Measurement.ts"
import type { Bounds } from "./Rounds.ts"

const sockets = 10_000

/** Handshakes that are on their way at once. */
const atOnce = 100

/** Until what the handshakes needed is collected, and the pings of the first sockets are answered. */
const settling = 40_000

const open = async ({ headers, origin }: Pick<Contender, "headers" | "origin">): Promise<WebSocket> => {
  const socket = new WebSocket(`${origin.replace(/^http/u, "ws")}/ws`, { headers })
  socket.on("error", () => undefined)
  await once(socket, "open")
  return socket
}

/** Milliseconds from a frame that makes no sense to the answer that says so: the process is not busy with the sockets. */
const answerTime = async (socket: WebSocket): Promise<number> => {
  const started = performance.now()
  socket.send("?")
  await once(socket, "message")
  return performance.now() - started
}

/** What an idle WebSocket costs a process: what it holds more with ten thousand of them than with a hundred. */
export const idleSockets = Effect.fn("idleSockets")(function* (
  gateway: Contender,
  environment: Record<string, string>,
  { rounds }: Bounds
) {
  const measurements: Array<Measurement> = []
  for (let round = 1; round <= rounds; round++) {
    yield* Console.error(`sockets: round ${round} of ${rounds}`)
    const running = yield* serve(`gateway-sockets-${round}`, environment)
    const service = { ...gateway, ...running }
    const { answer, kilobytes } = yield* Effect.tryPromise({
      try: async () => {
        const all: Array<WebSocket> = []
        const openUpTo = async (number: number) => {
          while (all.length < number)
            all.push(...(await Promise.all(Array.from({ length: atOnce }, () => open(service)))))
        }
        try {
          await openUpTo(atOnce)
          await sleep(5_000)
          const before = residentBytes(service.pid) ?? Number.NaN
          await openUpTo(atOnce + sockets)
          await sleep(settling)
          const lost = all.filter(({ readyState }) => readyState !== WebSocket.OPEN).length
          if (lost > 0) throw new Error(`${lost} sockets were lost`)
          const [first] = all
          if (first === undefined) throw new Error("no socket is open")
          return {
            kilobytes: ((residentBytes(service.pid) ?? Number.NaN) - before) / 1024 / sockets,
            answer: await answerTime(first)
          }
        } finally {
          for (const socket of all) socket.terminate()
        }
      },
      catch: (cause) => new UnexpectedAnswer({ url: service.origin, reason: String(cause) })
    })
    measurements.push({ metric: "socket", contender: "gateway", round, value: kilobytes })
    measurements.push({ metric: "socket.answer", contender: "gateway", round, value: answer })
  }
  return measurements
}, Effect.scoped)
