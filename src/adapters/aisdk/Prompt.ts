import { Option, Result, Schema } from "effect"
import type { ChatMessage, ToolCall, ToolPart, UserPart } from "../../domain/completion/ChatMessage.ts"
import { type ChatRequest, outputLimit, type Tool } from "../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../domain/completion/CompletionErrors.ts"
import { detach } from "../../domain/completion/Continuation.ts"
import type { Issue } from "../../domain/shared/Issue.ts"
import { keptWith } from "./KeptMetadata.ts"
import type { CallOptions, File, Message, PartOf, ToolOutput } from "./Sdk.ts"

/** What of a provider shapes its requests. */
export interface Shape {
  /** Its id, by which it knows its own metadata again. */
  readonly provider: string
  /** Whether it takes what was thought in earlier answers as plain text. */
  readonly takesThoughts: boolean
}

/** A caller can act on a few issues at a time. */
const mostIssues = 20

/** Fields of the contract that the SDK's specification has no place for. */
const inexpressible = [
  "access_method",
  "include_reasoning",
  "parallel_tool_calls",
  "prompt_cache_key",
  "reasoning",
  "service_tier",
  "usage",
  "user",
  "verbosity"
] as const satisfies ReadonlyArray<keyof ChatRequest>

/** A request in the SDK's words. Every field reaches it or is refused by name. */
export const callOptions = (request: ChatRequest, shape: Shape): Result.Result<CallOptions, InvalidRequest> => {
  const issues: Array<Issue> = inexpressible
    .filter((field) => request[field] !== undefined)
    .map((path) => ({ path, message: "The router external-sdk has no place for it" }))
  const writer = new Writer(shape, issues)
  const prompt = request.messages.map((message, index) => writer.message(message, `messages[${index}]`))
  const reasoning = effortOf(request, issues)
  if (issues.length > 0) return Result.fail(new InvalidRequest({ issues: issues.slice(0, mostIssues) }))
  const { frequency_penalty, presence_penalty, seed, stop, temperature, tool_choice, tools, top_p } = request
  const most = outputLimit(request)
  const format = formatOf(request.response_format)
  return Result.succeed({
    prompt,
    ...(most === undefined ? {} : { maxOutputTokens: most }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { topP: top_p }),
    ...(frequency_penalty === undefined ? {} : { frequencyPenalty: frequency_penalty }),
    ...(presence_penalty === undefined ? {} : { presencePenalty: presence_penalty }),
    ...(seed === undefined ? {} : { seed }),
    ...(stop === undefined ? {} : { stopSequences: [stop].flat() }),
    ...(tools === undefined || tools.length === 0 ? {} : { tools: tools.map(declared) }),
    ...(tool_choice === undefined ? {} : { toolChoice: choiceOf(tool_choice) }),
    ...(format === undefined ? {} : { responseFormat: format }),
    ...(reasoning === undefined ? {} : { reasoning })
  })
}

/** Writes messages in their order: results of tools need the names that their calls had. */
class Writer {
  readonly #shape: Shape
  readonly #issues: Array<Issue>
  readonly #names = new Map<string, string>()

  constructor(shape: Shape, issues: Array<Issue>) {
    this.#shape = shape
    this.#issues = issues
  }

