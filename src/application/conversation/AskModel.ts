import { Context, Data, Effect, Fiber, Layer, Option, Schema } from "effect"
import { inputTokens, type Usage } from "../../domain/billing/Usage.ts"
import type { ChatMessage } from "../../domain/completion/ChatMessage.ts"
import type { ChatRequest } from "../../domain/completion/ChatRequest.ts"
import type { Choice } from "../../domain/completion/Completion.ts"
import { detach } from "../../domain/completion/Continuation.ts"
import { Folded } from "../../domain/completion/Folded.ts"
import { type Message, TokenUsage, ToolCall } from "../../domain/conversation/Message.ts"
import type { SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { Caller } from "../../domain/identity/ApiKey.ts"
import type { Llm } from "../../domain/llm/Llm.ts"
import { countInput } from "../completion/InputTokens.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { Tokenizer } from "../ports/runtime/Tokenizer.ts"
import { EventLog } from "../ports/storage/EventLog.ts"
import { Sessions } from "../ports/storage/Sessions.ts"
import { TurnJournal } from "../ports/storage/TurnJournal.ts"
import type { AgentTool } from "./AgentTool.ts"
import { CallModel, type ModelCall, type ModelFailed } from "./CallModel.ts"
import { showing } from "./ChunkWriter.ts"
import type { ModelCapabilities } from "./ModelCapabilities.ts"
import { contextOf, cutOf, type ModelContext } from "./ModelContext.ts"
import { ModelMessages } from "./ModelMessages.ts"
import { TurnCancelled, TurnFailed } from "./TurnStopped.ts"
import { whenStoreIsBack } from "./WhenStoreIsBack.ts"

/** One answer of a model, as the journal remembers it. */
export const Answer = Schema.Struct({
  /** Of the message that it becomes. */
  id: Schema.String,
  text: Schema.String,
  reasoning: Schema.optionalKey(Schema.String),
  toolCalls: Schema.Array(ToolCall),
  tokenUsage: TokenUsage
})
export type Answer = typeof Answer.Type

/** What an answer is asked for with. */
export interface Question {
  readonly turn: TurnRef
  /** 1 for the turn's first. */
  readonly round: number
  /**
   * Whether nothing was in the journal when this run of the turn began: then it is most likely the first to ask. Not of
   * one that is tried again: the store may take nothing for long, and each try would ask.
   */
  readonly isFirstRun: boolean
  /** Found out while the history is read. */
  readonly settings: Effect.Effect<Settings>
  readonly caller: Caller | null
  /** Whether listeners get chunks. */
  readonly stream: boolean
}

/** What is in force for the session when it is asked. */
export interface Settings {
  readonly llm: Llm
  readonly instructions: string
  readonly tools: ReadonlyArray<AgentTool>
}

type Asked = Omit<Question, "settings"> & Settings

/**
 * Asks the model for its next answer to a session's history. An answer that calls tools is in the journal when this
 * returns; one that does not is what the turn ends with, and is written by that.
 */
export class AskModel extends Context.Service<
  AskModel,
  {
    readonly ask: (
      question: Question
    ) => Effect.Effect<{ readonly answer: Answer; readonly settings: Settings }, TurnFailed | TurnCancelled>
  }
>()("gateway/conversation/AskModel") {
  static readonly layer = Layer.effect(
    AskModel,
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const sessions = yield* Sessions
      const log = yield* EventLog
      const model = yield* CallModel
      const modelMessages = yield* ModelMessages
      const tokenizer = yield* Tokenizer
      const ids = yield* Ids

      /** The history as this model takes it, after the instructions. */
      const messagesOf = Effect.fnUntraced(function* (
        { instructions, llm, turn }: Asked,
        { messages, summary }: ModelContext,
        { takes }: ModelCapabilities
      ) {
        const system = [instructions, ...(summary === undefined ? [] : [summaryBegins + summary])]
          .filter((text) => text !== "")
          .join("\n\n")
        const shown = yield* modelMessages.of(turn.workspace, messages, {
          takes,
          allowedMediaTypes: llm.allowedMediaTypes
        })
        return system === "" ? shown : [{ role: "system", content: system } satisfies ChatMessage, ...shown]
      })

      /** What the model says to a request, when it has said all of it. */
      const spoken = Effect.fnUntraced(function* <E>(
        { caller, llm, round, turn }: Asked,
        purpose: string | undefined,
        request: ModelCall["request"],
        isShown: boolean,
        begun: Effect.Effect<unknown, E>
      ) {
        const requestId = [turn.turn, round, ...(purpose === undefined ? [] : [purpose])].join("-")
        const folded = new Folded()
        const stream = model.stream({ workspace: turn.workspace, llm, caller, requestId, request }).pipe(
          Effect.mapError(failed),
          Effect.tapError(() => begun)
        )
        yield* Effect.all([stream, begun], { concurrency: "unbounded" }).pipe(
          Effect.flatMap(([events]) =>
            Effect.mapError(
              showing(log, turn, events, (event) => folded.add(event), isShown),
              failed
            )
          ),
          Effect.scoped
        )
        return folded.completion
      })

      /** Summarizes the beginning of a context that has outgrown its model; the history keeps the original. */
      const compact = Effect.fnUntraced(function* (
        question: Asked,
        { messages, summary }: ModelContext,
        limit: number
      ) {
        const { round, turn } = question
        const texts = messages.map(transcribed)
        const cut = cutOf(
          messages,
          texts.map((text) => tokenizer.count(text)),
          Math.floor(limit * stays)
        )
        const last = messages[cut - 1]
        if (last === undefined) return
        const before = summary === undefined ? [] : [`summary of what came before: ${summary}`]
        const transcript = shortened(
          [...before, ...texts.slice(0, cut)].join("\n\n"),
          Math.floor(limit * summarized),
          tokenizer
        )
        const { choices } = yield* spoken(
          question,
          "summary",
          {
            messages: [
              { role: "system", content: howToSummarize },
              { role: "user", content: transcript }
            ]
          },
          false,
          Effect.void
        )
        const made = choices[0]?.content ?? ""
        if (made.trim() === "") return
        yield* journal.record(turn, `summary-${round}`, {
          messages: [{ id: yield* ids.next, role: "system", content: made, summaryOf: last.id }]
        })
      })

      const countOf = (llm: Llm, messages: ReadonlyArray<ChatMessage>, tools: ChatRequest["tools"]) =>
        countInput({ model: llm.model, messages, ...(tools === undefined ? {} : { tools }) }, tokenizer.count)

      const contextOfSession = ({ session, workspace }: TurnRef) =>
        Effect.map(sessions.history(workspace, session), contextOf)

      /** What the model is sent: the whole history, or less of it once it has outgrown the model. */
      const prepared = Effect.fnUntraced(function* <E>(
        question: Asked,
        whole: ModelContext,
        capabilities: ModelCapabilities,
        tools: ChatRequest["tools"],
        begun: Effect.Effect<unknown, E>
      ) {
        const { llm, turn } = question
        const messages = yield* messagesOf(question, whole, capabilities)
        const limit = llm.maxInputTokens ?? capabilities.maxInputTokens
        if (limit === undefined || cannotExceed(messages, limit) || countOf(llm, messages, tools) <= limit)
          return messages
        yield* begun
        yield* compact(question, whole, limit)
        return yield* messagesOf(question, yield* contextOfSession(turn), capabilities)
      })

      const answerTo = Effect.fnUntraced(function* <E>(
        question: Asked,
        context: ModelContext,
        begun: Effect.Effect<unknown, E>
      ) {
        const { llm, round, stream, turn } = question
        const key = keyOf(round)
        const capabilities = yield* model.capabilities(llm)
        const tools = question.tools.length === 0 || !capabilities.tools ? undefined : question.tools.map(declared)
        const messages = yield* prepared(question, context, capabilities, tools, begun)
        const { choices, usage } = yield* spoken(
          question,
          undefined,
          { messages, ...(tools === undefined ? {} : { tools }) },
          stream,
          begun
        )
        const choice = choices[0]
        const text = choice?.content ?? choice?.refusal ?? ""
        const answer: Answer = {
          id: yield* ids.next,
          text,
          ...(choice?.reasoning === undefined ? {} : { reasoning: choice.reasoning }),
          toolCalls: callsOf(choice, key),
          tokenUsage: usageOf(
            usage ?? {
              input: countOf(llm, messages, tools),
              cacheRead: 0,
              cacheWrite: 0,
              output: tokenizer.count(text),
              reasoning: tokenizer.count(choice?.reasoning ?? "")
            }
          )
        }
        if (answer.toolCalls.length > 0) {
          const isFirst = yield* whenStoreIsBack(
            journal.record(turn, key, {
              messages: [messageOf(answer, llm)],
              events: answer.toolCalls.map(({ arguments: text, id, name }): SessionEvent => ({
                event: "toolCall",
                data: { toolName: name, args: shownArguments(text), callId: detach(id), sessionId: turn.session }
              })),
              memo: answer
            })
          )
          if (!isFirst) {
            // Another process has asked too, or this one has written it and was not told: what is there counts.
            const known = yield* journal.recorded(turn, key)
            if (Option.isNone(known)) return yield* new TurnCancelled()
            return yield* Effect.orDie(decodeAnswer(known.value))
          }
        }
        return answer
      })

      /** By a run that is not the first to ask, which died or still runs elsewhere: its answer counts if there is one. */
      const answerAgain = Effect.fnUntraced(function* (question: Asked, context: ModelContext) {
        const { round, turn } = question
        const known = yield* journal.recorded(turn, keyOf(round))
        if (Option.isSome(known)) return yield* Effect.orDie(decodeAnswer(known.value))
        // Ended meanwhile: then nothing more is said in it.
        const found = yield* journal.find(turn)
        if (Option.isNone(found) || found.value.status !== "running") return yield* new TurnCancelled()
        yield* log.append(turn, [thinking(turn)])
        return yield* answerTo(question, context, Effect.void)
      })

      const ask = Effect.fn("AskModel.ask")(function* ({ settings, ...asked }: Question) {
        const { isFirstRun, round, turn } = asked
        const beginning = yield* journal
          .record(turn, `${keyOf(round)}-begun`, { events: [thinking(turn)] })
          .pipe(Effect.forkChild({ startImmediately: true }))
        const begun = Effect.filterOrFail(
          Fiber.join(beginning),
          (isFirst) => isFirst,
          () => new NotFirst()
        )
        const [context, found] = yield* Effect.all([contextOfSession(turn), settings], { concurrency: "unbounded" })
        const question = { ...asked, ...found }
        const firstAnswer = Effect.gen(function* () {
          // The first run asks while that is written, and says nothing before; another one may have the answer already.
          if (!isFirstRun || beginning.pollUnsafe() !== undefined) yield* begun
          return yield* Effect.tapDefect(answerTo(question, context, begun), () => begun)
        })
        const answer = yield* Effect.catchTag(firstAnswer, "NotFirst", () => answerAgain(question, context))
        return { answer, settings: found }
      })

      return AskModel.of({ ask })
    })
  )
}

