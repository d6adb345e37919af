import { expect } from "vitest"
import * as Contract from "./ContractSchemas.ts"

/** What came back of a request, whichever client sent it. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export const replyOf = async (response: Response): Promise<Reply> => ({
  status: response.status,
  headers: response.headers,
  text: await response.text()
})

/** Every error code with its status and whether a retry may help, where the code settles it (decisions 2). */
const codes: Readonly<Record<string, readonly [statuses: ReadonlyArray<number>, retryable?: boolean]>> = {
  invalid_json: [[400], false],
  invalid_request: [[400, 408]],
  unauthorized: [[401], false],
  insufficient_credits: [[402], false],
  forbidden: [[403], false],
  not_found: [[404], false],
  model_not_found: [[404], false],
  method_not_allowed: [[405], false],
  conflict: [[409]],
  payload_too_large: [[413, 431], false],
  rate_limited: [[429], true],
  internal_error: [[500], true],
  upstream_error: [[502]],
  service_unavailable: [[503], true]
}

/** The error of a reply, after everything that the contract promises of every error was found to be so. */
export const errorOf = ({ headers, status, text }: Reply, code: string) => {
  const { error } = Contract.envelope(JSON.parse(text))
  expect({ code: error.code, message: error.message }).toEqual({ code, message: expect.stringMatching(/\S/) })
  const [statuses, retryable = error.retryable] = codes[code] ?? expect.fail(`nobody knows the code ${code}`)
  expect(statuses).toContain(status)
  expect(error.retryable).toBe(retryable)
  expect(headers.get("content-type")).toMatch(/^application\/json/)
  expect(headers.get("x-request-id")).toBe(error.requestId)
  expect(headers.get("x-should-retry")).toBe(String(error.retryable))
  expect(headers.get("www-authenticate")).toBe(status === 401 ? "Bearer" : null)
  expect(headers.get("allow") === null).toBe(status !== 405)
  const tellsWhen = status === 429 || (status === 409 && error.retryable)
  expect(headers.get("retry-after") === null).toBe(!tellsWhen)
  return error
}

/** The paths that a refusal of a request's fields names. */
export const pathsOf = (reply: Reply): ReadonlyArray<string> => [
  ...new Set(Contract.issues(errorOf(reply, "invalid_request").details).issues.map(({ path }) => path))
]

/** The data of every event of a stream, which has to be written as `data: …` and a blank line. */
export const eventsOf = (text: string): ReadonlyArray<string> => {
  const events = text.replaceAll(/^: ping\n/gm, "").split("\n\n")
  expect(events.pop()).toBe("")
  return events.map((event) => {
    expect(event).toMatch(/^data: [^\n]+$/)
    return event.slice("data: ".length)
  })
}

/** The chunks of a stream that ended well, after its layout was found to be that of decisions 2. */
export const chunksOf = (
  { headers, status, text }: Reply,
  { includeUsage, model }: { readonly includeUsage: boolean; readonly model: string }
): ReadonlyArray<Contract.Chunk> => {
  expect(status).toBe(200)
  expectStreamHeaders(headers)
  const events = eventsOf(text)
  expect(events.at(-1)).toBe("[DONE]")
  const chunks = events.slice(0, -1).map((event) => Contract.chunk(JSON.parse(event)))
  expectOneAnswer(chunks, model)
  const parts = includeUsage ? chunks.slice(0, -1) : chunks
  if (includeUsage) {
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } })
    expect(parts.map(({ usage }) => usage)).toEqual(parts.map(() => null))
  } else {
    expect(parts.filter((chunk) => "usage" in chunk)).toEqual([])
  }
  expectParts(parts)
  return chunks
}

/** The chunks and the error of a stream that failed after its beginning. */
export const brokenStreamOf = ({ headers, status, text }: Reply, includeUsage: boolean) => {
  expect(status).toBe(200)
  expectStreamHeaders(headers)
  const events = eventsOf(text)
  expect(events).not.toContain("[DONE]")
  const last = Contract.errorChunk(JSON.parse(events.at(-1) ?? "null"))
  expect(last.error.requestId).toBe(headers.get("x-request-id"))
  const chunks = events.slice(0, -1).map((event) => Contract.chunk(JSON.parse(event)))
  expectOneAnswer([...chunks, last], last.model)
  expect([...chunks, last].map((chunk) => "usage" in chunk)).toEqual(events.map(() => includeUsage))
  expect(chunks.filter(({ choices }) => choices.some(({ finish_reason }) => finish_reason !== null))).toEqual([])
  return { chunks, error: last.error }
}

const expectStreamHeaders = (headers: Headers) => {
  expect(headers.get("content-type")).toMatch(/^text\/event-stream(;|$)/)
  expect(headers.get("cache-control")).toBe("no-cache")
  expect(headers.get("x-accel-buffering")).toBe("no")
}

type Head = Pick<Contract.Chunk, "id" | "created" | "model">

const expectOneAnswer = (chunks: ReadonlyArray<Head>, model: string) => {
  expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
  expect(new Set(chunks.map(({ created }) => created)).size).toBe(1)
  expect(new Set(chunks.map(({ model }) => model))).toEqual(new Set([model]))
}

/** The role comes first and once, the end once; the head of a tool call with its first piece only. */
const expectParts = (parts: ReadonlyArray<Contract.Chunk>) => {
  const deltas = parts.flatMap(({ choices }) => choices)
  expect(deltas).toHaveLength(parts.length)
  expect(deltas.map(({ delta }) => delta.role)).toEqual(
    deltas.map((_, index) => (index === 0 ? "assistant" : undefined))
  )
  expect(deltas.filter(({ finish_reason }) => finish_reason !== null)).toHaveLength(1)
  const begun = new Set<number>()
  for (const call of deltas.flatMap(({ delta }) => delta.tool_calls ?? [])) {
    const heads = ["id" in call, "type" in call, "name" in call.function]
    expect(heads).toEqual(heads.map(() => !begun.has(call.index)))
    begun.add(call.index)
  }
}

/** The message that a client puts together from the chunks of a stream. */
export const messageOf = (chunks: ReadonlyArray<Contract.Chunk>) => {
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
  const join = (field: "content" | "refusal" | "reasoning" | "reasoning_content") => {
    const pieces = deltas.flatMap((delta) => delta[field] ?? [])
    return pieces.length === 0 ? {} : { [field]: pieces.join("") }
  }
  const calls: Array<{ id: string; type: "function"; function: { name: string; arguments: string } }> = []
  for (const { function: piece, id, index } of deltas.flatMap(({ tool_calls }) => tool_calls ?? [])) {
    if (id !== undefined) calls[index] = { id, type: "function", function: { name: piece.name ?? "", arguments: "" } }
    const call = calls[index] ?? expect.fail("a call began without its id")
    call.function.arguments += piece.arguments ?? ""
  }
  return {
    ...join("content"),
    ...join("refusal"),
    ...join("reasoning"),
    ...join("reasoning_content"),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

export const finishOf = (chunks: ReadonlyArray<Contract.Chunk>) =>
  chunks.flatMap(({ choices }) => choices.flatMap(({ finish_reason }) => finish_reason ?? []))
