import { expect } from "vitest"
import { isObject, type Json, type JsonObject } from "../../domain/completion/Rules.ts"

/** Which of the two servers of the wire is asked. */
export type Server = "platform" | "subscription"

const beyondTheWire = ["frequency_penalty", "presence_penalty", "seed", "stop"]
const beyondSubscriptions = ["max_completion_tokens", "max_tokens", "temperature", "top_p", "user"]
const reasoningFields = ["context", "effort", "mode", "summary"]

/** The paths of everything in a request that this wire cannot be told. */
export const fieldsBeyondResponses = (request: JsonObject, server: Server): ReadonlyArray<string> => {
  const { include_reasoning, messages, reasoning, reasoning_effort, usage } = request
  const thinking = objectOf(reasoning)
  const wrong = Object.entries(thinking).filter(
    ([key, value]) => !reasoningFields.includes(key) || typeof value !== "string" || value === ""
  )
  const { effort, summary } = thinking
  return [
    ...[...beyondTheWire, ...(server === "subscription" ? beyondSubscriptions : [])].filter((name) => name in request),
    ...wrong.map(([key]) => `reasoning.${key}`),
    ...(effort !== undefined && reasoning_effort !== undefined && effort !== reasoning_effort
      ? ["reasoning.effort"]
      : []),
    ...(include_reasoning === false && summary !== undefined ? ["include_reasoning"] : []),
    ...Object.keys(objectOf(usage))
      .filter((key) => key !== "include")
      .map((key) => `usage.${key}`),
    ...listOf(messages).flatMap((message, index) => beyondMessage(message).map((path) => `messages[${index}].${path}`))
  ]
}

const beyondMessage = (message: JsonObject): ReadonlyArray<string> => {
  const { content, role } = message
  if (role === "assistant") {
    return ["reasoning", "reasoning_content"].filter((key) => (message[key] ?? "") !== "")
  }
  const parts = Array.isArray(content) ? listOf(content) : []
  return parts.flatMap((part, index) => beyondPart(part).map((path) => `content[${index}].${path}`))
}

const beyondPart = (part: JsonObject): ReadonlyArray<string> => {
  const { data, file, image, image_url, mediaType, mimeType, type } = part
  const isMoving = /^(audio|video)\//i.test(plain(mediaType ?? mimeType ?? ""))
  const cannotFetch = (uri: Json | undefined) => /^[a-z][\w+.-]*:/i.test(plain(uri)) && !isFetched(plain(uri))
  if (type === "input_audio") return ["input_audio"]
  if (type === "image_url") return cannotFetch(objectOf(image_url)["url"]) ? ["image_url.url"] : []
  const breaks = (uri: Json | undefined) =>
    plain(mediaType ?? mimeType).includes(",") && !/^[a-z][\w+.-]*:/i.test(plain(uri))
  if (type === "image") return cannotFetch(image) ? ["image"] : breaks(image) ? ["mimeType"] : []
  if (isObject(file)) {
    const { file_data, filename } = file
    return [
      ...(/^https?:/i.test(plain(file_data)) && filename !== undefined ? ["file.filename"] : []),
      ...(cannotFetch(file_data) ? ["file.file_data"] : [])
    ]
  }
  return [
    ...(isMoving || (data !== undefined && breaks(data)) ? [mediaType === undefined ? "mimeType" : "mediaType"] : []),
    ...(data !== undefined && cannotFetch(data) ? ["data"] : [])
  ]
}

const isFetched = (uri: string) => /^(data|https?):/i.test(uri)

/** What arrived at a vendor is all of the request. */
export const expectResponsesArrival = (request: JsonObject, body: JsonObject, model: string, server: Server): void => {
  const { input, instructions, ...fields } = body
  expect(fields).toEqual(fieldsThatArrive(request, model, server))
  expect(typeof instructions).toBe(server === "subscription" ? "string" : "undefined")
  const messages = listOf(request["messages"])
  const start = server === "platform" ? 0 : messages.findIndex(({ role }) => !isInstruction(role))
  for (const { content } of messages.slice(0, Math.max(start, 0))) {
    for (const said of partsOf(content)) expect(instructions).toContain(said.at(-1))
  }
  const wanted = messages.slice(Math.max(start, 0)).flatMap((message) => statementsOf(message, server))
  expect(listOf(input).flatMap(arrivedStatements)).toEqual(wanted)
}

const isInstruction = (role: Json | undefined) => role === "system" || role === "developer"

