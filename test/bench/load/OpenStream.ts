import { type Agent, type IncomingMessage, request } from "node:http"
import type { Contender } from "../contenders/Contender.ts"
import { completionsPath } from "../Workload.ts"

/** Sends one completions request; settles when the answer's head has arrived. Aborting the signal drops the socket. */
export const openStream = (contender: Contender, agent: Agent, body: string, signal: AbortSignal) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(
      `${contender.origin}${completionsPath}`,
      {
        method: "POST",
        agent,
        signal,
        headers: { ...contender.headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) }
      },
      (response) => {
        if (response.statusCode === 200) return resolve(response)
        response.resume()
        reject(new Error(`status ${response.statusCode}`))
      }
    )
    sent.once("error", reject)
    sent.end(body)
  })
