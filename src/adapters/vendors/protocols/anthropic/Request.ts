import { Result } from "effect"
import type { UpstreamCall } from "../../../../application/ports/vendor/Upstreams.ts"
import { type ChatRequest, outputLimit, type ResponseFormat } from "../../../../domain/completion/ChatRequest.ts"
import { InvalidRequest } from "../../../../domain/completion/CompletionErrors.ts"
import type { Issue } from "../../../../domain/shared/Issue.ts"
import { writeConversation } from "./Conversation.ts"
import { rulesOf } from "./ModelRules.ts"
import { writeThinking } from "./Thinking.ts"

/** A caller can act on a few issues at a time; a hostile body must not make an answer longer than itself. */
const mostIssues = 20

/**
 * The request in the vendor's words. Every field reaches it or is refused here by name; what only some models take, such
 * as a temperature, the vendor judges.
 */
export const writeRequest = ({
  outputLimit: most,
  request,
  route
}: UpstreamCall): Result.Result<object, InvalidRequest> => {
  const rules = rulesOf(route.upstreamModel)
  const limit = outputLimit(request) ?? most
  const issues: Array<Issue> = [...inexpressible(request)]
  const { mayResume, messages, system } = writeConversation(request.messages, rules, issues)
  if (messages.length === 0 && issues.length === 0)
    issues.push({ path: "messages", message: "Expected a message of a user" })
  const thought = writeThinking(request, { rules, limit, mayResume })
  if (Result.isFailure(thought)) issues.push(...thought.failure)
  if (Result.isFailure(thought) || issues.length > 0) {
    return Result.fail(new InvalidRequest({ issues: issues.slice(0, mostIssues) }))
  }
  const { service_tier, stop, stream, temperature, top_p, user } = request
  const { effort, thinking } = thought.success
  const format = writeFormat(request.response_format)
  return Result.succeed({
    model: route.upstreamModel,
    max_tokens: limit,
    ...(system.length === 0 ? {} : { system }),
    messages,
    ...writeTools(request),
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { top_p }),
    ...(stop === undefined ? {} : { stop_sequences: typeof stop === "string" ? [stop] : stop }),
    ...(thinking === undefined ? {} : { thinking }),
    ...(effort === undefined && format === undefined
      ? {}
      : {
          output_config: { ...(effort === undefined ? {} : { effort }), ...(format === undefined ? {} : { format }) }
        }),
    // Its `auto` is what asks for the priority tier; the answer tells which one it was.
    ...(service_tier === undefined ? {} : { service_tier: service_tier === "default" ? "standard_only" : "auto" }),
    ...(user === undefined ? {} : { metadata: { user_id: user } }),
    ...(comesBack(request) ? { cache_control: { type: "ephemeral" } } : {}),
    ...(stream === true ? { stream } : {})
  })
}

/**
 * Whether the prompt will be the beginning of a next one, so that a cache pays: writing it costs a quarter more, reading
 * it a tenth. It does in conversations and tool loops, and when the caller says so with a key; the vendor has no keys, it
 * finds the longest beginning that it knows.
 */
const comesBack = ({ messages, prompt_cache_key, tools = [] }: ChatRequest): boolean =>
  prompt_cache_key !== undefined ||
  tools.length > 0 ||
  messages.some(({ role }) => role === "assistant" || role === "tool")

/** The fields that the vendor has no place for. A penalty of 0 is none. The answer's usage is the gateway's own affair. */
const inexpressible = (request: ChatRequest): ReadonlyArray<Issue> => {
  const { frequency_penalty, presence_penalty, response_format, seed, temperature, usage = {}, verbosity } = request
  const fields = {
    frequency_penalty: frequency_penalty !== undefined && frequency_penalty !== 0,
    presence_penalty: presence_penalty !== undefined && presence_penalty !== 0,
    seed: seed !== undefined,
    verbosity: verbosity !== undefined
  }
  return [
    ...Object.entries(fields)
      .filter(([, isGiven]) => isGiven)
      .map(([path]) => path),
    ...Object.keys(usage)
      .filter((key) => key !== "include")
      .map((key) => `usage.${key}`)
  ]
    .map((path): Issue => ({ path, message: "This model's provider has no such field" }))
    .concat(
      temperature !== undefined && (temperature < 0 || temperature > 1)
        ? [{ path: "temperature", message: "Expected a value between 0 and 1: this model's provider takes no other" }]
        : [],
      response_format?.type === "json_object"
        ? [{ path: "response_format", message: "This model's provider needs a schema: use json_schema" }]
        : [],
      forcesTool(request) && (request.tools ?? []).length === 0
        ? [{ path: "tool_choice", message: "Expected tools to choose from" }]
        : []
    )
}

const forcesTool = ({ tool_choice }: ChatRequest): boolean =>
  tool_choice === "required" || typeof tool_choice === "object"

const writeTools = ({ parallel_tool_calls, tool_choice, tools = [] }: ChatRequest): object => {
  if (tools.length === 0) return {}
  const choice =
    tool_choice === undefined
      ? undefined
      : typeof tool_choice === "object"
        ? { type: "tool", name: tool_choice.function.name }
        : { type: tool_choice === "required" ? "any" : tool_choice }
  const single = parallel_tool_calls === false && tool_choice !== "none" ? { disable_parallel_tool_use: true } : {}
  return {
    tools: tools.map(({ function: { description, name, parameters = {} } }) => ({
      name,
      ...(description === undefined ? {} : { description }),
      // The vendor wants a schema of an object for every tool.
      input_schema: { type: "object", ...parameters }
    })),
    ...(choice === undefined && parallel_tool_calls !== false
      ? {}
      : { tool_choice: { ...(choice ?? { type: "auto" }), ...single } })
  }
}

/** The vendor has only the schema, and takes it strictly: name and description go into it. */
const writeFormat = (format: ResponseFormat | undefined): object | undefined => {
  if (format?.type !== "json_schema") return undefined
  const { description, name, schema } = format.json_schema
  const descriptions = [description, schema["description"]].filter((text) => typeof text === "string")
  return {
    type: "json_schema",
    schema: {
      title: name,
      ...schema,
      ...(descriptions.length === 0 ? {} : { description: descriptions.join("\n\n") })
    }
  }
}
