import type { ChatMessage, ToolPart, UserPart } from "../../domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../domain/completion/ChatRequest.ts"

/** What vendors add around every message and to every request: roles and separators. */
const perMessage = 4
const perRequest = 3

/** An image at full detail; a document or a sound by its encoded length, since only the vendor opens it. */
const perImage = 1_500
const perRemoteFile = 5_000
const encodedPerFileToken = 16
const encodedPerAudioToken = 500

/**
 * The input tokens that a request will count at its vendor, as well as can be known before: text by the tokenizer,
 * media by rule of thumb. Sizes the hold; the bill follows the vendor's own count.
 */
export const countInput = (request: ChatRequest, count: (text: string) => number): number => {
  const user = (part: UserPart): number => {
    switch (part.type) {
      case "text":
        return count(part.text)
      case "image_url":
        return perImage
      case "file":
        return file(part.file.file_data)
      case "input_audio":
        return Math.ceil(part.input_audio.data.length / encodedPerAudioToken)
    }
  }

  const tool = (part: ToolPart): number => {
    switch (part.type) {
      case "text":
        return count(part.text)
      case "media":
      case "file":
        return file(part.data)
      case "image":
      case "image_url":
        return perImage
    }
  }

  const content = (message: ChatMessage): number => {
    if (typeof message.content === "string") return count(message.content)
    switch (message.role) {
      case "system":
      case "developer":
        return sum(message.content, ({ text }) => count(text))
      case "user":
        return sum(message.content, user)
      case "tool":
        return sum(message.content, tool)
      case "assistant":
        return sum(message.content ?? [], (part) => count(part.type === "text" ? part.text : part.refusal))
    }
  }

  const thought = (message: ChatMessage): number =>
    message.role === "assistant"
      ? count(message.reasoning ?? message.reasoning_content ?? "") +
        sum(message.tool_calls ?? [], (call) => count(call.function.name) + count(call.function.arguments) + perMessage)
      : 0

  return perRequest +
    sum(request.messages, (message) => perMessage + content(message) + thought(message)) +
    sum(request.tools ?? [], (tool) => perMessage + count(JSON.stringify(tool.function))) +
    (request.response_format?.type === "json_schema"
      ? count(JSON.stringify(request.response_format.json_schema))
      : 0)
}

const file = (data: string): number =>
  /^https?:/i.test(data) ? perRemoteFile : Math.ceil(data.length / encodedPerFileToken)

const sum = <A>(items: ReadonlyArray<A>, of: (item: A) => number): number =>
  items.reduce((total, item) => total + of(item), 0)
