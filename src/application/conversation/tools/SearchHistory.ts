import { Effect, Schema } from "effect"
import { MessageRole } from "../../../domain/conversation/Message.ts"
import { Search } from "../../search/Search.ts"
import { internalTool } from "./InternalTool.ts"
import { done, found } from "./Outcomes.ts"

const Parameters = Schema.Struct({
  query: Schema.NonEmptyString.check(Schema.isMaxLength(500)).annotate({
    description: "A word or phrase as it stands in the messages, in whatever case. No operators, no wildcards."
  }),
  sessionId: Schema.optionalKey(Schema.String.annotate({ description: "Only in this conversation; else in all." })),
  role: Schema.optionalKey(MessageRole.annotate({ description: "Only what was said in this role." })),
  limit: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 50 })).annotate({
      description: "How many messages are found at most; 10 if not given."
    })
  )
})

export const searchHistory = Effect.map(Search, (search) =>
  internalTool({
    name: "search_history",
    description:
      "Finds messages of this and earlier conversations that have a phrase, the newest first, each with the text around " +
      "the place. If nothing is found, try a shorter phrase or another word for it.",
    parameters: Parameters,
    isIdempotent: true,
    run: Effect.fnUntraced(function* ({ limit = 10, query, role, sessionId }, { turn }) {
      const { hits, total } = yield* search.messages(turn.workspace, {
        phrase: query,
        limit,
        offset: 0,
        ...(sessionId === undefined ? {} : { session: sessionId }),
        ...(role === undefined ? {} : { role })
      })
      if (total === 0) return done(`No message has ${JSON.stringify(query)}.`)
      const lines = hits.map(({ context, message, session }) => {
        const when = new Date(message.createdAt).toISOString()
        const where = session === turn.session ? "this conversation" : `session ${session}`
        return `- ${where}, ${message.role}, ${when}: ${JSON.stringify(context)}`
      })
      return done(found(total, "messages", lines))
    })
  })
)
