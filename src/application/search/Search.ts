import { Context, Effect, Layer, Schema } from "effect"
import { type Message, type MessageRole, textOf } from "../../domain/conversation/Message.ts"
import { type Session, SessionId } from "../../domain/conversation/Session.ts"
import { type Found, foundIn } from "../../domain/search/Phrase.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { type FoundMessage, Sessions } from "../ports/storage/Sessions.ts"

/** Finds phrases in the conversations of a workspace (section 4.4, decisions 8). Totals are exact. */
export class Search extends Context.Service<
  Search,
  {
    /** Those with the phrase in its own case first, then the newest. A session that is not there has none. */
    readonly messages: (
      workspace: OrganizationId,
      query: MessageQuery
    ) => Effect.Effect<{ readonly hits: ReadonlyArray<MessageHit>; readonly total: number }>
    /** At most a hundred, those with the newest match first. */
    readonly sessions: (
      workspace: OrganizationId,
      phrase: string
    ) => Effect.Effect<{ readonly matches: ReadonlyArray<SessionMatch>; readonly total: number }>
  }
>()("gateway/search/Search") {
  static readonly layer = Layer.effect(
    Search,
    Effect.gen(function* () {
      const sessions = yield* Sessions

      return Search.of({
        messages: Effect.fn("Search.messages")(function* (workspace, { session, ...query }) {
          if (session !== undefined && !isId(session)) return { hits: [], total: 0 }
          const { hits, total } = yield* sessions.searchMessages(workspace, {
            ...query,
            ...(session === undefined ? {} : { session })
          })
          return { hits: hits.map((found) => hitOf(found, query.phrase)), total }
        }),
        sessions: Effect.fn("Search.sessions")(function* (workspace, phrase) {
          const { found, total } = yield* sessions.searchSessions(workspace, phrase, mostSessions)
          const matches = found.map(({ first, matchCount, session }) => ({
            session,
            matchCount,
            first: hitOf(first, phrase)
          }))
          return { matches, total }
        })
      })
    })
  )
}

const mostSessions = 100

const isId = Schema.is(SessionId)

export interface MessageQuery {
  readonly phrase: string
  readonly session?: string
  readonly role?: MessageRole
  readonly limit: number
  readonly offset: number
}

export interface MessageHit extends Found {
  readonly session: SessionId
  readonly message: Message
  /** From 0. */
  readonly index: number
}

export interface SessionMatch {
  readonly session: Session
  readonly matchCount: number
  /** The oldest. */
  readonly first: MessageHit
}

const hitOf = ({ index, message, session }: FoundMessage, phrase: string): MessageHit => ({
  session,
  message,
  index,
  // A store says what it keeps instead of characters that it cannot keep; those are not where it found them.
  ...(foundIn(textOf(message), phrase) ?? { matchedText: phrase, context: phrase })
})
