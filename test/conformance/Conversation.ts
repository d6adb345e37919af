import { Effect } from "effect"
import { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import type { Submission } from "../../src/application/ports/storage/TurnJournal.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import type { Message } from "../../src/domain/conversation/Message.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import type { SessionEvent } from "../../src/domain/conversation/SessionEvent.ts"
import { TurnId, type TurnRef } from "../../src/domain/conversation/Turn.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"

/** Parts of conversations that no other test has. */

export const sessionId = (): SessionId => SessionId.make(crypto.randomUUID())

export const turnIn = (workspace: OrganizationId, session: SessionId): TurnRef => ({
  workspace,
  session,
  turn: TurnId.make(crypto.randomUUID())
})

export const message = (
  content: Message["content"],
  fields: Partial<Omit<Message, "createdAt">> = {}
): Omit<Message, "createdAt"> => ({ id: crypto.randomUUID(), role: "user", content, ...fields })

export const submission = (content: Message["content"], fields: Partial<Submission> = {}): Submission => ({
  message: message(content),
  stream: false,
  caller: null,
  ...fields
})

export const chunk = (sessionId: SessionId, content: string): SessionEvent => ({
  event: "chunk",
  data: { type: "text", content, sessionId }
})

export const response = (sessionId: SessionId, text: string): SessionEvent => ({
  event: "response",
  data: {
    text,
    tokenUsage: { inputTokens: 1, outputTokens: 2, reasoningTokens: 0, totalTokens: 3 },
    provider: "service",
    model: "echo",
    router: "in-built",
    sessionId
  }
})

/** A turn that has been answered; the user's words and the answer are in the history. */
export const exchanged = Effect.fnUntraced(function* (
  workspace: OrganizationId,
  session: SessionId,
  said: Message["content"],
  answer: Message["content"]
) {
  const journal = yield* TurnJournal
  const turn = turnIn(workspace, session)
  yield* journal.submit(turn, submission(said))
  yield* journal.finish(turn, "completed", { messages: [message(answer, { role: "assistant" })] })
  return turn
})

/** Every event of a session that is kept. */
export const allEvents = (workspace: OrganizationId, session: SessionId) =>
  Effect.flatMap(EventLog, (log) => log.after(workspace, session, 0, 1_000_000))

export const namesOf = (events: ReadonlyArray<{ readonly event: SessionEvent }>): ReadonlyArray<string> =>
  events.map(({ event }) => event.event)
