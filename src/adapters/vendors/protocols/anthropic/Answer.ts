import { Result, Schema } from "effect"
import type { ToolCall } from "../../../../domain/completion/ChatMessage.ts"
import type { Completion, FinishReason } from "../../../../domain/completion/Completion.ts"
import type { UpstreamSaid } from "../../Protocol.ts"
import { inBandError } from "./Errors.ts"
import { Keeper, RedactedBlock, ThinkingBlock } from "./KeptThinking.ts"
import { readTier, readUsage } from "./TokenUsage.ts"

export const Maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

export const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

export const ToolUseBlock = Schema.Struct({
  type: Schema.Literal("tool_use"),
  id: Schema.NonEmptyString,
  name: Schema.NonEmptyString,
  input: Maybe(Schema.JsonObject)
})

const known = new Set(["redacted_thinking", "text", "thinking", "tool_use"])

/** What the vendor's own tools leave, and what is to come: passed over. A block of a known kind has to be one. */
export const OtherBlock = Schema.Struct({
  type: Schema.String.check(
    Schema.makeFilter((type) => (known.has(type) ? `Expected the fields of a ${type} block` : undefined))
  )
})

export const StopDetails = Maybe(Schema.Struct({ explanation: Maybe(Schema.String) }))

const Answer = Schema.Struct({
  type: Schema.Literal("message"),
  content: Schema.Array(
    Schema.Union([
      TextBlock,
      // Unsigned where a compatible server does not sign.
      Schema.Struct({ ...ThinkingBlock.fields, signature: Maybe(Schema.String) }),
      RedactedBlock,
      ToolUseBlock,
      OtherBlock
    ])
  ),
  stop_reason: Maybe(Schema.String),
  stop_details: StopDetails,
  usage: Schema.optionalKey(Schema.Unknown)
})

const decodeAnswer = Schema.decodeUnknownResult(Answer)

export const readAnswer = (body: unknown): Result.Result<Completion, Schema.SchemaError | UpstreamSaid> => {
  const failure = inBandError(body)
  return failure !== undefined ? Result.fail(failure) : Result.map(decodeAnswer(body), toCompletion)
}

const toCompletion = ({ content, stop_details, stop_reason, usage: reported }: typeof Answer.Type): Completion => {
  const keeper = new Keeper()
  const texts: Array<string> = []
  const thoughts: Array<string> = []
  const toolCalls: Array<ToolCall> = []
  for (const block of content) {
    if ("text" in block) {
      keeper.text(block.text.length)
      texts.push(block.text)
    } else if ("thinking" in block) {
      const { signature, thinking, type } = block
      if (signature != null && signature !== "") keeper.thinking({ type, thinking, signature })
      if (thinking !== "") thoughts.push(thinking)
    } else if ("data" in block) {
      keeper.thinking(block)
    } else if ("name" in block) {
      toolCalls.push({
        id: keeper.call(block.id),
        type: "function",
        function: { name: block.name, arguments: JSON.stringify(block.input ?? {}) }
      })
    }
  }
  const refusal = refusalOf(stop_reason, stop_details)
  const usage = readUsage(reported)
  return {
    choices: [
      {
        index: 0,
        finishReason: readStop(stop_reason, toolCalls.length > 0),
        // Blocks of text are pieces of one text, cut where citations begin and end.
        content: texts.length === 0 ? null : texts.join(""),
        ...(thoughts.length === 0 ? {} : { reasoning: thoughts.join(betweenThoughts) }),
        ...(refusal === undefined ? {} : { refusal }),
        ...(toolCalls.length === 0 ? {} : { toolCalls })
      }
    ],
    ...readTier(reported),
    ...(usage === undefined ? {} : { usage })
  }
}

/** Blocks of thinking are thoughts of their own. */
export const betweenThoughts = "\n\n"

/** Why the vendor's classifiers stopped the answer, where it tells. */
export const refusalOf = (
  reason: string | null | undefined,
  details: (typeof Answer.Type)["stop_details"]
): string | undefined => (reason === "refusal" ? (details?.explanation ?? undefined) : undefined)

/** A paused turn (`pause_turn`) is one that the vendor cut for its length. */
export const readStop = (reason: string | null | undefined, calledTools: boolean): FinishReason => {
  switch (reason) {
    case "max_tokens":
    case "model_context_window_exceeded":
    case "pause_turn":
      return "length"
    case "refusal":
      return "content_filter"
    case "tool_use":
      return "tool_calls"
    default:
      return calledTools ? "tool_calls" : "stop"
  }
}
