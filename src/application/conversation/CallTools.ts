import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { toolDecision, type ToolDecision } from "../../domain/agent/ToolPolicy.ts"
import { detach } from "../../domain/completion/Continuation.ts"
import { type ApprovalAnswer, ApprovalId } from "../../domain/conversation/Approval.ts"
import type { Message, ToolCall } from "../../domain/conversation/Message.ts"
import type { TurnRef } from "../../domain/conversation/Turn.ts"
import type { RunningAgent } from "../agent/RunningAgents.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { AllowedTools } from "../ports/storage/AllowedTools.ts"
import { TurnJournal } from "../ports/storage/TurnJournal.ts"
import type { AgentTool, ToolCallContext, ToolOutcome } from "./AgentTool.ts"
import { shownArguments } from "./AskModel.ts"
import { ensureRunning, type TurnScope, unlessCancelled } from "./TurnScope.ts"
import type { TurnCancelled } from "./TurnStopped.ts"
import { isStoreUnavailable, whenStoreIsBack } from "./WhenStoreIsBack.ts"

/** The calls of one answer. */
export interface ToolCalls {
  readonly scope: TurnScope
  /** The answer's, 1 for the turn's first. */
  readonly round: number
  readonly agent: RunningAgent
  readonly tools: ReadonlyArray<AgentTool>
  readonly calls: ReadonlyArray<ToolCall>
}

/**
 * Runs the tools that an answer calls (decisions 6, 7) at the same time: first those that need no approval, then those
 * that have theirs. Each is run once: after a crash one whose outcome nobody knows is run again only if that does no harm,
 * else the model is told so. Everything that goes wrong with a call is told to the model.
 */
export class CallTools extends Context.Service<
  CallTools,
  {
    /** When it returns, every call has its result in the journal. */
    readonly run: (calls: ToolCalls) => Effect.Effect<void, TurnCancelled>
  }