/** The journal has that the model was asked already, or takes nothing more of this turn. */
class NotFirst extends Data.TaggedError("NotFirst") {}

const keyOf = (round: number) => `model-${round}`

const thinking = ({ session }: TurnRef): SessionEvent => ({ event: "thinking", data: { sessionId: session } })

const decodeAnswer = Schema.decodeUnknownEffect(Answer)

/** The message of the history that an answer is. */
export const messageOf = (
  { id, reasoning, text, tokenUsage, toolCalls }: Answer,
  { model, provider, router }: Llm
): Omit<Message, "createdAt"> => ({
  id,
  role: "assistant",
  content: text === "" && toolCalls.length > 0 ? null : text,
  ...(reasoning === undefined ? {} : { reasoning }),
  ...(toolCalls.length === 0 ? {} : { toolCalls }),
  tokenUsage,
  model,
  provider,
  router
})

const failed = ({ code, message, recoverable }: ModelFailed) => new TurnFailed({ code, message, recoverable })

const declared = ({ description, name, parameters }: AgentTool) => ({
  type: "function" as const,
  function: { name, description, parameters }
})

/** Calls with identifiers of their own: some models give none, or the same for each. */
const callsOf = (choice: Choice | undefined, key: string): ReadonlyArray<ToolCall> => {
  const given = new Set<string>()
  return (choice?.toolCalls ?? []).map(({ function: called, id }, place) => {
    const own = id === "" || given.has(id) ? `${key}-${place + 1}` : id
    given.add(own)
    return { id: own, name: called.name, arguments: called.arguments }
  })
}

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

