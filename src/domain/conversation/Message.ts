import { Schema } from "effect"
import { Router } from "../agent/AgentConfig.ts"

/** Part of a message; what is no text is a blob of the workspace, by its address `blob:<id>`. */
export const ContentPart = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("image"), image: Schema.String, mimeType: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("file"),
    data: Schema.String,
    mimeType: Schema.String,
    filename: Schema.optionalKey(Schema.String)
  })
])
export type ContentPart = typeof ContentPart.Type

/** A call of a tool as the model asked for it. `arguments` is JSON text, as the model wrote it. */
export const ToolCall = Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String })
export type ToolCall = typeof ToolCall.Type

/** Tokens of one answer, disjoint but for the total. */
export const TokenUsage = Schema.Struct({
  inputTokens: Schema.Int,
  outputTokens: Schema.Int,
  reasoningTokens: Schema.Int,
  totalTokens: Schema.Int
})
export type TokenUsage = typeof TokenUsage.Type

export const MessageRole = Schema.Literals(["user", "assistant", "system", "tool"])
export type MessageRole = typeof MessageRole.Type

/** A message of a session's history (decisions 6). `createdAt` is epoch milliseconds. */
export const Message = Schema.Struct({
  id: Schema.String,
  role: MessageRole,
  /** Null: an answer that only calls tools. */
  content: Schema.NullOr(Schema.Union([Schema.String, Schema.Array(ContentPart)])),
  createdAt: Schema.Int,
  reasoning: Schema.optionalKey(Schema.String),
  tokenUsage: Schema.optionalKey(TokenUsage),
  model: Schema.optionalKey(Schema.String),
  provider: Schema.optionalKey(Schema.String),
  router: Schema.optionalKey(Router),
  toolCalls: Schema.optionalKey(Schema.Array(ToolCall)),
  toolCallId: Schema.optionalKey(Schema.String),
  name: Schema.optionalKey(Schema.String),
  /** Of a summary, whose role is `system`: the last message that it stands for, beside all before. */
  summaryOf: Schema.optionalKey(Schema.String)
})
export type Message = typeof Message.Type

/** Characters of text that a message may be sent with; what is attached is apart. All of it is searched. */
export const longestText = 1_000_000

/** What a search looks into: the text of a message without its attachments. */
export const textOf = ({ content }: Pick<Message, "content">): string =>
  content === null
    ? ""
    : typeof content === "string"
      ? content
      : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
