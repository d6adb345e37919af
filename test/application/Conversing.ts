import { Deferred, Effect, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import * as TurnRunnerInMemory from "../../src/adapters/inmemory/TurnRunnerInMemory.ts"
import { RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import type { AgentTool, ToolOutcome } from "../../src/application/conversation/AgentTool.ts"
import { AgentTools } from "../../src/application/conversation/AgentTools.ts"
import { AskModel } from "../../src/application/conversation/AskModel.ts"
import { CallModel, type ModelCall, ModelFailed } from "../../src/application/conversation/CallModel.ts"
import { CallTools } from "../../src/application/conversation/CallTools.ts"
import { Instructions } from "../../src/application/conversation/Instructions.ts"
import { ModelMessages } from "../../src/application/conversation/ModelMessages.ts"
import { References } from "../../src/application/conversation/References.ts"
import { RunTurn } from "../../src/application/conversation/RunTurn.ts"
import { EffectiveLlm } from "../../src/application/llm/EffectiveLlm.ts"
import { McpConnector } from "../../src/application/ports/mcp/McpConnector.ts"
import { Tokenizer } from "../../src/application/ports/runtime/Tokenizer.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { none } from "../../src/domain/billing/Usage.ts"
import type { ChatMessage } from "../../src/domain/completion/ChatMessage.ts"
import type { CompletionEvent } from "../../src/domain/completion/CompletionEvent.ts"
import { textOf } from "../../src/domain/conversation/Message.ts"
import type { SessionEvent } from "../../src/domain/conversation/SessionEvent.ts"
import { sessionId, submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"
import { agentFiles, documentWith, fileOf } from "./AgentFiles.ts"

/** What the model says to one request. */
export type Says =
  | ReadonlyArray<CompletionEvent>
  | ModelFailed
  | { readonly after: Deferred.Deferred<void>; readonly events: ReadonlyArray<CompletionEvent> }

export const says = (content: string): ReadonlyArray<CompletionEvent> => [
  { _tag: "Delta", index: 0, role: "assistant", content },
  { _tag: "Delta", index: 0, finishReason: "stop" },
  { _tag: "Usage", usage: { ...none, input: 10, output: 5 } }
]

export const calls = (...called: ReadonlyArray<readonly [name: string, args: object | string]>) =>
  [
    {
      _tag: "Delta",
      index: 0,
      toolCalls: called.map(([name, args], index) => ({
        index,
        id: `call-${index}`,
        name,
        arguments: typeof args === "string" ? args : JSON.stringify(args)
      }))
    },
    { _tag: "Usage", usage: { ...none, input: 10, output: 5 } }
  ] satisfies ReadonlyArray<CompletionEvent>

export const failing = (code = "upstream_error") =>
  new ModelFailed({ code, message: "The model is away.", recoverable: true })

export const outcome = (text: string): ToolOutcome => ({
  success: true,
  text,
  content: [{ type: "text", text }],
  meta: {}
})

export const tool = (name: string, run: AgentTool["run"], fields: Partial<AgentTool> = {}): AgentTool => ({
  name,
  policyNames: [name],
  description: name,
  parameters: { type: "object" },
  isIdempotent: false,
  asksItself: false,
  run,
  ...fields
})

const unused = () => Effect.die(new Error("no test needs it"))

/** A conversation in memory with a model and tools that a test scripts. `script` is consumed answer by answer. */
export const conversing = (
  options: {
    readonly script?: ReadonlyArray<Says | ((call: ModelCall) => Says)>
    readonly tools?: ReadonlyArray<AgentTool>
    readonly agent?: object
    readonly maxInputTokens?: number
    /** What of the journal, or of the running agents, is another. */
    readonly journal?: (real: TurnJournal["Service"]) => Partial<TurnJournal["Service"]>
    readonly running?: (real: RunningAgents["Service"]) => Partial<RunningAgents["Service"]>
  } = {}
) => {
  const script = [...(options.script ?? [])]
  const asked: Array<ModelCall> = []
  let closed = 0
  const { layer: agents } = agentFiles(fileOf(documentWith({}, options.agent)))
  const Fakes = Layer.mergeAll(
    Layer.succeed(CallModel, {
      capabilities: () =>
        Effect.succeed({ takes: new Set<"image">(), tools: true, maxInputTokens: options.maxInputTokens }),
      stream: (call) =>
        Effect.gen(function* () {
          asked.push(call)
          const next = script.shift() ?? says("The script is over.")
          const said = typeof next === "function" ? next(call) : next
          yield* Effect.addFinalizer(() => Effect.sync(() => void closed++))
          if (said instanceof ModelFailed) return yield* said
          if ("after" in said) {
            return Stream.concat(
              Stream.fromIterable(said.events.slice(0, 1)),
              Stream.unwrap(Effect.as(Deferred.await(said.after), Stream.fromIterable(said.events.slice(1))))
            )
          }
          return Stream.fromIterable(said)
        })
    }),
    Layer.succeed(AgentTools, { of: () => Effect.succeed(options.tools ?? []) }),
    Layer.succeed(Instructions, { of: () => Effect.succeed("You help.") }),
    Layer.succeed(References, {
      parts: (_workspace, _session, text) =>
        Effect.succeed(text.includes("@file:x") ? [{ type: "text" as const, text: "the file" }] : [])
    }),
    Layer.succeed(ModelMessages, {
      of: (_workspace, history) =>
        Effect.succeed(
          history.map((message): ChatMessage =>
            message.role === "tool"
              ? { role: "tool", content: textOf(message), tool_call_id: message.toolCallId ?? "" }
              : { role: message.role === "assistant" ? "assistant" : "user", content: textOf(message) }
          )
        )
    }),
    Layer.succeed(EffectiveLlm, { of: (_workspace, llm) => Effect.succeed(llm) }),
    Layer.succeed(Tokenizer, { count: (text) => Math.ceil(text.length / 4) }),
    Layer.effect(
      RunningAgents,
      Effect.map(RunningAgents, (real) => RunningAgents.of({ ...real, ...options.running?.(real) }))
    ).pipe(Layer.provide(agents), Layer.provide(Layer.succeed(McpConnector, { connect: unused }))),
    IdsLive.layer
  )
  const layer = TurnRunnerInMemory.layer.pipe(
    Layer.provideMerge(RunTurn.layer),
    Layer.provideMerge(Layer.merge(AskModel.layer, CallTools.layer)),
    Layer.provideMerge(
      Layer.effect(
        TurnJournal,
        Effect.map(TurnJournal, (real) => TurnJournal.of({ ...real, ...options.journal?.(real) }))
      ).pipe(Layer.provideMerge(Layer.merge(InMemoryLive.layer, Fakes)))
    )
  )
  return { layer, asked, closed: () => closed }
}

/** A new session of a new workspace. */
export const newSession = Effect.gen(function* () {
  const workspace = yield* account()
  const session = sessionId()
  const journal = yield* TurnJournal
  const runner = yield* TurnRunner
  const log = yield* EventLog

  const send = Effect.fnUntraced(function* (text: string, stream = false) {
    const turn = turnIn(workspace, session)
    const { position } = yield* journal.submit(turn, submission(text, { stream }))
    if (position === 0) yield* runner.start(turn)
    return turn
  })

  const events = Effect.map(log.after(workspace, session, 0, 1_000_000), (all) => all.map(({ event }) => event))

  /** Lets time pass until so many turns have ended; gives the events that are kept. */
  const ended = (turns = 1): Effect.Effect<ReadonlyArray<SessionEvent>> =>
    Effect.gen(function* () {
      for (let passed = 0; passed < 1_000; passed++) {
        const all = yield* events
        if (all.filter(({ event }) => event === "response" || event === "error").length >= turns) return all
        yield* TestClock.adjust("20 millis")
      }
      return yield* events
    })

  return { workspace, session, send, events, ended }
})
