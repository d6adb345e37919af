import { Console, Effect, Schema } from "effect"
import { once } from "node:events"
import { WebSocket } from "ws"
import type { Contender } from "../contenders/Contender.ts"
import { serve } from "../contenders/Gateway.ts"
import { UnexpectedAnswer } from "../machine/Http.ts"
import { median, type Measurement } from "../report/Measurement.ts"
import type { Bounds } from "./Rounds.ts"

/** Turns of a round that run one after the other, each in a session of its own. */
const alone = 100

/** Turns before the first round: until then the code of a turn is still being compiled. */
const beforehand = 150

/** Turns of a round that run at once, half of them sent to each of two processes. */
const atOnce = 200

const agent = (upstream: Contender) => `agentCard:
  name: Bench
  description: Answers without delay.
  url: http://localhost
  version: 1.0.0
systemPrompt: Be brief.
sessions:
  maxSessions: 1000000
llm:
  provider: openai-compatible
  model: bench-turn
  apiKey: upstream-key
  baseURL: ${upstream.origin}/v1
`

const Frame = Schema.fromJsonString(
  Schema.Struct({ event: Schema.String, data: Schema.Struct({ sessionId: Schema.optionalKey(Schema.String) }) })
)
const decode = Schema.decodeUnknownSync(Frame)

/** Hears of everything in the workspace; gives when the turn of a session ended, and how. */
const listening = ({ headers, origin }: Contender) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const socket = new WebSocket(`${origin.replace(/^http/u, "ws")}/ws`, { headers })
      const waiting = new Map<string, (event: string) => void>()
      socket.on("message", (data) => {
        const { data: about, event } = decode(Buffer.isBuffer(data) ? data.toString("utf8") : "")
        if (event !== "response" && event !== "error") return
        waiting.get(about.sessionId ?? "")?.(event)
      })
      await once(socket, "open")
      return {
        socket,
        ended: (session: string) => new Promise<string>((resolve) => void waiting.set(session, resolve))
      }
    }),
    ({ socket }) => Effect.sync(() => socket.terminate())
  )

type Listening = Effect.Success<ReturnType<typeof listening>>

const post = async ({ headers, origin }: Contender, path: string, body: object): Promise<void> => {
  const response = await fetch(`${origin}${path}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: status ${response.status}: ${text.slice(0, 500)}`)
}

/** Milliseconds from the message to the response, in a session that is there. */
const turn = async (contender: Contender, listener: Listening): Promise<number> => {
  const sessionId = crypto.randomUUID()
  await post(contender, "/api/sessions", { sessionId })
  const ended = listener.ended(sessionId)
  const started = performance.now()
  await post(contender, "/api/message", { message: "Hello", sessionId })
  const event = await ended
  if (event !== "response") throw new Error(`the turn ended with ${event}`)
  return performance.now() - started
}

const unexpected = (contender: Contender) => (cause: unknown) =>
  new UnexpectedAnswer({ url: contender.origin, reason: String(cause) })

/**
 * What a turn costs beside its model: from the message to the response on a WebSocket, with a model that answers at
 * once. Then many at the same time on two processes.
 */
export const turns = Effect.fn("turns")(function* (
  gateway: Contender,
  upstream: Contender,
  environment: Record<string, string>,
  { rounds }: Bounds
) {
  yield* Effect.tryPromise({
    try: () => post(gateway, "/api/agent/config", { yaml: agent(upstream) }),
    catch: unexpected(gateway)
  })
  const listener = yield* listening(gateway)
  const measurements: Array<Measurement> = []
  const add = (metric: Measurement["metric"], round: number, value: number) =>
    measurements.push({ metric, contender: "gateway", round, value })

  const one = Effect.tryPromise({ try: () => turn(gateway, listener), catch: unexpected(gateway) })
  yield* Effect.replicateEffect(one, beforehand)
  for (let round = 1; round <= rounds; round++) {
    const millis = yield* Effect.replicateEffect(one, alone)
    add("turn", round, median(millis) ?? Number.NaN)
  }

  const second = { ...gateway, ...(yield* serve("gateway-turns", environment)) }
  for (let round = 1; round <= rounds; round++) {
    yield* Console.error(`turns: round ${round} of ${rounds}`)
    const started = performance.now()
    yield* Effect.forEach(
      Array.from({ length: atOnce }, (_, index) => (index % 2 === 0 ? gateway : second)),
      (contender) => Effect.tryPromise({ try: () => turn(contender, listener), catch: unexpected(contender) }),
      { concurrency: "unbounded", discard: true }
    )
    add("turns.many", round, performance.now() - started)
  }
  return measurements
}, Effect.scoped)
