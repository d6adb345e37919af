import { expect } from "vitest"
import { isObject, type Json, type JsonObject } from "../../domain/completion/Rules.ts"

/** How a vendor's dialect of chat completions differs from the contract's request. */
export interface Wire {
  readonly model: string
  /** Whether it takes fields that OpenAI's own reference does not have. */
  readonly extensions: boolean
  readonly outputLimit: "max_tokens" | "max_completion_tokens"
}

/** What arrived at a vendor is all of the request, the media of tools' answers behind the last of these answers. */
export const expectArrival = (request: JsonObject, body: JsonObject, wire: Wire): void => {
  expect(without(body, ["messages"])).toEqual(fieldsThatArrive(request, wire))
  const { attachments, before, messages } = arrivedMessages(body["messages"])
  expect(messages).toEqual(messagesThatArrive(request["messages"]))
  expect(before.filter((role) => role !== "tool")).toEqual([])
  const attached = JSON.stringify(attachments)
  for (const data of mediaOf(request["messages"])) expect(attached).toContain(JSON.stringify(data).slice(1, -1))
}

/** The fields that are the gateway's own affair: no vendor gets them as they came. */
const ofTheGateway = [
  "access_method",
  "max_completion_tokens",
  "max_tokens",
  "messages",
  "model",
  "service_tier",
  "stream",
  "stream_options"
]

const extensions = ["include_reasoning", "reasoning", "usage"]

/** What has to arrive of a request, but for its messages: every field, under the vendor's name for it. */
const fieldsThatArrive = (request: JsonObject, wire: Wire): JsonObject => {
  const { max_completion_tokens, max_tokens, reasoning, reasoning_effort, service_tier, stream, tools } = request
  const limit = max_completion_tokens ?? max_tokens
  const effort = reasoning_effort ?? (isObject(reasoning) ? reasoning["effort"] : undefined)
  const limitName = wire.extensions && max_completion_tokens !== undefined ? "max_completion_tokens" : wire.outputLimit
  return {
    ...without(request, [
      ...ofTheGateway,
      ...(wire.extensions ? [] : extensions),
      ...(isEmpty(tools) ? ["tools"] : [])
    ]),
    model: wire.model,
    ...(limit === undefined ? {} : { [limitName]: limit }),
    ...(service_tier === undefined ? {} : { service_tier: service_tier === "fast" ? "priority" : service_tier }),
    ...(stream === true ? { stream, stream_options: { include_usage: true } } : {}),
    ...(wire.extensions || effort === undefined ? {} : { reasoning_effort: effort })
  }
}

/** The fields of a request that a vendor without extensions cannot be told. */
export const fieldsBeyond = ({ messages, reasoning, reasoning_effort, usage }: JsonObject): ReadonlyArray<string> => {
  const effort = isObject(reasoning) ? reasoning["effort"] : undefined
  const isEffort = typeof effort === "string" && effort !== "" && effort === (reasoning_effort ?? effort)
  return [
    ...(effort === undefined || isEffort ? [] : ["reasoning.effort"]),
    ...keysOf(reasoning)
      .filter((key) => key !== "effort")
      .map((key) => `reasoning.${key}`),
    ...keysOf(usage)
      .filter((key) => key !== "include")
      .map((key) => `usage.${key}`),
    ...(Array.isArray(messages) ? messages : []).flatMap((message: Json, index) =>
      ["reasoning", "reasoning_content"]
        .filter((key) => keysOf(message).includes(key))
        .map((key) => `messages[${index}].${key}`)
    )
  ]
}

/** The messages that have to arrive, with what a tool answered beside text taken out of its answer. */
const messagesThatArrive = (messages: Json | undefined) => {
  return (Array.isArray(messages) ? messages : []).filter(isObject).map((message: JsonObject) => {
    const { content, role, tool_calls } = message
    if (role === "assistant") {
      return {
        ...without(message, isEmpty(tool_calls) ? ["content", "tool_calls"] : ["content"]),
        ...(content === undefined ? {} : { content: isEmpty(content) ? "" : content })
      }
    }
    return role === "tool" ? { ...without(message, ["content"]), text: textOf(content) } : message
  })
}

/** The same of what did arrive, beside the media that follow the answers of tools. */
const arrivedMessages = (messages: Json | undefined) => {
  const all = (Array.isArray(messages) ? messages : []).filter(isObject)
  const isAttachment = ({ content, role }: JsonObject) =>
    role === "user" &&
    Array.isArray(content) &&
    JSON.stringify(content[0]).includes("Attached to the answer of tool call")
  return {
    messages: all
      .filter((message) => !isAttachment(message))
      .map((message: JsonObject) =>
        message["role"] === "tool"
          ? {
              ...without(message, ["content"]),
              text: textOf(message["content"]).replace(/\n?\(attachments follow\)$/, "")
            }
          : message
      ),
    attachments: all.filter(isAttachment),
    /** What stands before each attachment: the last of the answers that it belongs to. */
    before: all.flatMap((message, index) => (isAttachment(message) ? [all[index - 1]?.["role"]] : []))
  }
}

/** The data and addresses of the media that the tools of a conversation answered. */
const mediaOf = (messages: Json | undefined): ReadonlyArray<string> =>
  (Array.isArray(messages) ? messages : [])
    .filter((message: Json) => isObject(message) && message["role"] === "tool")
    .flatMap((message: JsonObject) => (Array.isArray(message["content"]) ? message["content"] : []))
    .flatMap((part: JsonObject) => [
      part["data"],
      part["image"],
      isObject(part["image_url"]) ? part["image_url"]["url"] : []
    ])
    .filter((data) => typeof data === "string")

const textOf = (content: Json | undefined): string =>
  typeof content === "string"
    ? content
    : (Array.isArray(content) ? content : [])
        .map((part: JsonObject) => part["text"])
        .filter((text) => typeof text === "string")
        .join("\n")

const isEmpty = (value: Json | undefined) => Array.isArray(value) && value.length === 0

const keysOf = (value: Json | undefined): ReadonlyArray<string> => (isObject(value) ? Object.keys(value) : [])

const without = (value: JsonObject, names: ReadonlyArray<string>): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))
