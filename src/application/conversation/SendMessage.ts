import { Context, Effect, Layer } from "effect"
import { type ContentPart, longestText } from "../../domain/conversation/Message.ts"
import { defaultSession, type SessionId } from "../../domain/conversation/Session.ts"
import type { TooManySessions } from "../../domain/conversation/SessionErrors.ts"
import { TurnId, type TurnRef } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { RunningAgents } from "../agent/RunningAgents.ts"
import { EffectiveLlm } from "../llm/EffectiveLlm.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { TurnRunner } from "../ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../ports/storage/TurnJournal.ts"
import { Attachments } from "./Attachments.ts"
import { CallModel } from "./CallModel.ts"
import { SessionsOfWorkspace } from "./SessionsOfWorkspace.ts"
import { MessageRefused, type UserMessage } from "./UserMessage.ts"

/** Takes a user's message (section 4.9, decisions 6): once it is stored its turn will be answered, whatever dies. */
export class SendMessage extends Context.Service<
  SendMessage,
  {
    /** `position` 0 runs now, 1 is next. */
    readonly send: (
      workspace: OrganizationId,
      message: UserMessage
    ) => Effect.Effect<{ readonly turn: TurnRef; readonly position: number }, MessageRefused | TooManySessions>
  }
>()("gateway/conversation/SendMessage") {
  static readonly layer = Layer.effect(
    SendMessage,
    Effect.gen(function* () {
      const sessions = yield* SessionsOfWorkspace
      const journal = yield* TurnJournal
      const runner = yield* TurnRunner
      const agents = yield* RunningAgents
      const llms = yield* EffectiveLlm
      const model = yield* CallModel
      const attachments = yield* Attachments
      const ids = yield* Ids

      const checked = Effect.fnUntraced(function* (
        workspace: OrganizationId,
        session: SessionId,
        message: Pick<UserMessage, "image" | "file">
      ) {
        if (message.image === undefined && message.file === undefined) return []
        const { config } = yield* Effect.mapError(
          agents.of(workspace),
          ({ message }) => new MessageRefused({ message: `Nothing can be attached: ${message}` })
        )
        const llm = yield* llms.of(workspace, config.llm, session)
        const { takes } = yield* model.capabilities(llm)
        return yield* attachments.check(message, { takes, allowedMediaTypes: llm.allowedMediaTypes })
      })

      return SendMessage.of({
        send: Effect.fn("SendMessage.send")(function* (workspace, message) {
          const { caller, content, session = defaultSession, stream } = message
          if (content.length > longestText) return yield* new MessageRefused({ message: tooLong })
          const attached = yield* checked(workspace, session, message)
          if (content.trim() === "" && attached.length === 0) return yield* new MessageRefused({ message: noContent })
          yield* sessions.open(workspace, session)
          const parts = yield* attachments.store(workspace, session, attached)
          const text: ReadonlyArray<ContentPart> = content === "" ? [] : [{ type: "text", text: content }]
          const turn: TurnRef = { workspace, session, turn: TurnId.make(yield* ids.next) }
          // Whoever sent it may leave at any moment: what is stored is started.
          const position = yield* Effect.uninterruptible(
            Effect.gen(function* () {
              const { position } = yield* journal.submit(turn, {
                message: { id: turn.turn, role: "user", content: parts.length === 0 ? content : [...text, ...parts] },
                stream,
                caller
              })
              if (position === 0) yield* runner.start(turn)
              return position
            })
          )
          return { turn, position }
        })
      })
    })
  )
}

const tooLong = `Expected a message of at most ${longestText} characters: send longer texts as a file.`

const noContent = "Expected a message with content: `message` is empty, and nothing is attached."