>()("gateway/conversation/CallTools") {
  static readonly layer = Layer.effect(
    CallTools,
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const allowed = yield* AllowedTools
      const ids = yield* Ids

      /** What happens to each call, as far as it is known without asking anybody. */
      const decided = Effect.fnUntraced(function* ({ agent, calls, scope: { turn }, tools }: ToolCalls) {
        const { mode } = agent.config.toolConfirmation
        const places = [undefined, turn.session].map((session) => ({ agent: agent.file.id, session }))
        const remembered =
          mode === "auto-approve"
            ? []
            : yield* Effect.forEach(places, (place) => allowed.of(turn.workspace, place), { concurrency: 2 })
        const names = new Set(remembered.flatMap((own) => [...own]))
        return calls.map((call, place): Decided => {
          const tool = tools.find(({ name }) => name === call.name)
          const args = argumentsOf(call.arguments)
          if (tool === undefined) return { call, place, refusal: unknownTool(call.name, tools) }
          if (Option.isNone(args)) return { call, place, refusal: noArguments }
          const decision: ToolDecision = toolDecision(agent.config.toolConfirmation, tool.policyNames, names)
          if (decision === "deny") return { call, place, refusal: deniedByPolicy }
          return { call, place, tool, args: args.value, isAsked: decision === "ask" && !tool.asksItself }
        })
      })

      /** Until when a person may answer: the same however often the turn is taken up. */
      const deadlineOf = Effect.fnUntraced(function* (turn: TurnRef, key: string, timeout: number) {
        const until = timeout + (yield* Clock.currentTimeMillis)
        if (yield* journal.record(turn, key, { memo: until })) return until
        const known = Option.filter(yield* journal.recorded(turn, key), (memo) => typeof memo === "number")
        return Option.getOrElse(known, () => until)
      })

      /** Asks for all at once; gives until when they may be answered. */
      const askFor = Effect.fnUntraced(function* ({ agent, round, scope }: ToolCalls, asked: ReadonlyArray<Allowed>) {
        const { turn } = scope
        const { timeout } = agent.config.toolConfirmation
        const until = yield* deadlineOf(turn, `approvals-${round}`, timeout)
        for (const { call, place } of asked) {
          yield* journal.ask(turn, {
            approvalId: approvalId(scope, round, place),
            type: "tool_confirmation",
            sessionId: turn.session,
            turnId: turn.turn,
            timeout,
            metadata: { toolName: call.name, args: shownArguments(call.arguments), callId: detach(call.id) }
          })
        }
        return until
      })

      /** Waits for each; gives what was answered. Unanswered ones are denied in time. */
      const confirmed = Effect.fnUntraced(function* (
        { agent, round, scope }: ToolCalls,
        asked: ReadonlyArray<Allowed>,
        until: number
      ) {
        const { steps, turn } = scope
        const { allowedToolsStorage } = agent.config.toolConfirmation
        const answers = new Map<number, ApprovalAnswer>()
        while (true) {
          yield* ensureRunning(scope)
          for (const { place } of asked) {
            if (answers.has(place)) continue
            const answer = yield* journal.answered(turn, approvalId(scope, round, place))
            if (Option.isSome(answer)) answers.set(place, answer.value)
          }
          if (answers.size === asked.length) break
          const left = until - (yield* Clock.currentTimeMillis)
          if (left > 0) yield* steps.wait(`approvals-${round}`, left)
          else {
            const late = asked.filter(({ place }) => !answers.has(place))
            yield* Effect.forEach(
              late,
              ({ place }) => journal.answer(turn.workspace, approvalId(scope, round, place), { status: "denied" }),
              { discard: true }
            )
          }
        }
        for (const { place, tool } of asked) {
          const answer = answers.get(place)
          if (answer?.status !== "approved" || answer.rememberChoice !== true) continue
          const session = allowedToolsStorage === "storage" ? undefined : turn.session
          yield* allowed.allow(turn.workspace, { agent: agent.file.id, session }, tool.policyNames[0] ?? tool.name)
        }
        return answers
      })

      /** A person's answer to a form, while the tool that asks waits. */
      const elicit = ({ agent, round, scope }: ToolCalls, place: number): ToolCallContext["elicit"] =>
        Effect.fnUntraced(function* ({ message, schema, serverName }) {
          const { steps, turn } = scope
          const { timeout } = agent.config.toolConfirmation
          const id = ApprovalId.make(
            `${turn.turn}.${round}.${place}.${serverName === undefined ? "form" : yield* ids.next}`
          )
          const until = yield* deadlineOf(turn, `until-${id}`, timeout)
          yield* journal.ask(turn, {
            approvalId: id,
            type: "elicitation",
            sessionId: turn.session,
            turnId: turn.turn,
            timeout,
            metadata: { message, schema, ...(serverName === undefined ? {} : { serverName }) }
          })
          while (true) {
            const answer = yield* whenStoreIsBack(journal.answered(turn, id))
            if (Option.isSome(answer)) return answer.value
            const left = until - (yield* Clock.currentTimeMillis)
            if (left > 0) yield* Effect.raceFirst(steps.woken, Effect.sleep(Math.min(left, lookAgainAfter)))
            else if (Option.isNone(yield* journal.answer(turn.workspace, id, { status: "denied" }))) {
              // Somebody's answer was faster, or the turn has ended and nobody asks any more.
              return Option.getOrElse(yield* journal.answered(turn, id), (): ApprovalAnswer => ({
                status: "cancelled"
              }))
            }
          }
        })

      const written = ({ round, scope: { turn } }: ToolCalls, { call, place }: Placed, outcome: ToolOutcome) =>
        Effect.flatMap(ids.next, (id) =>
          whenStoreIsBack(
            journal.record(turn, resultKey(round, place), {
              messages: [{ id, role: "tool", content: contentOf(outcome), toolCallId: call.id, name: call.name }],
              events: [
                {
                  event: "toolResult",
                  data: {
                    toolName: call.name,
                    callId: detach(call.id),
                    success: outcome.success,
                    sanitized: { content: outcome.content, meta: outcome.meta },
                    sessionId: turn.session
                  }
                }
              ]
            })
          )
        )

      const call = Effect.fn("CallTools.call")(function* (calls: ToolCalls, decided: Decided) {
        const { round, scope } = calls
        const { turn } = scope
        const { place } = decided
        const isDone = Effect.map(journal.recorded(turn, resultKey(round, place)), Option.isSome)
        const begun = begunKey(round, place)
        if (decided.tool === undefined) {
          // Whatever forbids it now, or is missing: a process that has died may have run it before.
          const hasBegun = Option.isSome(yield* journal.recorded(turn, begun))
          yield* written(calls, decided, refused(hasBegun ? unknownOutcome : decided.refusal))
          return
        }
        const { args, tool } = decided
        const isFirst = yield* journal.record(turn, begun, {})
        if (!isFirst) {
          if (yield* isDone) return
          yield* ensureRunning(scope)
        }
        const outcome =
          isFirst || tool.isIdempotent
            ? yield* tool
                .run(args, { turn, callId: detach(decided.call.id), elicit: elicit(calls, place) })
                .pipe(
                  Effect.catchDefect((defect) =>
                    isStoreUnavailable(defect)
                      ? Effect.die(defect)
                      : Effect.as(
                          Effect.logError("A tool failed because of a defect.", { tool: tool.name, ...turn }, defect),
                          refused(defective)
                        )
                  )
                )
            : refused(unknownOutcome)
        yield* written(calls, decided, outcome)
      })

      const runAll = (calls: ToolCalls, decided: ReadonlyArray<Decided>) =>
        Effect.forEach(decided, (each) => calls.scope.steps.run(unlessCancelled(calls.scope, call(calls, each))), {
          concurrency: atOnce,
          discard: true
        })

      /** Of a turn that ends now: what was not begun never ran, and whoever reads the history later is told so. */
      const giveUp = Effect.fnUntraced(function* (calls: ToolCalls, decided: ReadonlyArray<Decided>) {
        const { round, scope } = calls
        for (const each of decided) {
          const begun = yield* journal.recorded(scope.turn, begunKey(round, each.place))
          if (Option.isNone(begun)) yield* written(calls, each, refused(notRun))
        }
      })

      return CallTools.of({
        run: Effect.fn("CallTools.run")(function* (calls) {
          const all = yield* decided(calls)
          const asked = all.filter((each): each is Allowed => each.tool !== undefined && each.isAsked)
          const rest = all.filter((each) => each.tool === undefined || !each.isAsked)
          yield* Effect.gen(function* () {
            if (asked.length === 0) return yield* runAll(calls, rest)
            const until = yield* askFor(calls, asked)
            yield* runAll(calls, rest)
            const answers = yield* confirmed(calls, asked, until)
            const final = asked.map((each): Decided => {
              const answer = answers.get(each.place)
              return answer === undefined || answer.status === "approved"
                ? each
                : { call: each.call, place: each.place, refusal: denied(answer) }
            })
            yield* runAll(calls, final)
          }).pipe(Effect.tapErrorTag("TurnCancelled", () => giveUp(calls, all)))
        })
      })
    })
  )
}

