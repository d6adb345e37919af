import { Effect, Schema } from "effect"
import { once } from "node:events"
import { Agent } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import type { Contender } from "../contenders/Contender.ts"
import { getJson } from "../machine/Http.ts"
import { requestBody } from "../Workload.ts"
import { openStream } from "./OpenStream.ts"

const Visits = Schema.Array(Schema.Struct({ marker: Schema.String, leftAt: Schema.NullOr(Schema.Finite) }))

export class AbortProbeFailed extends Schema.TaggedError<AbortProbeFailed>()("AbortProbeFailed", {
  contender: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `client abort at ${this.contender}: ${this.reason}`
  }
}

/** Leaves in the middle of a stream, some frames after its first, and tells when. */
const leaveMidStream = async (contender: Contender, marker: string, afterMillis: number, signal: AbortSignal) => {
  const response = await openStream(contender, new Agent(), requestBody("bench-paced", marker), signal)
  response.on("error", () => undefined)
  response.resume()
  await once(response, "data", { signal })
  await sleep(afterMillis, undefined, { signal })
  response.destroy()
  return Date.now()
}

/** Leaves while the upstream has the request and has not answered, and tells when. */
const leaveBeforeAnswer = async (contender: Contender, marker: string, afterMillis: number, signal: AbortSignal) => {
  const leave = new AbortController()
  const answer = openStream(
    contender,
    new Agent(),
    requestBody("bench-stalled", marker),
    AbortSignal.any([signal, leave.signal])
  ).then(
    () => Promise.reject(new Error("an answer came that the upstream never sent")),
    (error: unknown) => (leave.signal.aborted ? undefined : Promise.reject(error))
  )
  await Promise.race([answer, sleep(afterMillis, undefined, { signal })])
  leave.abort()
  const at = Date.now()
  await answer
  return at
}

const ways = {
  "abort.stream": leaveMidStream,
  "abort.waiting": leaveBeforeAnswer
} as const
export type AbortWay = keyof typeof ways
export const abortWays = Object.keys(ways) as ReadonlyArray<AbortWay>

/**
 * Milliseconds from a client's leaving to the end of the upstream's request, `undefined` when it did not end. A request
 * that had not reached the upstream when its client left has nothing to end and is not counted.
 */
export const abortDelays = Effect.fn("abortDelays")(function* (
  way: AbortWay,
  contender: Contender,
  upstream: Contender,
  clients: number
) {
  const run = crypto.randomUUID()
  const left = yield* Effect.tryPromise({
    try: (signal) =>
      Promise.all(
        Array.from({ length: clients }, async (_, n) => {
          const marker = `${run} ${n}`
          return { marker, at: await ways[way](contender, marker, 200 + n * 10, signal) }
        })
      ),
    catch: (cause) => new AbortProbeFailed({ contender: contender.name, reason: String(cause) })
  }).pipe(Effect.timeout("15 seconds"))
  yield* Effect.sleep("1500 millis")
  const visits = yield* getJson(`${upstream.origin}/visits`, Visits)
  const leftAt = new Map(visits.map((visit) => [visit.marker, visit.leftAt] as const))
  return left.flatMap(({ marker, at }) => {
    const end = leftAt.get(marker)
    return end === undefined ? [] : [end === null ? undefined : Math.max(0, end - at)]
  })
})