  message(message: ChatMessage, path: string): Message {
    switch (message.role) {
      case "system":
      case "developer":
        return { role: "system", content: textOf(message.content) }
      case "user":
        return {
          role: "user",
          content:
            typeof message.content === "string"
              ? [{ type: "text", text: message.content }]
              : message.content.map((part, index) => this.#userPart(part, `${path}.content[${index}]`))
        }
      case "assistant": {
        const text = textOf(message.content ?? "")
        const calls = message.tool_calls ?? []
        const [first, ...others] = calls.map((call) => this.#call(call))
        const thought = message.reasoning ?? message.reasoning_content ?? ""
        return {
          role: "assistant",
          content: [
            ...(this.#shape.takesThoughts && thought !== "" ? [{ type: "reasoning" as const, text: thought }] : []),
            ...(first?.thoughts ?? []),
            ...(text === "" && calls.length > 0 ? [] : [{ type: "text" as const, text }]),
            ...(first === undefined ? [] : [first.call]),
            ...others.flatMap(({ call, thoughts }) => [...thoughts, call])
          ]
        }
      }
      case "tool": {
        const toolCallId = detach(message.tool_call_id)
        return {
          role: "tool",
          content: [
            {
              type: "tool-result",
              toolCallId,
              toolName: this.#names.get(toolCallId) ?? message.name ?? "tool",
              output: this.#output(message.content, `${path}.content`)
            }
          ]
        }
      }
    }
  }

  #call(called: ToolCall): {
    readonly thoughts: ReadonlyArray<PartOf<"assistant">>
    readonly call: PartOf<"assistant">
  } {
    const toolCallId = detach(called.id)
    const { arguments: input, name } = called.function
    const { metadata, thoughts } = keptWith(called, this.#shape.provider)
    this.#names.set(toolCallId, name)
    return {
      thoughts,
      call: {
        type: "tool-call",
        toolCallId,
        toolName: name,
        // What is no JSON was told to the model as its mistake: the vendor gets it as the text that it was.
        input: input.trim() === "" ? {} : Option.getOrElse(decodeJson(input), () => input),
        ...(metadata === undefined ? {} : { providerOptions: metadata })
      }
    }
  }

  #userPart(part: UserPart, path: string): PartOf<"user"> {
    switch (part.type) {
      case "text":
        return { type: "text", text: part.text }
      case "image_url":
        return this.#file(part.image_url.url, undefined, `${path}.image_url.url`)
      case "file": {
        const { file_data, filename } = part.file
        const file = this.#file(file_data, "application/pdf", `${path}.file.file_data`)
        return filename === undefined ? file : { ...file, filename }
      }
      case "input_audio":
        return this.#file(part.input_audio.data, audioType(part.input_audio.format), `${path}.input_audio.data`)
    }
  }

  #output(content: string | ReadonlyArray<ToolPart>, path: string): ToolOutput {
    if (typeof content === "string") return { type: "text", value: content }
    const parts = content.map((part, index) => this.#toolPart(part, `${path}[${index}]`))
    const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []))
    return texts.length === parts.length
      ? { type: "text", value: texts.join("\n") }
      : { type: "content", value: parts.map((part) => part) }
  }

  #toolPart(part: ToolPart, path: string): { readonly type: "text"; readonly text: string } | File {
    switch (part.type) {
      case "text":
        return { type: "text", text: part.text }
      case "image_url":
        return this.#file(part.image_url.url, undefined, `${path}.image_url.url`)
      case "media":
        return this.#file(part.data, part.mediaType, `${path}.data`)
      case "image":
        return this.#file(part.image, part.mimeType ?? "image/png", `${path}.image`)
      case "file":
        return this.#file(part.data, part.mimeType, `${path}.data`)
    }
  }

  /** Bytes from a data URI, or from base64 of a type that is said elsewhere. */
  #file(text: string, mediaType: string | undefined, path: string): File {
    const comma = text.startsWith("data:") ? text.indexOf(",") : -1
    const [type = "", ...rest] = comma === -1 ? [] : text.slice("data:".length, comma).split(";")
    const isBase64 = comma === -1 ? mediaType !== undefined && !text.includes(":") : rest.includes("base64")
    if (!isBase64)
      this.#issues.push({ path, message: "Expected base64: the router external-sdk passes no addresses on" })
    return {
      type: "file",
      mediaType: type === "" ? (mediaType ?? "application/octet-stream") : type.toLowerCase(),
      data: { type: "data", data: comma === -1 ? text : text.slice(comma + 1) }
    }
  }
}

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

type Content = string | ReadonlyArray<{ readonly text: string } | { readonly refusal: string }>

const textOf = (content: Content): string =>
  typeof content === "string" ? content : content.map((part) => ("text" in part ? part.text : part.refusal)).join("\n")

const audioType = (format: string): string => (format === "mp3" ? "audio/mpeg" : `audio/${format}`)

const declared = ({ function: { description, name, parameters } }: Tool) => ({
  type: "function" as const,
  name,
  ...(description === undefined ? {} : { description }),
  inputSchema: parameters ?? anything
})

const anything = { type: "object" as const, properties: {} }

const choiceOf = (choice: NonNullable<ChatRequest["tool_choice"]>): NonNullable<CallOptions["toolChoice"]> =>
  typeof choice === "string" ? { type: choice } : { type: "tool", toolName: choice.function.name }

const formatOf = (format: ChatRequest["response_format"]): CallOptions["responseFormat"] => {
  if (format === undefined || format.type === "text") return undefined
  if (format.type === "json_object") return { type: "json" }
  const { description, name, schema } = format.json_schema
  return {
    type: "json",
    name,
    ...(description === undefined ? {} : { description }),
    schema
  }
}

const isEffort = Schema.is(Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh", "max"]))

const effortOf = ({ reasoning_effort: effort }: ChatRequest, issues: Array<Issue>): CallOptions["reasoning"] => {
  if (effort === undefined || isEffort(effort)) return effort
  issues.push({ path: "reasoning_effort", message: "Expected none, minimal, low, medium, high, xhigh or max" })
  return undefined
}
