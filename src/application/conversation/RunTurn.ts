import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import type { TokenUsage } from "../../domain/conversation/Message.ts"
import { textOf } from "../../domain/conversation/Message.ts"
import { cancelled, type SessionEvent } from "../../domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import { RunningAgents } from "../agent/RunningAgents.ts"
import { EffectiveLlm } from "../llm/EffectiveLlm.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import type { TurnSteps } from "../ports/runtime/TurnRunner.ts"
import { type Entry, TurnJournal, type TurnRecord } from "../ports/storage/TurnJournal.ts"
import { AgentTools } from "./AgentTools.ts"
import { AskModel, messageOf } from "./AskModel.ts"
import { CallTools } from "./CallTools.ts"
import { Instructions } from "./Instructions.ts"
import { References } from "./References.ts"
import { ensureRunning, type TurnScope, unlessCancelled } from "./TurnScope.ts"
import { TurnCancelled, TurnFailed } from "./TurnStopped.ts"
import { isStoreUnavailable, whenStoreIsBack } from "./WhenStoreIsBack.ts"

/**
 * A whole turn (decisions 6), from its user message to its one `response` or `error`. All that it does is in the
 * journal, so running it again, on whatever process, goes on where it was and does nothing twice.
 */
export class RunTurn extends Context.Service<
  RunTurn,
  {
    /**
     * Gives the session's next turn, which runs now and is to be started. One that is not there any more gives none. It
     * dies of `StoreUnavailable`, and is to be run again when the store is back; every other end is an event.
     */
    readonly run: (turn: TurnRef, steps: TurnSteps) => Effect.Effect<Option.Option<TurnRef>>
  }
