import { Duration, Schedule, Stream } from "effect"
import { none, type Usage } from "../../domain/billing/Usage.ts"
import type { ChatMessage, ToolCall } from "../../domain/completion/ChatMessage.ts"
import { type ChatRequest, outputLimit, type Tool } from "../../domain/completion/ChatRequest.ts"
import type { Completion, FinishReason } from "../../domain/completion/Completion.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"

/** The upstream of the model `echo`: no network, no key, the same answer to the same question. */
export const echoId = "echo"

const pace = Duration.millis(5)

/** The whole answer at once. */
export const completeEcho = (
  request: ChatRequest,
  cap: number | undefined,
  count: (text: string) => number
): Completion => {
  const answer = answerTo(request, cap, count)
  return {
    choices: [
      {
        index: 0,
        finishReason: answer.finishReason,
        content: answer.calls.length > 0 ? null : answer.pieces.join(""),
        ...(answer.calls.length > 0 ? { toolCalls: answer.calls } : {})
      }
    ],
    usage: answer.usage
  }
}

/** The same answer word by word. */
export const streamEcho = (
  request: ChatRequest,
  cap: number | undefined,
  count: (text: string) => number
): Stream.Stream<CompletionEvent> => {
  const { calls, finishReason, pieces, usage } = answerTo(request, cap, count)
  const words = pieces.map((content): CompletionEvent => ({ _tag: "Delta", index: 0, content }))
  const called = calls.map(({ function: called, id }, index): CompletionEvent => ({
    _tag: "Delta",
    index: 0,
    toolCalls: [{ index, id, name: called.name, arguments: called.arguments }]
  }))
  const events: ReadonlyArray<CompletionEvent> = [
    { _tag: "Delta", index: 0, role: "assistant", content: "" },
    ...(calls.length > 0 ? called : words),
    { _tag: "Delta", index: 0, finishReason },
    { _tag: "Usage", usage }
  ]
  return Stream.fromIterable(events).pipe(Stream.rechunk(1), Stream.schedule(Schedule.spaced(pace)))
}

interface Answer {
  readonly pieces: ReadonlyArray<string>
  readonly calls: ReadonlyArray<ToolCall>
  readonly finishReason: FinishReason
  readonly usage: Usage
}

const answerTo = (request: ChatRequest, cap: number | undefined, count: (text: string) => number): Answer => {
  const input = request.messages.reduce((total, message) => total + 4 + count(textOf(message)), 3)
  const last = request.messages.findLast(({ role }) => role === "user" || role === "tool")
  const said = last === undefined ? "" : textOf(last)
  const calls = last?.role === "tool" ? [] : toolCalls(request, said)
  const text = calls.length > 0 ? "" : wanted(request, said)
  const { finishReason, pieces } = limit(text, outputLimit(request) ?? cap, request.stop, count)
  const output =
    calls.length > 0
      ? calls.reduce((total, { function: called }) => total + count(called.name) + count(called.arguments), 0)
      : count(pieces.join(""))
  const usage = { ...none, input, output }
  return { pieces, calls, finishReason: calls.length > 0 ? "tool_calls" : finishReason, usage }
}

/** The text of a message; its media are not looked at. */
const textOf = (message: ChatMessage): string =>
  typeof message.content === "string"
    ? message.content
    : (message.content ?? [])
        .map((part) => ("text" in part ? part.text : ""))
        .filter((text) => text !== "")
        .join("\n")

/** What a response format asks for, else the words that came in. */
const wanted = (request: ChatRequest, said: string): string => {
  switch (request.response_format?.type) {
    case "json_object":
      return JSON.stringify({ echo: said })
    case "json_schema":
      return JSON.stringify(exampleOf(request.response_format.json_schema.schema, said))
    default:
      return said
  }
}

/** A tool is called when the request demands it, or when the words name it. */
const toolCalls = (request: ChatRequest, said: string): ReadonlyArray<ToolCall> => {
  const { tool_choice = "auto", tools = [] } = request
  const named = tools.filter(({ function: { name } }) => said.includes(name))
  const chosen: ReadonlyArray<Tool> =
    typeof tool_choice === "object"
      ? tools.filter(({ function: { name } }) => name === tool_choice.function.name)
      : tool_choice === "none"
        ? []
        : tool_choice === "required" && named.length === 0
          ? tools.slice(0, 1)
          : named
  return (request.parallel_tool_calls === false ? chosen.slice(0, 1) : chosen).map(({ function: called }, index) => ({
    id: `call_echo_${index}`,
    type: "function",
    function: { name: called.name, arguments: JSON.stringify(exampleOf(called.parameters ?? {}, said)) }
  }))
}

type JsonSchema = NonNullable<Tool["function"]["parameters"]>

/** A value that a plain JSON schema accepts: every property, the first alternative, the words for a string. */
const exampleOf = (schema: JsonSchema, said: string): unknown => {
  const { anyOf, const: constant, enum: values, items, properties, type } = schema
  if (constant !== undefined) return constant
  if (Array.isArray(values)) return values[0]
  if (Array.isArray(anyOf) && isSchema(anyOf[0])) return exampleOf(anyOf[0], said)
  switch (Array.isArray(type) ? type[0] : type) {
    case "string":
      return said
    case "number":
    case "integer":
      return 0
    case "boolean":
      return false
    case "null":
      return null
    case "array":
      return isSchema(items) ? [exampleOf(items, said)] : []
    default:
      return isSchema(properties)
        ? Object.fromEntries(
            Object.entries(properties).map(([name, value]) => [name, isSchema(value) ? exampleOf(value, said) : null])
          )
        : {}
  }
}

const isSchema = (value: unknown): value is JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Words up to the limit of tokens and the first stop sequence. */
const limit = (
  text: string,
  mostTokens: number | undefined,
  stop: ChatRequest["stop"],
  count: (text: string) => number
): { readonly pieces: ReadonlyArray<string>; readonly finishReason: FinishReason } => {
  const ends = [stop ?? []]
    .flat()
    .map((sequence) => text.indexOf(sequence))
    .filter((at) => at !== -1)
  const pieces = text.slice(0, Math.min(text.length, ...ends)).match(/\s*\S+\s*$|\s*\S+|\s+/g) ?? []
  if (mostTokens === undefined) return { pieces, finishReason: "stop" }
  const kept: Array<string> = []
  let tokens = 0
  for (const piece of pieces) {
    tokens += count(piece)
    if (tokens > mostTokens) return { pieces: kept, finishReason: "length" }
    kept.push(piece)
  }
  return { pieces: kept, finishReason: "stop" }
}
