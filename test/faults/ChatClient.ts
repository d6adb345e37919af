import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import type { IncomingHttpHeaders } from "node:http"
import { connect } from "node:net"
import { Agent, request } from "undici"

/** Where to ask, and as whom. */
export interface Caller {
  readonly baseUrl: string
  readonly key: string
}

/** Every request has a connection of its own: one that died with its server must not be used for the next. */
const agent = new Agent({ pipelining: 0, headersTimeout: 60_000, bodyTimeout: 60_000 })

/** The smallest chat request, with what a test adds. */
export const hello = (more: object = {}): object => ({
  model: "fake-model",
  messages: [{ role: "user", content: "Hi" }],
  ...more
})

/** The beginning of an answer, its body unread. */
export const send = (caller: Caller, body: object, requestId: string, signal?: AbortSignal) =>
  request(`${caller.baseUrl}/v1/chat/completions`, {
    dispatcher: agent,
    method: "POST",
    headers: {
      authorization: `Bearer ${caller.key}`,
      "content-type": "application/json",
      "x-request-id": requestId
    },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal })
  })

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** Milliseconds from sending to the last byte. */
  readonly ms: number
}

/** A whole answer. */
export const ask = async (caller: Caller, body: object = hello(), signal?: AbortSignal): Promise<Answer> => {
  const started = performance.now()
  const { body: content, headers, statusCode } = await send(caller, body, randomUUID(), signal)
  return { status: statusCode, headers, text: await content.text(), ms: performance.now() - started }
}

/** `GET` of a page, with or without a key. */
export const get = async (baseUrl: string, path: string, key?: string): Promise<Answer> => {
  const started = performance.now()
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const answer = await request(`${baseUrl}${path}`, { dispatcher: agent, headers })
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: await answer.body.text(),
    ms: performance.now() - started
  }
}

/**
 * How a stream ended for its client. `done`: with `[DONE]`. `error`: with an error chunk. `refused`: with a plain error
 * answer. `broken`: the connection broke, or closed without a word.
 */
export type StreamEnd = "done" | "error" | "refused" | "broken"

/** A streamed answer as it arrives. */
export interface ChatStream {
  readonly requestId: string
  readonly status: number
  /** Every byte so far, as text. */
  readonly raw: () => string
  /** What the model said so far. */
  readonly said: () => string
  /** How many pieces of it arrived. */
  readonly pieces: () => number
  /** Resolves when at least so many pieces have arrived, rejects when the stream ends before. */
  readonly reached: (pieces: number) => Promise<void>
  readonly ended: Promise<StreamEnd>
  /** Closes the connection. */
  readonly leave: () => void
}

/** Opens a stream; resolves when the head of the answer is there. */
export const openStream = async (caller: Caller, more: object = {}): Promise<ChatStream> => {
  const requestId = randomUUID()
  const abort = new AbortController()
  const answer = await send(caller, hello({ stream: true, ...more }), requestId, abort.signal)
  let raw = ""
  let waiting: Array<() => void> = []
  let over = false
  const notify = () => {
    for (const resolve of waiting) resolve()
    waiting = []
  }

  const chunks = () => raw.split("\n").filter((line) => line.startsWith("data: {"))
  const contents = () => chunks().flatMap((line) => contentOf(JSON.parse(line.slice("data: ".length))))

  const read = async (): Promise<StreamEnd> => {
    try {
      const decoder = new TextDecoder()
      for await (const bytes of answer.body as AsyncIterable<Buffer>) {
        raw += decoder.decode(bytes, { stream: true })
        notify()
      }
    } catch {
      return "broken"
    } finally {
      over = true
      notify()
    }
    if (answer.statusCode !== 200) return "refused"
    if (raw.endsWith("data: [DONE]\n\n")) return "done"
    return chunks().at(-1)?.includes(`"error":`) === true ? "error" : "broken"
  }

  const ended = read()
  return {
    requestId,
    status: answer.statusCode,
    raw: () => raw,
    said: () => contents().join(""),
    pieces: () => contents().length,
    reached: async (pieces) => {
      while (contents().length < pieces) {
        if (over) throw new Error(`the stream ended before piece ${pieces}:\n${raw}`)
        await new Promise<void>((resolve) => void waiting.push(resolve))
      }
    },
    ended,
    leave: () => abort.abort()
  }
}

interface Chunk {
  readonly choices: ReadonlyArray<{ readonly delta: { readonly content?: string } }>
}

const contentOf = ({ choices }: Chunk): ReadonlyArray<string> =>
  choices.flatMap(({ delta: { content = "" } }) => (content === "" ? [] : [content]))

const Summary = Schema.Struct({
  balance_usd: Schema.Finite,
  recent_model_usage: Schema.Array(
    Schema.Struct({ cost_usd: Schema.Finite, input_tokens: Schema.Int, output_tokens: Schema.Int })
  )
})

/** The billing summary as its owner sees it; the newest usage first. */
export const billing = async ({ baseUrl, key }: Caller): Promise<typeof Summary.Type> =>
  Schema.decodeUnknownSync(Summary)(JSON.parse((await get(baseUrl, "/v1/billing/summary", key)).text))

/** A client that asks for a stream and does not read it. */
export const openSlowly = async (caller: Caller): Promise<{ readonly leave: () => void }> => {
  const abort = new AbortController()
  const { body } = await send(caller, hello({ stream: true }), randomUUID(), abort.signal)
  body.on("error", () => undefined)
  return { leave: () => abort.abort() }
}

/** A client that asks for a stream and reads so many bytes of it a second: below HTTP, where no buffer reads ahead. */
export const openTrickling = async (
  { baseUrl, key }: Caller,
  { bytesPerSecond, ...more }: { readonly bytesPerSecond: number; readonly model: string }
): Promise<{ readonly leave: () => void }> => {
  const { host, hostname, port } = new URL(baseUrl)
  const body = JSON.stringify(hello({ stream: true, ...more }))
  const socket = connect(Number(port), hostname).pause()
  await once(socket, "connect")
  socket.on("error", () => socket.destroy())
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  )
  const reading = setInterval(() => void socket.read(bytesPerSecond), 1_000)
  return {
    leave: () => {
      clearInterval(reading)
      socket.destroy()
    }
  }
}
