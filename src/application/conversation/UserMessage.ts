import { Schema } from "effect"
import type { SessionId } from "../../domain/conversation/Session.ts"
import type { Caller } from "../../domain/identity/ApiKey.ts"

/** A message that no turn can be made of: without content, or with an attachment that is not what it says it is. */
export class MessageRefused extends Schema.TaggedError<MessageRefused>()("MessageRefused", {
  message: Schema.String
}) {}

export interface UserMessage {
  /** None: the session `default`. */
  readonly session: SessionId | undefined
  readonly content: string
  /** Whether chunks are wanted. */
  readonly stream: boolean
  /** Null while the runtime is open. */
  readonly caller: Caller | null
  readonly image?: Attachment | undefined
  readonly file?: Attachment | undefined
}

/** What comes with a message, in base64 (section 4.9). */
export interface Attachment {
  readonly base64: string
  readonly mimeType: string
  readonly filename?: string | undefined
}
