import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"

/** A terminal that a conversation is written to. */
export interface Screen {
  /** Of one turn, in the order that its events come in. */
  readonly show: (event: SessionEvent) => void
  /** A line that is no part of the conversation. */
  readonly note: (text: string) => void
}

/** Longer arguments of a tool are cut. */
const longest = 200

type Write = (text: string) => void

/**
 * Writes turns as they happen: text as it streams; aside from it, and dimmed where there are colours, reasoning and what
 * tools do. What a model says may hold anything, and must not steer the terminal.
 */
export const make = (write: Write, aside: Write, colors: boolean): Screen => {
  /** The text of the answer so far. */
  let streamed = ""
  let isInReasoning = false
  let isAtLineStart = true

  const put = (text: string, to: Write = write): void => {
    if (text === "") return
    isAtLineStart = text.endsWith("\n")
    to(to === aside ? dim(text) : text)
  }
  const dim = (text: string): string => (colors ? `\u001B[2m${text}\u001B[22m` : text)
  const line = (): void => {
    if (!isAtLineStart) put("\n", isInReasoning ? aside : write)
  }
  const note = (text: string): void => {
    line()
    put(`${plain(text)}\n`, aside)
  }

  const show = (event: SessionEvent): void => {
    switch (event.event) {
      case "chunk": {
        const isReasoning = event.data.type === "reasoning"
        if (isReasoning !== isInReasoning) line()
        isInReasoning = isReasoning
        put(plain(event.data.content), isReasoning ? aside : write)
        if (!isReasoning) streamed += event.data.content
        return
      }
      case "toolCall":
        streamed = ""
        return note(`→ ${event.data.toolName} ${cut(JSON.stringify(event.data.args))}`)
      case "toolResult":
        return note(`${event.data.success ? "✓" : "✗"} ${event.data.toolName}`)
      case "messageQueued":
        return note(`Queued, number ${event.data.position}.`)
      case "response": {
        const { text } = event.data
        // Chunks of before a lost connection may be forgotten by then.
        if (text.startsWith(streamed)) {
          if (isInReasoning) line()
          put(plain(text.slice(streamed.length)))
        } else {
          line()
          put(plain(text))
        }
        line()
        streamed = ""
        isInReasoning = false
        return
      }
      case "error":
        streamed = ""
        isInReasoning = false
        return line()
      default:
    }
  }

  return { show, note }
}

const cut = (text: string): string => (text.length > longest ? `${text.slice(0, longest)}…` : text)

/** Without what steers terminals: control characters but line breaks and tabs. */
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
export const plain = (text: string): string => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "")
