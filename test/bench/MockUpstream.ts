/**
 * An OpenAI-compatible upstream in a process of its own, on plain `node:http`: whatever it spends is missing from the
 * contender, so every answer is rendered before the first request. Started with the port as its argument.
 *
 * `GET /visits` lists the requests of `bench-paced` and `bench-stalled` by their markers, and when a client left early.
 */
import { createServer, type ServerResponse } from "node:http"
import { completionsPath, frameCount as framesOfStreams, frameGap, thinkingTime } from "./Workload.ts"

interface ChatBody {
  readonly model: string
  readonly messages: ReadonlyArray<{ readonly content: string }>
  readonly stream_options?: { readonly include_usage?: boolean }
}

const usage = { prompt_tokens: 24, completion_tokens: framesOfStreams, total_tokens: 24 + framesOfStreams }
const created = 1_700_000_000
const id = "chatcmpl-bench"

const jsonAnswer = Buffer.from(
  JSON.stringify({
    id,
    object: "chat.completion",
    created,
    model: "bench-json",
    choices: [
      { index: 0, message: { role: "assistant", content: " word".repeat(framesOfStreams - 2) }, finish_reason: "stop" }
    ],
    usage
  })
)
const jsonHeaders = { "content-type": "application/json", "content-length": jsonAnswer.length }
const streamHeaders = { "content-type": "text/event-stream", "cache-control": "no-cache" }

const frame = (payload: object) => Buffer.from(`data: ${JSON.stringify(payload)}\n\n`)

const renderStream = (model: string, includeUsage: boolean, frameCount = framesOfStreams) => {
  const head = { id, object: "chat.completion.chunk", created, model }
  const tail = includeUsage ? { usage: null } : {}
  const frames = Array.from({ length: frameCount }, (_, n) =>
    frame({
      ...head,
      choices: [
        n === 0
          ? { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }
          : n === frameCount - 1
            ? { index: 0, delta: {}, finish_reason: "stop" }
            : { index: 0, delta: { content: " word" }, finish_reason: null }
      ],
      ...tail
    })
  )
  const end = Buffer.from("data: [DONE]\n\n")
  return { frames, end: includeUsage ? Buffer.concat([frame({ ...head, choices: [], usage }), end]) : end }
}

const streams = {
  "bench-burst": [renderStream("bench-burst", false), renderStream("bench-burst", true)],
  "bench-late": [renderStream("bench-late", false), renderStream("bench-late", true)],
  "bench-paced": [renderStream("bench-paced", false), renderStream("bench-paced", true)],
  "bench-turn": [renderStream("bench-turn", false, 3), renderStream("bench-turn", true, 3)]
} as const

const visits: Array<{ readonly marker: string; leftAt: number | null }> = []

const noteVisit = (response: ServerResponse, body: ChatBody) => {
  const visit: (typeof visits)[number] = { marker: body.messages.at(-1)?.content ?? "", leftAt: null }
  visits.push(visit)
  response.once("close", () => {
    if (!response.writableFinished) visit.leftAt = Date.now()
  })
}

const pick = (model: keyof typeof streams, body: ChatBody) =>
  streams[model][body.stream_options?.include_usage === true ? 1 : 0]

/**
 * Each frame is an HTTP chunk of its own, as real upstreams send them; those written in one turn leave
 * in one write to the socket.
 */
const burst = (response: ServerResponse, model: Exclude<keyof typeof streams, "bench-paced">, body: ChatBody) => {
  const { frames, end } = pick(model, body)
  response.writeHead(200, streamHeaders)
  for (const one of frames) response.write(one)
  response.end(end)
}

/**
 * Each frame is due at a time counted from the first. Intervals would drift: what one frame is late by, the rest of the
 * stream would be, and streams whose timers once fell into one turn of the loop would stay together and end in waves,
 * which those of a vendor's many customers do not.
 */
const paced = (response: ServerResponse, body: ChatBody) => {
  const { frames, end } = pick("bench-paced", body)
  const pending = frames.values()
  noteVisit(response, body)
  response.writeHead(200, streamHeaders)
  let due = performance.now()
  const send = () => {
    const next = pending.next()
    if (next.done) return void response.end(end)
    response.write(next.value)
    due += frameGap
    timer = setTimeout(send, Math.max(0, due - performance.now()))
  }
  let timer: NodeJS.Timeout | undefined
  response.once("close", () => clearTimeout(timer))
  send()
}

const answer = (response: ServerResponse, body: ChatBody) => {
  switch (body.model) {
    case "bench-json":
      response.writeHead(200, jsonHeaders)
      return response.end(jsonAnswer)
    case "bench-burst":
    case "bench-turn":
      return burst(response, body.model, body)
    case "bench-late":
      return setTimeout(() => burst(response, "bench-late", body), thinkingTime)
    case "bench-paced":
      return paced(response, body)
    case "bench-stalled":
      return noteVisit(response, body)
    default:
      return response.writeHead(404).end()
  }
}

const server = createServer((request, response) => {
  if (request.method === "POST" && request.url === completionsPath) {
    let text = ""
    request.setEncoding("utf8")
    request.on("data", (chunk: string) => (text += chunk))
    request.on("end", () => answer(response, JSON.parse(text) as ChatBody))
    return
  }
  if (request.url === "/visits") {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(visits))
    return
  }
  response.writeHead(404).end()
})
server.keepAliveTimeout = 600_000
server.listen(Number(process.argv[2]), "127.0.0.1")