/** Arguments as listeners see them: what is no JSON as the text that it is. */
export const shownArguments = (text: string): Schema.Json =>
  text.trim() === "" ? {} : Option.getOrElse(decodeJson(text), () => text)

const usageOf = (usage: Usage): TokenUsage => {
  const input = inputTokens(usage)
  return {
    inputTokens: input,
    outputTokens: usage.output,
    reasoningTokens: usage.reasoning,
    totalTokens: input + usage.output + usage.reasoning
  }
}

// -- Context that outgrows its model ----------------------------------------------------------------------------------

/** Shares of the model's input: how much of the newest messages stays, and how much of the others is read at once. */
const stays = 0.4
const summarized = 0.7

/** A token is at least a byte of UTF-8, a character at most three: spares the count of what is far from the limit. */
const cannotExceed = (messages: ReadonlyArray<ChatMessage>, limit: number): boolean => {
  let bytes = 0
  for (const message of messages) {
    bytes += 3 * JSON.stringify(message).length
    if (bytes > limit) return false
  }
  return true
}

const summaryBegins = "What was said before the messages that follow, in short:\n"

const howToSummarize =
  "Summarize the conversation that you are given, for the assistant who goes on with it and sees nothing else of it. " +
  "Keep facts, names, numbers, decisions, open questions, what the user wants, and what tools have found. " +
  "Answer with the summary alone."

const transcribed = ({ content, name, role, toolCalls }: Message): string => {
  const said =
    content === null
      ? ""
      : typeof content === "string"
        ? content
        : content.map((part) => (part.type === "text" ? part.text : `[${part.mimeType}]`)).join("\n")
  const calls = (toolCalls ?? []).map((call) => `[calls ${call.name} with ${call.arguments}]`)
  return `${role}${name === undefined ? "" : ` ${name}`}: ${[said, ...calls].filter((text) => text !== "").join("\n")}`
}

/** Without its middle, if it is longer than so many tokens. */
const shortened = (text: string, tokens: number, { count }: Tokenizer["Service"]): string => {
  const counted = count(text)
  if (counted <= tokens) return text
  const half = Math.floor((text.length * tokens) / counted / 2)
  return `${text.slice(0, half).toWellFormed()}\n\n[…]\n\n${text.slice(-half).toWellFormed()}`
}
