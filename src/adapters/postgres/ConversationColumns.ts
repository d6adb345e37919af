import { Schema, Struct } from "effect"
import { Message, MessageRole, textOf } from "../../domain/conversation/Message.ts"
import { SessionId } from "../../domain/conversation/Session.ts"
import { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import { folded } from "../../domain/search/Phrase.ts"
import { OrganizationId } from "../../domain/shared/Ids.ts"
import { SafeInt8 } from "./Columns.ts"

export const InSession = { workspace: OrganizationId, session: SessionId }

/** Whatever a model or a tool says, Postgres takes no NUL and nothing that is not UTF-8. Lengths stay. */
export const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD")

/** What is not in columns of its own. Content that is nothing but the text is not there twice. */
const Body = Schema.Struct({
  ...Struct.omit(Message.fields, ["role", "content", "createdAt"]),
  content: Schema.optionalKey(Message.fields.content)
})

/** A message as the functions of the store take it. `body` is JSON as a text: no escape in it means anything to them. */
export const StoredMessage = Schema.Struct({
  role: MessageRole,
  text: Schema.String,
  folded: Schema.String,
  body: Schema.fromJsonString(Body)
})

export const toStored = (message: Omit<Message, "createdAt">): typeof StoredMessage.Type => {
  const { content, role, ...rest } = message
  const text = storable(textOf(message))
  return { role, text, folded: folded(text), body: content === text ? rest : { ...rest, content } }
}

export const messageOf = ({
  body,
  role,
  text
}: Pick<typeof StoredMessage.Type, "role" | "text" | "body">): Omit<Message, "createdAt"> => ({
  ...body,
  role,
  content: body.content === undefined ? text : body.content
})

/** Columns of `session_messages` that make a message. */
export const MessageRow = Schema.Struct({
  role: MessageRole,
  text: Schema.String,
  body: Schema.fromJsonString(Body),
  createdAt: SafeInt8
})

export const messageColumns = "role, text, body, created_at"

export const fromRow = (row: typeof MessageRow.Type): Message => ({ ...messageOf(row), createdAt: row.createdAt })

/** Lists travel as JSON: one parameter each. Events in it are JSON as texts, as they are stored. */
export const StoredMessages = Schema.fromJsonString(Schema.Array(StoredMessage))
export const StoredEvent = Schema.fromJsonString(SessionEvent)
export const StoredEvents = Schema.fromJsonString(Schema.Array(StoredEvent))
