import { Effect, Schema } from "effect"
import { Agent, type IncomingMessage } from "node:http"
import type { Contender } from "../contenders/Contender.ts"
import { type BenchModel, frameCount, frameGap, requestBody } from "../Workload.ts"
import { openStream } from "./OpenStream.ts"

export class FirstByteFailed extends Schema.TaggedError<FirstByteFailed>()("FirstByteFailed", {
  contender: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `first byte of ${this.contender}: ${this.reason}`
  }
}

const firstByteThenEnd = (response: IncomingMessage) =>
  new Promise<number>((resolve, reject) => {
    let first = 0
    response.once("data", () => (first = performance.now()))
    response.on("data", () => undefined)
    response.once("end", () => (first === 0 ? reject(new Error("an empty stream")) : resolve(first)))
    response.once("error", reject)
  })

const sleep = (millis: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, millis)
    signal.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true })
  })

const sample = async (
  contender: Contender,
  model: BenchModel,
  streams: number,
  millis: number,
  signal: AbortSignal
) => {
  const agent = new Agent({ keepAlive: true, maxSockets: streams })
  const body = requestBody(model)
  const samples: Array<number> = []
  const worker = async (index: number) => {
    if (model === "bench-paced") await sleep((index / streams) * frameCount * frameGap, signal)
    const end = performance.now() + millis
    while (performance.now() < end && !signal.aborted) {
      const start = performance.now()
      samples.push((await firstByteThenEnd(await openStream(contender, agent, body, signal))) - start)
    }
  }
  try {
    await Promise.all(Array.from({ length: streams }, (_, index) => worker(index)))
    return samples
  } finally {
    agent.destroy()
  }
}

/**
 * Milliseconds from sending a request to the first byte of its stream's body, one figure per stream, for `seconds`.
 * Each worker opens its next stream when the last one ended. Workers on `bench-paced` start evenly spread over the
 * length of a stream, so that they do not all ask in the same instant.
 */
export const firstBytes = (contender: Contender, model: BenchModel, streams: number, seconds: number) =>
  Effect.tryPromise({
    try: (signal) => sample(contender, model, streams, seconds * 1000, signal),
    catch: (cause) => new FirstByteFailed({ contender: contender.name, reason: String(cause) })
  })
