/** What the body of an error may weigh, and a line of a stream: one that never ends must not fill the memory. In bytes. */
const mostErrorBytes = 64 * 1024
const mostLineBytes = 8 * 1024 * 1024

/** What the libraries of the SDK are given to call out by. */
export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** `fetch` as the SDK's libraries take it, whose answers are bounded, and which follows no redirect: it could be led anywhere. */
export const boundedFetch =
  (fetch: Fetch): typeof globalThis.fetch =>
  async (input, init) => {
    const answer = await fetch(input instanceof Request ? input.url : input, { ...init, redirect: "manual" })
    if (answer.body === null) return answer
    return new Response(answer.body.pipeThrough(answer.status === 200 ? boundedLines() : beginning()), {
      status: answer.status,
      statusText: answer.statusText,
      headers: answer.headers
    })
  }

const lineBreak = 0x0a

const boundedLines = () => {
  let line = 0
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      const at = chunk.lastIndexOf(lineBreak)
      line = at === -1 ? line + chunk.length : chunk.length - at - 1
      if (line > mostLineBytes) controller.error(new Error("a line of the answer has no end"))
      else controller.enqueue(chunk)
    }
  })
}

const beginning = () => {
  let left = mostErrorBytes
  return new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      controller.enqueue(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) controller.terminate()
    }
  })
}
