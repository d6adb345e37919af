import type { Charged } from "../../../application/completion/CompleteChat.ts"
import { inputTokens, outputTokens } from "../../../domain/billing/Usage.ts"
import type { Choice, Completion } from "../../../domain/completion/Completion.ts"
import type { Delta } from "../../../domain/completion/CompletionEvent.ts"
import { toUsd } from "../../../domain/shared/Money.ts"
import type { ChatCompletionWire, UsageWire } from "./ChatApi.ts"

/** What all parts of one answer share. `created` is epoch seconds. */
export interface Answer {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly includeReasoning: boolean
}

export const usageToWire = ({ cost, usage }: Charged): UsageWire => ({
  prompt_tokens: inputTokens(usage),
  completion_tokens: outputTokens(usage),
  total_tokens: inputTokens(usage) + outputTokens(usage),
  cost: toUsd(cost),
  prompt_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite },
  completion_tokens_details: { reasoning_tokens: usage.reasoning }
})

export const completionToWire = (answer: Answer, completion: Completion, charged: Charged): ChatCompletionWire => ({
  id: answer.id,
  object: "chat.completion",
  created: answer.created,
  model: answer.model,
  ...(completion.serviceTier === undefined ? {} : { service_tier: completion.serviceTier }),
  choices: completion.choices.map((choice) => choiceToWire(answer, choice)),
  usage: usageToWire(charged)
})

const choiceToWire = (answer: Answer, choice: Choice): ChatCompletionWire["choices"][number] => ({
  index: choice.index,
  finish_reason: choice.finishReason,
  message: {
    role: "assistant",
    content: choice.content,
    ...(choice.refusal === undefined ? {} : { refusal: choice.refusal }),
    ...reasoningToWire(answer, choice.reasoning),
    ...(choice.toolCalls === undefined ? {} : { tool_calls: choice.toolCalls })
  }
})

/** Both spellings, since clients know one or the other. */
const reasoningToWire = (answer: Answer, reasoning: string | undefined) =>
  reasoning === undefined || !answer.includeReasoning ? {} : { reasoning, reasoning_content: reasoning }

/** The head of every chunk, as JSON text without its closing brace. */
export const chunkHead = ({ created, id, model }: Answer): string =>
  JSON.stringify({ id, object: "chat.completion.chunk", created, model }).slice(0, -1)

/** The delta of a chunk (decisions 2), or undefined when nothing of it is for this caller. */
export const deltaToWire = (answer: Answer, delta: Delta, isFirst: boolean): object | undefined => {
  const wire = {
    ...(isFirst ? { role: "assistant" } : {}),
    ...(delta.content === undefined ? {} : { content: delta.content }),
    ...reasoningToWire(answer, delta.reasoning),
    ...(delta.refusal === undefined ? {} : { refusal: delta.refusal }),
    ...(delta.toolCalls === undefined
      ? {}
      : {
          tool_calls: delta.toolCalls.map(({ arguments: text, id, index, name }) => ({
            index,
            ...(id === undefined ? {} : { id, type: "function" }),
            function: { ...(name === undefined ? {} : { name }), ...(text === undefined ? {} : { arguments: text }) }
          }))
        })
  }
  return Object.keys(wire).length === 0 && delta.finishReason === undefined ? undefined : wire
}