const fieldsThatArrive = (request: JsonObject, model: string, server: Server): JsonObject => {
  const { include_reasoning, reasoning, reasoning_effort, response_format, service_tier, stream } = request
  const { prompt_cache_key, parallel_tool_calls, temperature, tool_choice, tools, top_p, user, verbosity } = request
  const limit = request["max_completion_tokens"] ?? request["max_tokens"]
  const thinking = {
    ...(include_reasoning === true ? { summary: "auto" } : {}),
    ...objectOf(reasoning),
    ...given({ effort: reasoning_effort })
  }
  const text = given({ format: formatOf(response_format), verbosity })
  const tier = service_tier === "fast" ? "priority" : service_tier
  return given({
    model,
    store: false,
    stream: stream === true || server === "subscription" ? true : undefined,
    include: ["reasoning.encrypted_content"],
    max_output_tokens: limit,
    reasoning: Object.keys(thinking).length === 0 ? undefined : thinking,
    text: Object.keys(text).length === 0 ? undefined : text,
    service_tier: server === "subscription" && tier !== "priority" ? undefined : tier,
    safety_identifier: user,
    tool_choice: isObject(tool_choice)
      ? { type: "function", name: objectOf(tool_choice["function"])["name"] ?? null }
      : tool_choice,
    tools: listOf(tools).length === 0 ? undefined : listOf(tools).map(toolOf),
    parallel_tool_calls,
    prompt_cache_key,
    temperature,
    top_p
  })
}

const toolOf = (tool: JsonObject): JsonObject => ({
  type: "function",
  parameters: { type: "object", properties: {} },
  ...objectOf(tool["function"]),
  strict: false
})

const formatOf = (format: Json | undefined): JsonObject | undefined =>
  isObject(format)
    ? "json_schema" in format
      ? { type: "json_schema", strict: false, ...objectOf(format["json_schema"]) }
      : format
    : undefined

/** Who says what, in order: the same of what was asked and of what arrived. */
type Statement = ReadonlyArray<string>

const statementsOf = (message: JsonObject, server: Server): ReadonlyArray<Statement> => {
  const { content, name, role, tool_call_id, tool_calls } = message
  const who = role === "system" && server === "subscription" ? "developer" : plain(role)
  if (role === "tool") return [["answer", plain(tool_call_id), plain(name ?? "")], ...partsOf(content)]
  const calls = listOf(tool_calls).map((call) => {
    const called = objectOf(call["function"])
    return ["call", plain(call["id"]), plain(called["name"]), plain(called["arguments"])]
  })
  const isEmpty = content == null || content === "" || (Array.isArray(content) && content.length === 0)
  const said = isEmpty ? (calls.length > 0 ? [] : [[who], ["text", ""]]) : [[who], ...partsOf(content)]
  return [...(role === "assistant" ? said : [[who], ...partsOf(content)]), ...calls]
}

const arrivedStatements = (item: JsonObject): ReadonlyArray<Statement> => {
  switch (item["type"]) {
    case "function_call":
      return [["call", plain(item["call_id"]), plain(item["name"]), plain(item["arguments"])]]
    case "function_call_output":
      return [["answer", plain(item["call_id"]), plain(item["name"] ?? "")], ...partsOf(item["output"])]
    case "message": {
      const role = plain(item["role"])
      for (const { type } of listOf(item["content"])) {
        expect(plain(type)).toMatch(role === "assistant" ? /^(output_text|refusal)$/ : /^input_(text|image|file)$/)
      }
      return [[role], ...partsOf(item["content"])]
    }
    default:
      return expect.fail(`an item of another kind: ${JSON.stringify(item)}`)
  }
}

/** What the parts of a content say, in the contract's or the vendor's form: the kind and the text or data. */
const partsOf = (content: Json | undefined): ReadonlyArray<Statement> =>
  typeof content === "string"
    ? [["text", content]]
    : Array.isArray(content) && content.length === 0
      ? [["text", ""]]
      : listOf(content).map((part) => {
          const { data, file, file_data, file_url, image, image_url, mediaType, mimeType, refusal, text } = part
          if (typeof text === "string") return ["text", text]
          if (typeof refusal === "string") return ["refusal", refusal]
          if (isObject(file)) return ["file", bare(file["file_data"]), ...nameOf(file["filename"])]
          if (typeof data === "string") {
            return [plain(mediaType ?? mimeType).startsWith("image/") ? "image" : "file", bare(data)]
          }
          if (file_data !== undefined) return ["file", bare(file_data), ...nameOf(part["filename"])]
          if (file_url !== undefined) return ["file", bare(file_url)]
          return ["image", bare(image ?? (isObject(image_url) ? image_url["url"] : image_url))]
        })

/** A name that somebody gave. */
const nameOf = (name: Json | undefined): Statement =>
  name === undefined || plain(name).startsWith("attachment") ? [] : [plain(name)]

/** Data without the address that it was put into. */
const bare = (uri: Json | undefined): string => plain(uri).replace(/^data:[^,]*,/i, "")

const given = (fields: Readonly<Record<string, Json | undefined>>): JsonObject =>
  Object.fromEntries(Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))

/** A string as it is; nothing for whatever else. */
const plain = (value: Json | undefined): string => (typeof value === "string" ? value : "")

const objectOf = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})

const listOf = (value: Json | undefined): ReadonlyArray<JsonObject> =>
  (Array.isArray(value) ? value : []).filter(isObject)
