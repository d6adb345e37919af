import { Schema } from "effect"

/** A conversation's name, chosen by the caller or made by the service. */
export const SessionId = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,128}$/, { expected: "1 to 128 visible characters" })
).pipe(Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

/** The session of messages that name none (decisions 6). */
export const defaultSession = SessionId.make("default")

/** A conversation as it is listed (decisions 6). Times are epoch milliseconds by the store's clock. */
export const Session = Schema.Struct({
  id: SessionId,
  createdAt: Schema.Int,
  lastActivity: Schema.Int,
  messageCount: Schema.Int,
  /** Null until the first message names it, or somebody does. */
  title: Schema.NullOr(Schema.String)
})
export type Session = typeof Session.Type

/** What somebody may call a session (decisions 6). */
export const SessionTitle = Schema.Trim.check(Schema.isMinLength(1), Schema.isMaxLength(120))

/** The title of a session that nobody has named: the first words of its first message. Null if that says nothing. */
export const titleOf = (text: string): string | null => {
  const words = text.slice(0, 500).toWellFormed().trim().replaceAll(/\s+/gu, " ")
  if (words === "") return null
  const characters = [...words]
  if (characters.length <= longestMadeTitle) return words
  const cut = characters.slice(0, longestMadeTitle - 1).join("")
  const lastSpace = cut.lastIndexOf(" ")
  return `${lastSpace > longestMadeTitle / 2 ? cut.slice(0, lastSpace) : cut}…`
}

/** Characters. */
const longestMadeTitle = 60
