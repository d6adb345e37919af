import { Context, Effect, Layer, Option } from "effect"
import { type ContentPart, longestText, type Message } from "../../domain/conversation/Message.ts"
import { defaultSession, type SessionId } from "../../domain/conversation/Session.ts"
import type { TooManySessions } from "../../domain/conversation/SessionErrors.ts"
import { TurnId, type TurnRef } from "../../domain/conversation/Turn.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { RunningAgents } from "../agent/RunningAgents.ts"
import { EffectiveLlm } from "../llm/EffectiveLlm.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { TurnRunner } from "../ports/runtime/TurnRunner.ts"
import { type Submission, TurnJournal } from "../ports/storage/TurnJournal.ts"
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

      /** Whoever sent it may leave at any moment: what is stored is started. */
      const started =
        (turn: TurnRef) =>
        ({ position }: { readonly position: number }) =>
          Effect.as(position === 0 ? runner.start(turn) : Effect.void, { turn, position })

      return SendMessage.of({
        send: Effect.fn("SendMessage.send")(function* (workspace, message) {
          const { caller, content, session = defaultSession, stream } = message
          if (content.length > longestText) return yield* new MessageRefused({ message: tooLong })
          const attached = yield* checked(workspace, session, message)
          if (content.trim() === "" && attached.length === 0) return yield* new MessageRefused({ message: noContent })
          const turn: TurnRef = { workspace, session, turn: TurnId.make(yield* ids.next) }
          const submission = (content: Message["content"]): Submission => ({
            message: { id: turn.turn, role: "user", content },
            stream,
            caller
          })
          // Most sessions are there, and nothing else needs to be known of them.
          if (attached.length === 0) {
            const submitted = yield* journal.submitIfOpen(turn, submission(content)).pipe(
              Effect.flatMap((known) => Effect.transposeOption(Option.map(known, started(turn)))),
              Effect.uninterruptible
            )
            if (Option.isSome(submitted)) return submitted.value
          }
          yield* sessions.open(workspace, session)
          const parts = yield* attachments.store(workspace, session, attached)
          const text: ReadonlyArray<ContentPart> = content === "" ? [] : [{ type: "text", text: content }]
          return yield* journal
            .submit(turn, submission(parts.length === 0 ? content : [...text, ...parts]))
            .pipe(Effect.flatMap(started(turn)), Effect.uninterruptible)
        })
      })
    })
  )
}

const tooLong = `Expected a message of at most ${longestText} characters: send longer texts as a file.`

const noContent = "Expected a message with content: `message` is empty, and nothing is attached."
