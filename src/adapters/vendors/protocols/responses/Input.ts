import type { AssistantMessage, ChatMessage, ToolMessage } from "../../../../domain/completion/ChatMessage.ts"
import { detach } from "../../../../domain/completion/Continuation.ts"
import type { Form } from "./Form.ts"
import { writeToolPart, writeUserPart } from "./InputPart.ts"
import { noField, type Refuse } from "./Refuse.ts"
import { sealedReasoning } from "./SealedReasoning.ts"

export interface Input {
  readonly instructions?: string
  readonly input: ReadonlyArray<object>
}

/** A subscription's server answers nothing without instructions. */
const usualInstructions = "You are a helpful assistant."

/** The conversation as items. Instructions that a subscription's server cannot take as an item go in front of them. */
export const writeMessages = (messages: ReadonlyArray<ChatMessage>, form: Form, refuse: Refuse): Input => {
  const item = (message: ChatMessage, index: number) => writeMessage(message, `messages[${index}]`, form, refuse)
  if (form === "platform") return { input: messages.flatMap(item) }
  const start = messages.findIndex(({ role }) => role !== "system" && role !== "developer")
  const leading = messages.slice(0, Math.max(start, 0)).flatMap(({ content }) => textsOf(content))
  const instructions = leading.filter((text) => text !== "").join("\n\n")
  return {
    instructions: instructions === "" ? usualInstructions : instructions,
    input: messages.flatMap((message, index) => (index < start ? [] : item(message, index)))
  }
}

const textsOf = (content: ChatMessage["content"]): ReadonlyArray<string> =>
  typeof content === "string" ? [content] : (content ?? []).flatMap((part) => (part.type === "text" ? [part.text] : []))

const writeMessage = (message: ChatMessage, path: string, form: Form, refuse: Refuse): ReadonlyArray<object> => {
  switch (message.role) {
    case "system":
    case "developer":
      return [
        {
          type: "message",
          role: form === "platform" ? message.role : "developer",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map(({ text }) => ({ type: "input_text", text }))
        }
      ]
    case "user":
      return [
        {
          type: "message",
          role: "user",
          content:
            typeof message.content === "string"
              ? message.content
              : message.content.map((part, index) => writeUserPart(part, `${path}.content[${index}]`, refuse))
        }
      ]
    case "assistant":
      return writeAssistant(message, path, form, refuse)
    case "tool":
      return [writeToolAnswer(message, path, refuse)]
  }
}

/**
 * What the model thought before its first call came before its text too. It can be given back sealed only; so reasoning
 * in plain text is refused, unless it is the same that comes back sealed.
 */
const writeAssistant = (message: AssistantMessage, path: string, form: Form, refuse: Refuse): ReadonlyArray<object> => {
  const { content, tool_calls = [] } = message
  const calls = tool_calls.map(({ function: called, id }) => ({
    reasoning: sealedReasoning(id, form),
    item: { type: "function_call", call_id: detach(id), name: called.name, arguments: called.arguments }
  }))
  if (calls.every(({ reasoning }) => reasoning.length === 0)) {
    for (const field of ["reasoning", "reasoning_content"] as const) {
      if ((message[field] ?? "") !== "") refuse(`${path}.${field}`, noField)
    }
  }
  const hasText = content != null && content.length > 0
  const text = {
    type: "message",
    role: "assistant",
    content: !hasText
      ? ""
      : typeof content === "string"
        ? content
        : content.map((part) => (part.type === "text" ? { type: "output_text", text: part.text } : part))
  }
  const [first, ...more] = calls
  return [
    ...(first?.reasoning ?? []),
    ...(hasText || first === undefined ? [text] : []),
    ...(first === undefined ? [] : [first.item]),
    ...more.flatMap(({ item, reasoning }) => [...reasoning, item])
  ]
}

const writeToolAnswer = ({ content, name, tool_call_id }: ToolMessage, path: string, refuse: Refuse): object => ({
  type: "function_call_output",
  call_id: detach(tool_call_id),
  ...(name === undefined ? {} : { name }),
  output:
    typeof content === "string"
      ? content
      : content.length === 0
        ? ""
        : content.map((part, index) => writeToolPart(part, `${path}.content[${index}]`, refuse))
})
