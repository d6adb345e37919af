import type { ContentPart, Message } from "../../domain/conversation/Message.ts"

/** What of a session's history a model is shown: all of it, or a summary of its beginning and what came after. */
export interface ModelContext {
  readonly summary: string | undefined
  readonly messages: ReadonlyArray<Message>
}

/** What comes after a summary begins with what the user asked for, also when the summary reaches into that turn. */
export const contextOf = (history: ReadonlyArray<Message>): ModelContext => {
  const own = history.filter(({ summaryOf }) => summaryOf === undefined)
  const places = new Map(own.map(({ id }, place) => [id, place]))
  let summary: Message | undefined
  let begin = 0
  // The one that reaches farthest, and of those the last.
  for (const message of history) {
    const last = message.summaryOf === undefined ? undefined : places.get(message.summaryOf)
    if (last === undefined || last < begin - 1) continue
    summary = message
    begin = last + 1
  }
  if (summary === undefined) return { summary: undefined, messages: own }
  const after = own.slice(begin)
  const [first] = after
  const asked = first === undefined || isQuestion(first) ? undefined : own.slice(0, begin).findLast(isQuestion)
  return {
    summary: typeof summary.content === "string" ? summary.content : undefined,
    messages: asked === undefined ? after : [{ ...asked, content: bounded(asked.content) }, ...after]
  }
}

/**
 * Where a context that is too long is cut: what is before is summarized, what is from there on stays as it is. A tool's
 * result never stands without its call, and whole turns go before parts of one: vendors take no history that begins with
 * an answer. `sizes` are tokens, one for each message; what stays has at most `most`, but the last message stays in any
 * case. 0: nothing can be summarized.
 */
export const cutOf = (
  messages: ReadonlyArray<Pick<Message, "role" | "name">>,
  sizes: ReadonlyArray<number>,
  most: number
): number => {
  let cut = messages.length - 1
  let tokens = sizes[cut] ?? 0
  while (cut > 0 && tokens + (sizes[cut - 1] ?? 0) <= most) {
    cut -= 1
    tokens += sizes[cut] ?? 0
  }
  // Results go with their call: at worst all that is left of the turn stays.
  while (cut > 0 && messages[cut]?.role === "tool") cut -= 1
  if (cut <= 0) return 0
  const question = messages.findIndex((message, index) => index >= cut && isQuestion(message))
  if (question !== -1) return question
  // The question of a turn that goes on stays, unless it is long: to summarize nothing else gains nothing.
  const [first] = messages
  const isNothing = cut === 1 && first !== undefined && isQuestion(first) && (sizes[0] ?? 0) <= longestQuestion
  return isNothing ? 0 : cut
}

/** What a user said, and not what it refers to. */
const isQuestion = ({ name, role }: Pick<Message, "role" | "name">): boolean => role === "user" && name !== "references"

/** Characters of a question that stands before a summarized part of its turn; the summary tells of a longer one. */
const longestQuestion = 8_000

const bounded = (content: Message["content"]): Message["content"] =>
  content === null
    ? null
    : typeof content === "string"
      ? shortened(content)
      : content.map((part): ContentPart => (part.type === "text" ? { ...part, text: shortened(part.text) } : part))

const shortened = (text: string): string =>
  text.length <= longestQuestion
    ? text
    : `${text.slice(0, longestQuestion / 2).toWellFormed()}\n[…]\n${text.slice(-longestQuestion / 2).toWellFormed()}`
