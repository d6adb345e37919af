import type { FetchLike } from "@modelcontextprotocol/sdk/shared/transport.js"

/** The largest message, in bytes, as over stdio. */
const mostMessage = 16 * 1024 * 1024

/** A server said more than it may. */
export class AnswerTooLarge extends Error {
  constructor() {
    super(`it sent a message of more than ${mostMessage} bytes`)
  }
}

/** `fetch` whose answers have at most one message's size; a stream of events has it for each event. */
export const boundedFetch =
  (fetch: FetchLike): FetchLike =>
  async (url, init) => {
    const answer = await fetch(url, init)
    if (answer.body === null) return answer
    const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true
    return new Response(answer.body.pipeThrough(bounded(isStream)), {
      status: answer.status,
      statusText: answer.statusText,
      headers: answer.headers
    })
  }

const lineBreak = 0x0a
const carriageReturn = 0x0d

/** Counts bytes, of events from one blank line to the next. */
const bounded = (isStream: boolean) => {
  let size = 0
  let isBlank = true
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      for (const byte of isStream ? chunk : []) {
        size += 1
        if (byte === lineBreak) {
          if (isBlank) size = 0
          isBlank = true
        } else if (byte !== carriageReturn) isBlank = false
        if (size > mostMessage) return controller.error(new AnswerTooLarge())
      }
      if (!isStream) size += chunk.length
      if (size > mostMessage) return controller.error(new AnswerTooLarge())
      controller.enqueue(chunk)
    }
  })
}
