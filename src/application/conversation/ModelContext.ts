import type { Message } from "../../domain/conversation/Message.ts"

/** What of a session's history a model is shown: all of it, or a summary of its beginning and what came after. */
export interface ModelContext {
  readonly summary: string | undefined
  readonly messages: ReadonlyArray<Message>
}

export const contextOf = (history: ReadonlyArray<Message>): ModelContext => {
  const summary = history.findLast(({ summaryOf }) => summaryOf !== undefined)
  const own = history.filter(({ summaryOf }) => summaryOf === undefined)
  if (summary === undefined) return { summary: undefined, messages: own }
  const last = own.findIndex(({ id }) => id === summary.summaryOf)
  return { summary: typeof summary.content === "string" ? summary.content : undefined, messages: own.slice(last + 1) }
}

/**
 * Where a context that is too long is cut: what is before is summarized, what is from there on stays as it is. A tool's
 * result never stands without its call. `sizes` are tokens, one for each message; what stays has at most `most`, but the
 * last message stays in any case. 0: nothing can be summarized.
 */
export const cutOf = (
  messages: ReadonlyArray<Pick<Message, "role">>,
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
  return Math.max(0, cut)
}