>()("gateway/conversation/RunTurn") {
  static readonly layer = Layer.effect(
    RunTurn,
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const agents = yield* RunningAgents
      const llms = yield* EffectiveLlm
      const agentTools = yield* AgentTools
      const instructions = yield* Instructions
      const references = yield* References
      const model = yield* AskModel
      const tools = yield* CallTools
      const ids = yield* Ids

      /** What the message names by `@` is read once, and stands after it in the history. */
      const attachReferences = Effect.fnUntraced(function* ({ steps, turn }: TurnScope, { message }: TurnRecord) {
        const text = textOf(message)
        if (!text.includes("@")) return
        const read = Effect.gen(function* () {
          const parts = yield* references.parts(turn.workspace, turn.session, text)
          if (parts.length === 0) return
          yield* journal.record(turn, "references", {
            messages: [{ id: yield* ids.next, role: "user", name: "references", content: parts }]
          })
        })
        yield* steps.once("references", { success: Schema.Void, run: read })
      })

      /** Model and tools in turn, until an answer calls none. */
      const converse = Effect.fnUntraced(function* (scope: TurnScope, record: TurnRecord, isFirstRun: boolean) {
        const { steps, turn } = scope
        if (record.cancelRequested) return yield* new TurnCancelled()
        const agent = yield* unlessCancelled(
          scope,
          Effect.mapError(
            agents.of(turn.workspace),
            ({ message }) => new TurnFailed({ code: "agent_not_runnable", message, recoverable: false })
          )
        )
        yield* unlessCancelled(scope, attachReferences(scope, record))
        const { maxIterations } = agent.config.llm
        const used: Array<TokenUsage> = []
        for (let round = 1; round <= maxIterations; round++) {
          if (round > 1) yield* ensureRunning(scope)
          const { answer, settings } = yield* steps.run(
            unlessCancelled(
              scope,
              model.ask({
                turn,
                round,
                isFirstRun,
                settings: Effect.all(
                  {
                    llm: llms.of(turn.workspace, agent.config.llm, turn.session),
                    tools: agentTools.of(turn.workspace, agent),
                    instructions: instructions.of(turn.workspace, agent)
                  },
                  { concurrency: "unbounded" }
                ),
                caller: record.caller,
                stream: record.stream
              })
            )
          )
          used.push(answer.tokenUsage)
          if (answer.toolCalls.length === 0) return { answer, llm: settings.llm, tokenUsage: sum(used) }
          if (round < maxIterations)
            yield* tools.run({ scope, round, agent, tools: settings.tools, calls: answer.toolCalls })
        }
        return yield* new TurnFailed({
          code: "max_iterations",
          message:
            `The model asked for tools ${maxIterations} times without an answer. Send a message to let it go on, or ` +
            "raise `llm.maxIterations` in the agent's configuration.",
          recoverable: true
        })
      })

      const attempt = Effect.fn("RunTurn.run")(function* (turn: TurnRef, steps: TurnSteps, isFirst: boolean) {
        const began = yield* Clock.currentTimeMillis
        const found = yield* journal.find(turn)
        if (Option.isNone(found) || found.value.status === "queued") return Option.none()
        // It has ended, and whoever ended it died before the next one was started.
        if (found.value.status !== "running") return yield* journal.finish(turn, "completed", {})

        const ending = yield* converse({ turn, steps, journal }, found.value, isFirst && !found.value.hasEntries).pipe(
          Effect.map(({ answer, llm, tokenUsage }): Ending => {
            const { reasoning, text } = answer
            const { model, provider, router } = llm
            return {
              status: "completed",
              entry: {
                messages: [messageOf(answer, llm)],
                events: [
                  {
                    event: "response",
                    data: {
                      text,
                      ...(reasoning === undefined ? {} : { reasoning }),
                      tokenUsage,
                      provider,
                      model,
                      router,
                      sessionId: turn.session
                    }
                  }
                ]
              }
            }
          }),
          Effect.catchTags({
            TurnCancelled: () =>
              Effect.succeed<Ending>({ status: "cancelled", entry: { events: [cancelled(turn.session)] } }),
            TurnFailed: (failure) => Effect.succeed(failedWith(turn, failure))
          }),
          Effect.catchDefect((defect) =>
            isStoreUnavailable(defect)
              ? Effect.die(defect)
              : Effect.as(
                  Effect.logError(
                    "A turn ended because of a defect.",
                    { turn: turn.turn, session: turn.session },
                    defect
                  ),
                  failedWith(turn, internalError)
                )
          )
        )
        const next = yield* whenStoreIsBack(journal.finish(turn, ending.status, ending.entry))
        yield* Effect.logInfo("Turn", {
          turn: turn.turn,
          session: turn.session,
          workspace: turn.workspace,
          status: ending.status,
          ...(ending.code === undefined ? {} : { code: ending.code }),
          ms: (yield* Clock.currentTimeMillis) - began
        })
        return next
      })

      return RunTurn.of({
        run: (turn, steps) => {
          let attempts = 0
          return Effect.suspend(() => attempt(turn, steps, attempts++ === 0))
        }
      })
    })
  )
}

/** How a turn ends. */
interface Ending {
  readonly status: "completed" | "failed" | "cancelled"
  readonly code?: string
  readonly entry: Entry & { readonly events: ReadonlyArray<SessionEvent> }
}

const failedWith = (
  { session }: TurnRef,
  { code, message, recoverable }: Pick<TurnFailed, "code" | "message" | "recoverable">
): Ending => ({
  status: "failed",
  code,
  entry: { events: [{ event: "error", data: { message, code, recoverable, sessionId: session } }] }
})

const internalError = {
  code: "internal_error",
  message: "The turn failed inside the service. The session can be used at once; the log says why.",
  recoverable: true
}

/** What all answers of the turn used. */
const sum = (used: ReadonlyArray<TokenUsage>): TokenUsage =>
  used.reduce((total, own) => ({
    inputTokens: total.inputTokens + own.inputTokens,
    outputTokens: total.outputTokens + own.outputTokens,
    reasoningTokens: total.reasoningTokens + own.reasoningTokens,
    totalTokens: total.totalTokens + own.totalTokens
  }))
