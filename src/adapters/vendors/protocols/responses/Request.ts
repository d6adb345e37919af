import { Predicate, Result } from "effect"
import type { UpstreamCall } from "../../../../application/ports/vendor/Upstreams.ts"
import {
  type ChatRequest,
  outputLimit,
  type ResponseFormat,
  type Tool
} from "../../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../../domain/completion/CompletionErrors.ts"
import type { Issue } from "../../../../domain/shared/Issue.ts"
import type { Form } from "./Form.ts"
import { writeMessages } from "./Input.ts"
import { noField, type Refuse } from "./Refuse.ts"

/** The body of a request, or every field of the call that this wire has nothing for. */
export const writeRequest = (call: UpstreamCall, form: Form): Result.Result<object, InvalidRequest> => {
  const issues: Array<Issue> = []
  const body = write(call, form, (path, message) => void issues.push({ path, message }))
  return issues.length > 0 ? Result.fail(new InvalidRequest({ issues })) : Result.succeed(body)
}

const inexpressible: Readonly<Record<Form, ReadonlyArray<keyof ChatRequest>>> = {
  platform: ["frequency_penalty", "presence_penalty", "seed", "stop"],
  subscription: [
    "frequency_penalty",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "user"
  ]
}

const write = ({ outputCap, request, route }: UpstreamCall, form: Form, refuse: Refuse): object => {
  for (const field of inexpressible[form]) if (request[field] !== undefined) refuse(field, noField)
  // The answer's usage is the gateway's own affair.
  for (const key of Object.keys(request.usage ?? {})) if (key !== "include") refuse(`usage.${key}`, noField)
  const {
    parallel_tool_calls,
    prompt_cache_key,
    temperature,
    tool_choice,
    tools = [],
    top_p,
    user,
    verbosity
  } = request
  // A subscription has no credit to guard: a cap that cannot be said there costs nothing.
  const limit = form === "platform" ? (outputLimit(request) ?? outputCap) : undefined
  const reasons = form === "subscription" || mayReason(route.upstreamModel)
  const reasoning = writeReasoning(request, reasons, refuse)
  const format = request.response_format === undefined ? undefined : writeFormat(request.response_format)
  const tier = writeTier(request.service_tier, form)
  return {
    model: route.upstreamModel,
    store: false,
    ...writeMessages(request.messages, form, refuse),
    ...(limit === undefined ? {} : { max_output_tokens: limit }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { top_p }),
    ...(tools.length === 0 ? {} : { tools: tools.map(writeTool) }),
    ...(tool_choice === undefined
      ? {}
      : {
          tool_choice:
            typeof tool_choice === "string" ? tool_choice : { type: "function", name: tool_choice.function.name }
        }),
    ...(parallel_tool_calls === undefined ? {} : { parallel_tool_calls }),
    ...(format === undefined && verbosity === undefined
      ? {}
      : {
          text: { ...(format === undefined ? {} : { format }), ...(verbosity === undefined ? {} : { verbosity }) }
        }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(reasons ? { include: ["reasoning.encrypted_content"] } : {}),
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(user === undefined ? {} : { safety_identifier: user }),
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key }),
    ...(request.stream === true || form === "subscription" ? { stream: true } : {})
  }
}

/**
 * The older models never reason, and refuse requests that ask for their reasoning; all later ones may. Of fine-tuned
 * models the base stands in the name.
 */
const mayReason = (model: string): boolean =>
  !/^(?:ft:)?(?:gpt-3|gpt-4|chatgpt-|davinci|babbage)|-chat-latest$/.test(model)

const reasoningFields = ["context", "effort", "mode", "summary"]

const writeReasoning = (request: ChatRequest, reasons: boolean, refuse: Refuse): object | undefined => {
  const { include_reasoning, reasoning = {}, reasoning_effort } = request
  for (const [key, value] of Object.entries(reasoning)) {
    if (!reasoningFields.includes(key)) refuse(`reasoning.${key}`, noField)
    else if (!Predicate.isString(value) || value === "") {
      refuse(`reasoning.${key}`, "Expected a string that is not empty")
    }
  }
  const { effort = reasoning_effort, summary } = reasoning
  if (reasoning_effort !== undefined && effort !== reasoning_effort) {
    refuse("reasoning.effort", "Expected the same value as reasoning_effort, or only one of the two")
  }
  if (include_reasoning === false && summary !== undefined) {
    refuse("include_reasoning", "Expected true, or no reasoning.summary: a summary is the reasoning of this model")
  }
  const written = {
    ...reasoning,
    ...(effort === undefined ? {} : { effort }),
    // Its summary is all that this vendor shows of a model's reasoning, and only when asked.
    ...(include_reasoning === true && summary === undefined && reasons ? { summary: "auto" } : {})
  }
  return Object.keys(written).length === 0 ? undefined : written
}

/** Here tools are strict where nothing is said, and schemas may be; in the contract's form neither is. */
const writeTool = ({ function: { description, name, parameters } }: Tool): object => ({
  type: "function",
  name,
  ...(description === undefined ? {} : { description }),
  parameters: parameters ?? { type: "object", properties: {} },
  strict: false
})

const writeFormat = (format: ResponseFormat): object => {
  if (format.type !== "json_schema") return format
  const { strict = false, ...schema } = format.json_schema
  return { type: "json_schema", ...schema, strict }
}

/** Subscriptions have one usual tier and a faster one; the usual one has no name there. */
const writeTier = (tier: ChatRequest["service_tier"], form: Form): string | undefined =>
  tier === "fast" ? "priority" : form === "platform" || tier === "priority" ? tier : undefined
