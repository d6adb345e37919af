import { Result, Schema } from "effect"
import type { ChatRequest } from "../../../../domain/completion/ChatRequest.ts"
import { type Issue, issuesOf } from "../../../../domain/shared/Issue.ts"
import type { ModelRules } from "./ModelRules.ts"

/** The efforts that callers know. The vendor has no `minimal`, and `none` is thinking put off. */
const Effort = Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
type Effort = typeof Effort.Type

/** The vendor takes no smaller budget, and needs `max_tokens` above it. */
const leastBudget = 1024

/** The fields of the free-form `reasoning` that this wire has a place for. */
const Reasoning = Schema.Struct({
  effort: Schema.optionalKey(Effort),
  max_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(leastBudget))),
  enabled: Schema.optionalKey(Schema.Boolean),
  exclude: Schema.optionalKey(Schema.Boolean)
})

const decodeReasoning = Schema.decodeUnknownResult(Reasoning, { onExcessProperty: "error", errors: "all" })

const isEffort = Schema.is(Effort)

/** What part of the output a budget is, where the caller names an effort and the model takes only a budget. */
const share = { minimal: 0.1, low: 0.2, medium: 0.5, high: 0.8, xhigh: 0.95, max: 0.95 } as const

export interface WrittenThinking {
  readonly thinking?: object
  readonly effort?: string
}

export interface ThinkingContext {
  readonly rules: ModelRules
  /** `max_tokens`. */
  readonly limit: number
  /** Whether a turn that tool calls interrupted begins with its thinking, as a budget demands. */
  readonly mayResume: boolean
}

/** What a caller says about reasoning, in whichever of the contract's fields. */
interface Wish {
  readonly effort: Effort | undefined
  readonly budget: number | undefined
  readonly on: boolean | undefined
  readonly show: boolean | undefined
  /** The field to blame. */
  readonly path: string
}

/** `reasoning_effort`, `reasoning` and `include_reasoning` as `thinking` and `output_config.effort`. */
export const writeThinking = (
  request: ChatRequest,
  context: ThinkingContext
): Result.Result<WrittenThinking, ReadonlyArray<Issue>> =>
  Result.flatMap(wishOf(request), (wish) => {
    const off = wish.on === false || wish.effort === "none"
    const asked = wish.on === true || wish.effort !== undefined || wish.budget !== undefined
    if (off) return Result.succeed({ thinking: { type: context.rules.off } })
    if (!asked) {
      return Result.succeed(
        wish.show === true && context.rules.thinksByDefault ? { thinking: adaptive(wish.show) } : {}
      )
    }
    return context.rules.thinking === "adaptive" ? writeAdaptive(wish) : writeBudget(wish, context)
  })

const wishOf = (request: ChatRequest): Result.Result<Wish, ReadonlyArray<Issue>> => {
  const { include_reasoning, reasoning = {}, reasoning_effort } = request
  const decoded = decodeReasoning(reasoning)
  const issues = [
    ...(reasoning_effort === undefined || isEffort(reasoning_effort)
      ? []
      : [{ path: "reasoning_effort", message: `Expected one of ${Effort.literals.join(", ")}` }]),
    ...(Result.isSuccess(decoded)
      ? []
      : issuesOf(decoded.failure).map(({ message, path }) => ({
          path: path === "" ? "reasoning" : `reasoning.${path}`,
          message
        })))
  ]
  if (Result.isFailure(decoded) || issues.length > 0) return Result.fail(issues)
  const { effort, enabled, exclude, max_tokens } = decoded.success
  if (effort !== undefined && reasoning_effort !== undefined && effort !== reasoning_effort) {
    const message = "Expected the same value as reasoning_effort, or only one of the two"
    return Result.fail([{ path: "reasoning.effort", message }])
  }
  const wanted = isEffort(reasoning_effort) ? reasoning_effort : effort
  if (max_tokens !== undefined && (wanted !== undefined || enabled === false)) {
    return Result.fail([{ path: "reasoning.max_tokens", message: "Expected either a budget or an effort" }])
  }
  if (enabled !== undefined && wanted !== undefined && enabled === (wanted === "none")) {
    return Result.fail([{ path: "reasoning.enabled", message: "Expected what the effort says" }])
  }
  return Result.succeed({
    effort: wanted,
    budget: max_tokens,
    on: enabled,
    show: exclude === true ? false : include_reasoning,
    path:
      reasoning_effort !== undefined
        ? "reasoning_effort"
        : effort !== undefined
          ? "reasoning.effort"
          : max_tokens !== undefined
            ? "reasoning.max_tokens"
            : "reasoning.enabled"
  })
}

const writeAdaptive = ({ budget, effort, show }: Wish): Result.Result<WrittenThinking, ReadonlyArray<Issue>> =>
  budget !== undefined
    ? Result.fail([
        { path: "reasoning.max_tokens", message: "This model decides itself how much it thinks: say an effort instead" }
      ])
    : Result.succeed({ thinking: adaptive(show), ...effortField(effort) })

/** Newer models show nothing of their thinking unless asked; who asks for reasoning wants to see it. */
const adaptive = (show: boolean | undefined): object => ({
  type: "adaptive",
  display: show === false ? "omitted" : "summarized"
})

const writeBudget = (
  { budget, effort, path, show }: Wish,
  { limit, mayResume, rules }: ThinkingContext
): Result.Result<WrittenThinking, ReadonlyArray<Issue>> => {
  if (limit <= leastBudget) {
    const message = `This model needs an output limit above ${leastBudget} tokens to reason, not ${limit}`
    return Result.fail([{ path, message }])
  }
  if (budget !== undefined && budget >= limit) {
    return Result.fail([{ path, message: `Expected less than the output limit of ${limit} tokens` }])
  }
  const part = share[effort === undefined || effort === "none" ? "medium" : effort]
  const tokens = budget ?? Math.max(Math.floor((limit - 1) * part), leastBudget)
  const same = rules.takesEffort ? effortField(effort) : {}
  // The vendor refuses a budget for a turn that goes on without the thinking it began with.
  return Result.succeed(
    mayResume
      ? {
          thinking: { type: "enabled", budget_tokens: tokens, ...(show === false ? { display: "omitted" } : {}) },
          ...same
        }
      : same
  )
}

const effortField = (effort: Effort | undefined): { readonly effort?: string } =>
  effort === undefined ? {} : { effort: effort === "minimal" ? "low" : effort }
