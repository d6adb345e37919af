import { Schema } from "effect"
import { SessionId } from "./Session.ts"
import { TurnId } from "./Turn.ts"

export const ApprovalId = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,200}$/, { expected: "1 to 200 visible characters" })
).pipe(Schema.brand("ApprovalId"))
export type ApprovalId = typeof ApprovalId.Type

/** What a person said to an approval; `cancelled` is a refusal that gives no reason. */
export const ApprovalAnswer = Schema.Struct({
  status: Schema.Literals(["approved", "denied", "cancelled"]),
  /** The tool needs no further approval. */
  rememberChoice: Schema.optionalKey(Schema.Boolean),
  /** What was filled in, of an elicitation. */
  formData: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})
export type ApprovalAnswer = typeof ApprovalAnswer.Type

/**
 * A question to a person before a turn goes on (decisions 6, 7): whether a tool may run, or a form of an MCP server or
 * of the agent. Unanswered within its timeout it is denied. Times are epoch milliseconds by the store's clock.
 */
export const Approval = Schema.Struct({
  approvalId: ApprovalId,
  type: Schema.Literals(["tool_confirmation", "elicitation"]),
  sessionId: SessionId,
  turnId: TurnId,
  /** Milliseconds. */
  timeout: Schema.Int,
  timestamp: Schema.Int,
  /** Of a confirmation: `toolName`, `args`, `callId`. Of an elicitation: `message`, `schema`, `serverName`. */
  metadata: Schema.Record(Schema.String, Schema.Json)
})
export type Approval = typeof Approval.Type