interface Placed {
  readonly call: ToolCall
  /** Among the calls of its answer, from 0. */
  readonly place: number
}

interface Allowed extends Placed {
  readonly tool: AgentTool
  readonly args: Schema.JsonObject
  readonly isAsked: boolean
}

interface Refused extends Placed {
  readonly tool?: undefined
  /** As the model is told. */
  readonly refusal: string
}

type Decided = Allowed | Refused

/** Tools of one answer that run at the same time. */
const atOnce = 8

/** Milliseconds. Wake-ups are what tells; this is for one that got lost. */
const lookAgainAfter = 2_000

const contentOf = ({ media = [], text }: ToolOutcome): Message["content"] =>
  media.length === 0 ? text : [{ type: "text", text }, ...media]

const resultKey = (round: number, place: number): string => `tool-${round}-${place}`

const begunKey = (round: number, place: number): string => `${resultKey(round, place)}-begun`

/** The same however often the turn is taken up. */
const approvalId = ({ turn }: TurnScope, round: number, place: number): ApprovalId =>
  ApprovalId.make(`${turn.turn}.${round}.${place}`)

const decodeArguments = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.JsonObject))

const argumentsOf = (text: string): Option.Option<Schema.JsonObject> =>
  text.trim() === "" ? Option.some({}) : decodeArguments(text)

const refused = (text: string): ToolOutcome => ({ success: false, text, content: [{ type: "text", text }], meta: {} })

const unknownTool = (name: string, tools: ReadonlyArray<AgentTool>): string =>
  `There is no tool ${JSON.stringify(name)}. ` +
  (tools.length === 0 ? "There are no tools." : `There are: ${tools.map((tool) => tool.name).join(", ")}.`)

const noArguments = "The arguments are no JSON object. Call the tool again with an object that matches its parameters."

const deniedByPolicy = "The agent's configuration does not allow this tool."

const denied = ({ status }: ApprovalAnswer): string =>
  status === "cancelled"
    ? "The user dismissed the question whether this tool may run, so it did not run."
    : "This call was not approved: the user denied it, or nobody answered in time. The tool did not run."

const notRun = "The turn was cancelled before this tool ran."

const defective =
  "The tool failed inside the service. It may have done its work or not: find out what happened before you repeat it."

const unknownOutcome =
  "The outcome is unknown: the process that ran this call ended before the result arrived. The tool may have done its " +
  "work or not. It was not called again. Find out what happened before you repeat it."
