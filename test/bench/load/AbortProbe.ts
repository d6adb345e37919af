import { Effect, Schema } from "effect"
import { once } from "node:events"
import { Agent } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import type { Contender } from "../contenders/Contender.ts"
import { getJson } from "../machine/Http.ts"
import { type BenchModel, requestBody } from "../Workload.ts"
import { openStream } from "./OpenStream.ts"

const Departures = Schema.Array(Schema.Struct({ marker: Schema.String, at: Schema.Finite }))

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

const ways: ReadonlyArray<readonly [BenchModel, typeof leaveMidStream]> = [
  ["bench-paced", leaveMidStream],
  ["bench-stalled", leaveBeforeAnswer]
]

/** Milliseconds from a client's leaving to the end of the upstream's request; `undefined` when it did not end. */
export const abortDelays = Effect.fn("abortDelays")(function* (
  contender: Contender,
  upstream: Contender,
  clientsEach: number,
  run: string
) {
  const left = yield* Effect.tryPromise({
    try: (signal) =>
      Promise.all(
        ways.flatMap(([model, leave]) =>
          Array.from({ length: clientsEach }, async (_, n) => {
            const marker = `${contender.name} ${run} ${model} ${n}`
            return { marker, at: await leave(contender, marker, 200 + n * 10, signal) }
          })
        )
      ),
    catch: (cause) => new AbortProbeFailed({ contender: contender.name, reason: String(cause) })
  }).pipe(Effect.timeout("15 seconds"))
  yield* Effect.sleep("1500 millis")
  const seen = new Map(
    (yield* getJson(`${upstream.origin}/departures`, Departures)).map(({ marker, at }) => [marker, at] as const)
  )
  return left.map(({ marker, at }) => {
    const end = seen.get(marker)
    return end === undefined ? undefined : Math.max(0, end - at)
  })
})
