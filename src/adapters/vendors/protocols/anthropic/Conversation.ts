import { Option, Predicate, Result, Schema } from "effect"
import type {
  AssistantMessage,
  ChatMessage,
  ToolCall,
  ToolMessage,
  ToolPart,
  UserPart
} from "../../../../domain/completion/ChatMessage.ts"
import { detach } from "../../../../domain/completion/Continuation.ts"
import type { Issue } from "../../../../domain/shared/Issue.ts"
import { restore } from "./KeptThinking.ts"
import { attachment, document, image } from "./Media.ts"

export interface WireMessage {
  readonly role: "assistant" | "system" | "user"
  readonly content: ReadonlyArray<object>
}

export interface Conversation {
  readonly system: ReadonlyArray<object>
  readonly messages: ReadonlyArray<WireMessage>
  /** False when the turn goes on after tool calls, and does not begin with the thinking before these. */
  readonly mayResume: boolean
}

/**
 * The messages as the vendor's turns: the answers of all tools of a turn and what the user says stand in one message of
 * the user, the answers first. Thinking goes back only within the turn that tool calls interrupted, where the vendor
 * needs it: it refuses thinking behind messages that a client changed, and a conversation must not end on that.
 */
export const writeConversation = (
  messages: ReadonlyArray<ChatMessage>,
  options: { readonly systemBetween: boolean },
  issues: Array<Issue>
): Conversation => {
  const turns = new Turns(options.systemBetween)
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`
    switch (message.role) {
      case "system":
      case "developer":
        turns.system(textBlocks(message.content))
        break
      case "user": {
        const found = issues.length
        const content = writeUser(message.content, path, issues)
        if (content.length === 0 && issues.length === found) {
          issues.push({ path: `${path}.content`, message: "Expected text that is not blank" })
        }
        turns.user(content)
        break
      }
      case "tool":
        turns.toolResult(writeToolResult(message, path, issues))
        break
      case "assistant":
        turns.assistant(writeAssistant(message, path, issues))
    }
  }
  const written = turns.end()
  const begin = written.messages.findLastIndex(({ content, role }) => role === "user" && !content.some(isToolResult))
  const first = written.messages.find(({ role }, index) => index > begin && role === "assistant")?.content[0]
  return {
    system: written.system,
    messages: written.messages.map((message, index) => (index < begin ? withoutThinking(message) : message)),
    mayResume: first === undefined || isThinking(first)
  }
}

const hasType = (block: object, ...types: ReadonlyArray<string>): boolean =>
  Predicate.hasProperty(block, "type") && types.some((type) => type === block.type)

const isToolResult = (block: object): boolean => hasType(block, "tool_result")

const isThinking = (block: object): boolean => hasType(block, "thinking", "redacted_thinking")

const withoutThinking = ({ content, role }: WireMessage): WireMessage => ({
  role,
  content: content.filter((block) => !isThinking(block))
})

/** Puts messages together by turn. */
class Turns {
  readonly #systemBetween: boolean
  readonly #system: Array<object> = []
  readonly #messages: Array<WireMessage> = []
  #results: Array<object> = []
  #said: Array<object> = []
  #later: Array<object> = []

  constructor(systemBetween: boolean) {
    this.#systemBetween = systemBetween
  }

  /** Instructions at the beginning are the prompt; later ones stay in their place, on models that can have them there. */
  system(blocks: ReadonlyArray<object>): void {
    const isFirst = this.#messages.length + this.#results.length + this.#said.length === 0
    if (isFirst || !this.#systemBetween) this.#system.push(...blocks)
    else this.#later.push(...blocks)
  }

  user(blocks: ReadonlyArray<object>): void {
    this.#said.push(...blocks)
  }

  toolResult(block: object): void {
    this.#results.push(block)
  }

  assistant(blocks: ReadonlyArray<object>): void {
    // The vendor refuses a message without blocks.
    if (blocks.length === 0) return
    this.#flush()
    const before = this.#messages.at(-1)
    if (before?.role === "assistant") {
      this.#messages.splice(-1, 1, { role: "assistant", content: [...before.content, ...blocks] })
    } else {
      this.#messages.push({ role: "assistant", content: blocks })
    }
  }

  end(): Pick<Conversation, "messages" | "system"> {
    this.#flush()
    return { system: this.#system, messages: this.#messages }
  }

  #flush(): void {
    const content = [...this.#results, ...this.#said]
    if (content.length > 0) this.#messages.push({ role: "user", content })
    // The vendor takes them only right behind what a user said.
    if (this.#later.length > 0 && this.#messages.at(-1)?.role === "user") {
      this.#messages.push({ role: "system", content: this.#later })
    } else {
      this.#system.push(...this.#later)
    }
    this.#results = []
    this.#said = []
    this.#later = []
  }
}

/** The vendor refuses blank blocks, and they say nothing. */
const textBlock = (text: string): ReadonlyArray<object> => (text.trim() === "" ? [] : [{ type: "text", text }])

const textBlocks = (content: string | ReadonlyArray<{ readonly text: string }>): ReadonlyArray<object> =>
  typeof content === "string" ? textBlock(content) : content.flatMap(({ text }) => textBlock(text))

const writeUser = (
  content: string | ReadonlyArray<UserPart>,
  path: string,
  issues: Array<Issue>
): ReadonlyArray<object> =>
  typeof content === "string"
    ? textBlock(content)
    : content.flatMap((part, index) => writeUserPart(part, `${path}.content[${index}]`, issues))

const writeUserPart = (part: UserPart, path: string, issues: Array<Issue>): ReadonlyArray<object> => {
  switch (part.type) {
    case "text":
      return textBlock(part.text)
    case "image_url":
      return orIssue(image({ data: part.image_url.url, mediaType: undefined }), `${path}.image_url.url`, issues)
    case "file": {
      const { file_data, filename } = part.file
      const medium = { data: file_data, mediaType: undefined, name: filename }
      return orIssue(document(medium), `${path}.file.file_data`, issues)
    }
    case "input_audio":
      issues.push({ path, message: "This model's provider takes no audio" })
      return []
  }
}

/** Its name is the one of the call, which the vendor finds by the id. */
const writeToolResult = ({ content, tool_call_id }: ToolMessage, path: string, issues: Array<Issue>): object => {
  const blocks =
    typeof content === "string"
      ? textBlock(content)
      : content.flatMap((part, index) => writeToolPart(part, `${path}.content[${index}]`, issues))
  return {
    type: "tool_result",
    tool_use_id: wireId(tool_call_id),
    ...(blocks.length === 0 ? {} : { content: blocks })
  }
}

const writeToolPart = (part: ToolPart, path: string, issues: Array<Issue>): ReadonlyArray<object> => {
  switch (part.type) {
    case "text":
      return textBlock(part.text)
    case "image_url":
      return orIssue(image({ data: part.image_url.url, mediaType: undefined }), `${path}.image_url.url`, issues)
    case "image":
      return orIssue(image({ data: part.image, mediaType: part.mimeType ?? "image/png" }), `${path}.image`, issues)
    case "media":
      return orIssue(attachment({ data: part.data, mediaType: part.mediaType }), path, issues)
    case "file":
      return orIssue(attachment({ data: part.data, mediaType: part.mimeType }), path, issues)
  }
}

const orIssue = (block: Result.Result<object, string>, path: string, issues: Array<Issue>): ReadonlyArray<object> => {
  if (Result.isSuccess(block)) return [block.success]
  issues.push({ path, message: block.failure })
  return []
}

/**
 * A refusal is text to the vendor. `reasoning` has no signature, without which the vendor takes no thinking: where
 * thinking has to go back it comes from the ids of the tool calls.
 */
const writeAssistant = (
  { content, tool_calls = [] }: AssistantMessage,
  path: string,
  issues: Array<Issue>
): ReadonlyArray<object> => {
  const texts = textsOf(content)
  const calls = tool_calls.map((call, index) => writeCall(call, `${path}.tool_calls[${index}]`, issues))
  const restored = restore(tool_calls, texts.join(""))
  if (restored === undefined) return [...texts.flatMap(textBlock), ...calls]
  return [
    ...calls.flatMap((call, index) => [
      ...(restored.before[index] ?? []).flatMap((part) => (typeof part === "string" ? textBlock(part) : [part])),
      call
    ]),
    ...textBlock(restored.rest)
  ]
}

const textsOf = (content: AssistantMessage["content"]): ReadonlyArray<string> =>
  typeof content === "string"
    ? [content]
    : (content ?? []).map((part) => (part.type === "text" ? part.text : part.refusal))

const decodeArguments = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.JsonObject))

const writeCall = ({ function: called, id }: ToolCall, path: string, issues: Array<Issue>): object => {
  // A call without arguments is streamed as none at all by some vendors.
  const input = called.arguments.trim() === "" ? Option.some({}) : decodeArguments(called.arguments)
  if (Option.isNone(input)) {
    issues.push({ path: `${path}.function.arguments`, message: "Expected a JSON object" })
  }
  return { type: "tool_use", id: wireId(id), name: called.name, input: Option.getOrElse(input, () => ({})) }
}

/** The vendor refuses ids with other characters, which those of other vendors may have. */
const wireId = (id: string): string =>
  detach(id).replaceAll(/[^a-zA-Z0-9_-]/gu, (character) => `-${character.codePointAt(0)?.toString(16) ?? ""}-`)
