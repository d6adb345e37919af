import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { RunningAgents } from "../../../application/agent/RunningAgents.ts"
import { SendMessage } from "../../../application/conversation/SendMessage.ts"
import { SessionsOfWorkspace } from "../../../application/conversation/SessionsOfWorkspace.ts"
import type { UserMessage } from "../../../application/conversation/UserMessage.ts"
import { defaultSession } from "../../../domain/conversation/Session.ts"
import { CurrentWorkspace } from "./CurrentWorkspace.ts"
import { messageEnvelope } from "./envelopes/MessageEnvelope.ts"
import type { SentMessage } from "./MessageApi.ts"
import { RuntimeApi } from "./RuntimeApi.ts"

export const MessageHandlers = HttpApiBuilder.group(
  RuntimeApi,
  "messages",
  Effect.fnUntraced(function* (handlers) {
    const messages = yield* SendMessage
    const sessions = yield* SessionsOfWorkspace
    const agents = yield* RunningAgents

    const send = ({ fileData, imageData, message, sessionId }: typeof SentMessage.Type, stream: boolean) =>
      Effect.flatMap(CurrentWorkspace, ({ caller = null, id }) =>
        messages.send(id, {
          session: sessionId,
          content: message,
          stream,
          caller,
          image: imageData,
          file: fileData
        } satisfies UserMessage)
      ).pipe(
        Effect.map(({ turn }) => ({ status: "processing" as const, sessionId: turn.session })),
        Effect.catchTags({ MessageRefused: refuse, TooManySessions: refuse })
      )

    return handlers
      .handle("sendMessageSync", ({ payload }) => send(payload, false))
      .handle("sendMessage", ({ payload }) => send(payload, payload.stream ?? false))
      .handle("resetConversation", ({ payload: { sessionId = defaultSession } }) =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => sessions.reset(id, sessionId)).pipe(
          Effect.as({ status: "reset initiated" as const, sessionId })
        )
      )
      .handle("getGreeting", () =>
        Effect.flatMap(CurrentWorkspace, ({ id }) => agents.of(id)).pipe(
          Effect.map(({ config: { greeting } }) => (greeting === undefined ? {} : { greeting })),
          // An agent that cannot run greets nobody; what is wrong with it is told by its own routes.
          Effect.catchTags({
            NoCurrentAgent: () => Effect.succeed({}),
            AgentNotRunnable: () => Effect.succeed({})
          })
        )
      )
  })
)

/** `{error}` (section 7.2). */
const refuse = ({ message }: { readonly message: string }) => Effect.succeed(messageEnvelope(400, message))
