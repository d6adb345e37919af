import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { type MessageHit, Search } from "../../../application/search/Search.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const SearchHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "search",
  Effect.fnUntraced(function* (handlers) {
    const search = yield* Search

    return handlers
      .handle(
        "searchMessages",
        Effect.fnUntraced(function* ({ query: { limit = usualPage, offset = 0, q, role, sessionId } }) {
          const { id } = yield* CurrentWorkspace
          const { hits, total } = yield* search.messages(id, {
            phrase: q,
            ...(sessionId === undefined ? {} : { session: sessionId }),
            ...(role === undefined ? {} : { role }),
            limit,
            offset
          })
          return {
            results: hits.map(wireOf),
            total,
            hasMore: offset + hits.length < total,
            query: q,
            options: { limit, offset }
          }
        })
      )
      .handle(
        "searchSessions",
        Effect.fnUntraced(function* ({ query: { q } }) {
          const { id } = yield* CurrentWorkspace
          const { matches, total } = yield* search.sessions(id, q)
          return {
            results: matches.map(({ first, matchCount, session }) => ({
              sessionId: session.id,
              matchCount,
              firstMatch: wireOf(first),
              metadata: {
                createdAt: session.createdAt,
                lastActivity: session.lastActivity,
                messageCount: session.messageCount
              }
            })),
            total,
            hasMore: matches.length < total,
            query: q
          }
        })
      )
  })
)

const usualPage = 20

const wireOf = ({ context, index, matchedText, message: { content, role }, session }: MessageHit) => ({
  sessionId: session,
  message: { role, content },
  matchedText,
  context,
  messageIndex: index
})
