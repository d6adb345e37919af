import { Schema } from "effect"
import { Router } from "../agent/AgentConfig.ts"
import { ApprovalId } from "./Approval.ts"
import { TokenUsage } from "./Message.ts"
import { SessionId } from "./Session.ts"

const inSession = { sessionId: SessionId }

const event = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Schema.Struct({ event: Schema.Literal(name), data: Schema.Struct(fields) })

/** What happens in a session, as its listeners are told (decisions 6). Each has a number of its session. */
export const SessionEvent = Schema.Union([
  event("thinking", inSession),
  event("chunk", {
    type: Schema.Literals(["text", "reasoning"]),
    content: Schema.String,
    isComplete: Schema.optionalKey(Schema.Boolean),
    ...inSession
  }),
  event("response", {
    text: Schema.String,
    reasoning: Schema.optionalKey(Schema.String),
    tokenUsage: TokenUsage,
    provider: Schema.String,
    model: Schema.String,
    router: Router,
    ...inSession
  }),
  event("toolCall", { toolName: Schema.String, args: Schema.Json, callId: Schema.String, ...inSession }),
  event("toolResult", {
    toolName: Schema.String,
    callId: Schema.String,
    success: Schema.Boolean,
    sanitized: Schema.Struct({ content: Schema.Array(Schema.Json), meta: Schema.Record(Schema.String, Schema.Json) }),
    ...inSession
  }),
  event("approvalRequest", {
    approvalId: ApprovalId,
    type: Schema.Literals(["tool_confirmation", "elicitation"]),
    timeout: Schema.Int,
    timestamp: Schema.Int,
    metadata: Schema.Record(Schema.String, Schema.Json),
    ...inSession
  }),
  event("conversationReset", inSession),
  event("sessionTitleUpdated", { title: Schema.String, ...inSession }),
  event("messageQueued", { position: Schema.Int, ...inSession }),
  event("error", {
    message: Schema.String,
    code: Schema.String,
    recoverable: Schema.Boolean,
    sessionId: Schema.optionalKey(SessionId)
  })
])
export type SessionEvent = typeof SessionEvent.Type

/** An event with its number: 1 for a session's first, one more for each that follows. */
export interface NumberedEvent {
  readonly id: number
  readonly session: SessionId
  readonly event: SessionEvent
}

/** Which end a turn; exactly one of them comes. */
export const endsTurn = ({ event }: SessionEvent): boolean => event === "response" || event === "error"

/** The end of a turn that somebody cancelled, or whose session was reset while it ran or waited. */
export const cancelled = (sessionId: SessionId): SessionEvent => ({
  event: "error",
  data: { message: "The turn was cancelled.", code: "cancelled", recoverable: true, sessionId }
})

/** Kept until its turn ends; every other event is kept as long as its session. */
export const isChunk = ({ event }: SessionEvent): boolean => event === "chunk"
