import type { ChatMessage, ToolPart, UserPart } from "../../domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../domain/completion/ChatRequest.ts"

/** What vendors add around every message, tool and call, and to every request: roles and separators. */
const perItem = 4
const perRequest = 3

/** An image at full detail; a document or a sound by its encoded length, since only the vendor opens it. */
const perImage = 1_500
const perRemoteFile = 5_000
const encodedPerFileToken = 16
const encodedPerAudioToken = 500

/**
 * The input tokens that a request will count at its vendor, as well as can be known before: text by the tokenizer,
 * media by rule of thumb. Sizes the hold; the bill follows the vendor's own count. The text is counted in one go, so
 * that the time is bounded however many messages it is spread over.
 */
export const countInput = (request: ChatRequest, count: (text: string) => number): number => {
  const texts: Array<string> = []
  let tokens = perRequest

  const media = (amount: number) => void (tokens += amount)

  const user = (part: UserPart) => {
    switch (part.type) {
      case "text":
        return texts.push(part.text)
      case "image_url":
        return media(perImage)
      case "file":
        return media(file(part.file.file_data))
      case "input_audio":
        return media(Math.ceil(part.input_audio.data.length / encodedPerAudioToken))
    }
  }

  const tool = (part: ToolPart) => {
    switch (part.type) {
      case "text":
        return texts.push(part.text)
      case "media":
      case "file":
        return media(file(part.data))
      case "image":
      case "image_url":
        return media(perImage)
    }
  }

  const content = (message: ChatMessage): void => {
    if (typeof message.content === "string") return void texts.push(message.content)
    switch (message.role) {
      case "system":
      case "developer":
        return message.content.forEach(({ text }) => texts.push(text))
      case "user":
        return message.content.forEach(user)
      case "tool":
        return message.content.forEach(tool)
      case "assistant":
        return message.content?.forEach((part) => texts.push(part.type === "text" ? part.text : part.refusal))
    }
  }

  for (const message of request.messages) {
    tokens += perItem
    content(message)
    if (message.role === "assistant") {
      texts.push(message.reasoning ?? message.reasoning_content ?? "")
      for (const { function: called } of message.tool_calls ?? []) {
        tokens += perItem
        texts.push(called.name, called.arguments)
      }
    }
  }
  for (const { function: declared } of request.tools ?? []) {
    tokens += perItem
    texts.push(JSON.stringify(declared))
  }
  if (request.response_format?.type === "json_schema") texts.push(JSON.stringify(request.response_format.json_schema))
  return tokens + count(texts.join("\n"))
}

const file = (data: string): number =>
  /^https?:/i.test(data) ? perRemoteFile : Math.ceil(data.length / encodedPerFileToken)
