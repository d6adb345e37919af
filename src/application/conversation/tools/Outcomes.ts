import type { ContentPart } from "../../../domain/conversation/Message.ts"
import type { ToolOutcome } from "../AgentTool.ts"

/** Characters of an answer that a model is told. */
const mostTold = 200_000

/** Characters of an answer that listeners are shown: every one of them gets it, and the log keeps it. */
export const mostShown = 20_000

/** A text of which no more is left than so many characters; it says what is missing. */
export const bounded = (text: string, most = mostTold): string =>
  text.length <= most
    ? text
    : `${text.slice(0, most).toWellFormed()}\n[Cut off here: these are the first ${most} of ${text.length} characters.]`

/** What a search found: how many there are in all, and those that are shown, a line each. */
export const found = (total: number, what: string, lines: ReadonlyArray<string>): string =>
  [`Found ${what}: ${total}${total > lines.length ? `, of which these are ${lines.length}` : ""}.`, ...lines].join("\n")

/** A tool did what it was asked for. */
export const done = (text: string, media: ReadonlyArray<ContentPart> = []): ToolOutcome => outcome(true, text, media)

/** A tool did not; the text tells the model why, and what it may do. */
export const failed = (text: string): ToolOutcome => outcome(false, text, [])

const outcome = (success: boolean, text: string, media: ReadonlyArray<ContentPart>): ToolOutcome => ({
  success,
  text: bounded(text),
  ...(media.length === 0 ? {} : { media }),
  content: [{ type: "text", text: bounded(text, mostShown) }],
  meta: {}
})
