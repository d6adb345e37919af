import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Message, MessageRole } from "../../../domain/conversation/Message.ts"
import { numbersInQuery } from "./Described.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

/** Characters. */
const longestPhrase = 1_000

/** Hits of one answer (decisions 8). */
const longestPage = 100

const Phrase = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longestPhrase)).pipe(
  Schema.annotateKey({ description: "Found in any case; every character stands for itself." })
)

const Hit = Schema.Struct({
  sessionId: Schema.String,
  message: Schema.Struct({ role: Message.fields.role, content: Message.fields.content }),
  matchedText: Schema.String.annotate({ description: "The phrase as it is written in the message." }),
  context: Schema.String.annotate({ description: "With up to 50 characters on each side." }),
  messageIndex: Schema.Int.annotate({ description: "The place in the session's history, from 0." })
}).annotate({ identifier: "MessageHit" })

const Match = Schema.Struct({
  sessionId: Schema.String,
  matchCount: Schema.Int,
  firstMatch: Hit,
  metadata: Schema.Struct({ createdAt: Schema.Int, lastActivity: Schema.Int, messageCount: Schema.Int })
}).annotate({ identifier: "SessionMatch" })

const Total = Schema.Int.annotate({ description: "Of all pages, exactly." })

const wrongQuery = messageError(400, "The phrase is missing or too long, or another parameter is wrong.")

/** Search (section 4.4). */
export const SearchApi = HttpApiGroup.make("search").add(
  HttpApiEndpoint.get("searchMessages", "/api/search/messages", {
    query: {
      q: Phrase,
      sessionId: Schema.optionalKey(Schema.String),
      role: Schema.optionalKey(MessageRole),
      limit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: longestPage }))),
      offset: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))
    },
    success: Schema.Struct({
      results: Schema.Array(Hit),
      total: Total,
      hasMore: Schema.Boolean,
      query: Schema.String,
      options: Schema.Struct({ limit: Schema.Int, offset: Schema.Int })
    }),
    error: [wrongQuery]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "searchMessages",
      summary: "search messages",
      description: "Messages that have the phrase in its own case come first, then those in any case; newest first.",
      transform: numbersInQuery({
        limit: { minimum: 1, maximum: longestPage, default: 20 },
        offset: { minimum: 0, default: 0 }
      })
    })
  ),
  HttpApiEndpoint.get("searchSessions", "/api/search/sessions", {
    query: { q: Phrase },
    success: Schema.Struct({
      results: Schema.Array(Match),
      total: Total,
      hasMore: Schema.Boolean,
      query: Schema.String
    }),
    error: [wrongQuery]
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "searchSessions",
      summary: "search sessions",
      description: "At most 100, those with the newest matching message first."
    })
  )
)
