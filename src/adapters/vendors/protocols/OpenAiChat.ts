import { Option, Predicate, Result, Schema } from "effect"
import { none, type Usage } from "../../../domain/billing/Usage.ts"
import type {
  AssistantMessage,
  ChatMessage,
  ToolCall,
  ToolMessage,
  ToolPart
} from "../../../domain/completion/ChatMessage.ts"
import { type ChatRequest, outputLimit } from "../../../domain/completion/ChatRequest.ts"
import type { Choice, FinishReason, ServedTier } from "../../../domain/completion/Completion.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent, Delta } from "../../../domain/completion/CompletionEvent.ts"
import { attach, detach, payloadOf } from "../../../domain/completion/Continuation.ts"
import type { Issue } from "../../../domain/shared/Issue.ts"
import { TextFrames } from "../framing/TextFrames.ts"
import type { Dialect, Malformed, Protocol, StreamReader, UpstreamSaid } from "../Protocol.ts"
import { asCount } from "./TokenCount.ts"

/**
 * OpenAI's chat completions, and everything compatible with them. The contract's own request has this shape, so what
 * need not change is passed through.
 */
export const openAiChat: Protocol = {
  path: "/chat/completions",
  write: ({ outputCap, request, route }, dialect) => {
    const issues = [...lacking(request, dialect), ...(dialect.extensions ? [] : beyondReference(request, dialect))]
    return issues.length > 0
      ? Result.fail(new InvalidRequest({ issues }))
      : Result.succeed(write(request, route.upstreamModel, outputCap, dialect))
  },
  read: (body) => {
    const failure = inBandError(body)
    return failure !== undefined ? Result.fail(failure) : Result.map(decodeAnswer(body), readAnswer)
  },
  reader: () => new Reader(),
  errorText: (body) => refusalIn(body)
}

// -- Request ----------------------------------------------------------------------------------------------------------

const write = (request: ChatRequest, model: string, outputCap: number | undefined, dialect: Dialect): object => {
  const {
    access_method: _accessMethod,
    include_reasoning,
    max_completion_tokens,
    max_tokens: _maxTokens,
    messages,
    reasoning,
    reasoning_effort,
    seed,
    service_tier,
    stream,
    stream_options: _streamOptions,
    tools = [],
    usage,
    ...same
  } = request
  const limit = outputLimit(request) ?? outputCap
  const effort = reasoning_effort ?? (dialect.extensions ? undefined : effortOf(reasoning))
  return {
    ...same,
    model,
    messages: writeMessages(messages, dialect),
    ...(tools.length === 0 ? {} : { tools }),
    ...(limit === undefined
      ? {}
      : dialect.extensions && max_completion_tokens !== undefined
        ? { max_completion_tokens: limit }
        : { [dialect.outputLimit]: limit }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(seed === undefined ? {} : { [dialect.seed ?? "seed"]: seed }),
    ...(service_tier === undefined ? {} : { service_tier: service_tier === "fast" ? "priority" : service_tier }),
    ...(dialect.extensions
      ? {
          ...(include_reasoning === undefined ? {} : { include_reasoning }),
          ...(reasoning === undefined ? {} : { reasoning }),
          ...(usage === undefined ? {} : { usage })
        }
      : {}),
    // Metering needs the usage of every stream, asked for or not.
    ...(stream === true
      ? { stream: true, ...(dialect.usageUnasked === true ? {} : { stream_options: { include_usage: true } }) }
      : {})
  }
}

/** Vendors without the free-form `reasoning` still know its one common field. */
const effortOf = (reasoning: ChatRequest["reasoning"]): string | undefined =>
  typeof reasoning?.["effort"] === "string" ? reasoning["effort"] : undefined

const unknown = (path: string): Issue => ({ path, message: "This model's provider has no such field" })

const lacking = (request: ChatRequest, { lacks = [] }: Dialect): ReadonlyArray<Issue> =>
  lacks.filter((field) => request[field] !== undefined).map(unknown)

/** What of a request a vendor without extensions has no field for. The answer's usage is the gateway's own affair. */
const beyondReference = (request: ChatRequest, { thoughts }: Dialect): ReadonlyArray<Issue> => {
  const { messages, reasoning = {}, reasoning_effort, usage = {} } = request
  const { effort, ...restOfReasoning } = reasoning
  const { include: _include, ...restOfUsage } = usage
  const contradiction =
    effort === undefined ||
    effort === reasoning_effort ||
    (reasoning_effort === undefined && typeof effort === "string" && effort !== "")
      ? []
      : [
          {
            path: "reasoning.effort",
            message:
              reasoning_effort === undefined
                ? "Expected a string that is not empty"
                : "Expected the same value as reasoning_effort, or only one of the two"
          }
        ]
  return [
    ...contradiction,
    ...Object.keys(restOfReasoning).map((key) => unknown(`reasoning.${key}`)),
    ...Object.keys(restOfUsage).map((key) => unknown(`usage.${key}`)),
    ...messages.flatMap((message, index) =>
      message.role !== "assistant" || thoughts !== undefined
        ? []
        : (["reasoning", "reasoning_content"] as const)
            .filter((field) => message[field] !== undefined)
            .map((field) => unknown(`messages[${index}].${field}`))
    )
  ]
}

/**
 * A tool's answer may hold only text on this wire. Its media follow in a user message after the last of the tools'
 * answers, since these have to stand together right behind the calls.
 */
const writeMessages = (messages: ReadonlyArray<ChatMessage>, dialect: Dialect): ReadonlyArray<object> => {
  const written: Array<object> = []
  let media: Array<object> = []
  const flush = () => {
    if (media.length > 0) written.push({ role: "user", content: media })
    media = []
  }
  for (const message of messages) {
    if (message.role === "tool") {
      written.push(writeToolAnswer(message, media))
      continue
    }
    flush()
    written.push(
      message.role === "assistant"
        ? writeAssistant(message, dialect)
        : message.role === "developer" && dialect.systemOnly === true
          ? { ...message, role: "system" }
          : message
    )
  }
  flush()
  return written
}

/** Vendors refuse lists without items. The caller's two fields for what was thought have the same text. */
const writeAssistant = (message: AssistantMessage, dialect: Dialect): object => {
  const { content, reasoning, reasoning_content, tool_calls = [], ...same } = message
  const thought = reasoning_content ?? reasoning ?? ""
  const said = content === undefined ? {} : { content: Array.isArray(content) && content.length === 0 ? "" : content }
  return {
    ...same,
    ...(dialect.thoughts === undefined
      ? { ...said, reasoning, reasoning_content }
      : thought === ""
        ? said
        : dialect.thoughts === "parts"
          ? { content: [{ type: "thinking", thinking: [{ type: "text", text: thought }] }, ...partsOf(content)] }
          : { ...said, [dialect.thoughts]: thought }),
    ...(tool_calls.length === 0 ? {} : { tool_calls: tool_calls.map((call) => writeCall(call, dialect)) })
  }
}

const partsOf = (content: AssistantMessage["content"]): ReadonlyArray<object> =>
  content == null || content === "" ? [] : typeof content === "string" ? [{ type: "text", text: content }] : content

/** What other wires keep in ids is nothing to this one. */
const writeCall = ({ id, ...call }: ToolCall, dialect: Dialect): object => ({
  id: detach(id),
  ...call,
  ...(dialect.signsCalls === true
    ? Option.match(Option.flatMap(payloadOf(id), decodeSigned), {
        onNone: () => ({}),
        onSome: ({ extra_content }) => ({ extra_content })
      })
    : {})
})

/** The tag tells it apart from what other wires attach to the same ids. */
const Signed = Schema.Struct({ wire: Schema.Literal("chat"), extra_content: Schema.JsonObject })

const decodeSigned = Schema.decodeUnknownOption(Signed)

/** The id of a call for the client, with what the vendor wants back with it. */
const signedId = (id: string, extra: Schema.JsonObject | null | undefined): string =>
  extra == null ? id : attach(id, { wire: "chat", extra_content: extra } satisfies typeof Signed.Type)

const writeToolAnswer = (message: ToolMessage, media: Array<object>): object => {
  const { content, name, role } = message
  const tool_call_id = detach(message.tool_call_id)
  const named = name === undefined ? {} : { name }
  if (typeof content === "string") return { role, tool_call_id, content, ...named }
  const text = content.filter((part) => part.type === "text")
  const rest = content.filter((part) => part.type !== "text")
  if (rest.length > 0) {
    media.push({ type: "text", text: `Attached to the answer of tool call ${tool_call_id}:` }, ...rest.map(writeMedia))
  }
  return {
    role,
    tool_call_id,
    content:
      rest.length === 0 ? (text.length === 0 ? "" : text) : [...text, { type: "text", text: "(attachments follow)" }],
    ...named
  }
}

const writeMedia = (part: Exclude<ToolPart, { readonly type: "text" }>): object => {
  switch (part.type) {
    case "image_url":
      return part
    case "image":
      return image(part.image, part.mimeType ?? "image/png")
    case "media":
      return medium(part.data, part.mediaType)
    case "file":
      return medium(part.data, part.mimeType)
  }
}

const medium = (data: string, type: string): object => {
  if (type.startsWith("image/")) return image(data, type)
  const sound = /^audio\/(?:x-)?(wav|mp3|mpeg)$/.exec(type)
  return sound !== null
    ? { type: "input_audio", input_audio: { data, format: sound[1] === "wav" ? "wav" : "mp3" } }
    : { type: "file", file: { filename: "attachment", file_data: asUri(data, type) } }
}

const image = (data: string, type: string): object => ({ type: "image_url", image_url: { url: asUri(data, type) } })

const asUri = (data: string, type: string): string =>
  /^(?:data|https?):/i.test(data) ? data : `data:${type};base64,${data}`

// -- Whole answer -----------------------------------------------------------------------------------------------------

const Maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** Mistral's reasoning models answer in parts, some of them thoughts. */
const Parts = Schema.Array(
  Schema.Struct({
    text: Maybe(Schema.String),
    thinking: Maybe(Schema.Array(Schema.Struct({ text: Maybe(Schema.String) })))
  })
)

const texts = {
  content: Maybe(Schema.Union([Schema.String, Parts])),
  reasoning: Maybe(Schema.String),
  reasoning_content: Maybe(Schema.String),
  refusal: Maybe(Schema.String)
}

const Answer = Schema.Struct({
  choices: Schema.NonEmptyArray(
    Schema.Struct({
      index: Schema.optionalKey(Schema.Int),
      finish_reason: Maybe(Schema.String),
      message: Schema.Struct({
        ...texts,
        tool_calls: Maybe(
          Schema.Array(
            Schema.Struct({
              id: Schema.NonEmptyString,
              function: Schema.Struct({ name: Schema.NonEmptyString, arguments: Schema.String }),
              extra_content: Maybe(Schema.JsonObject)
            })
          )
        )
      })
    })
  ),
  service_tier: Maybe(Schema.String),
  usage: Schema.optionalKey(Schema.Unknown)
})

const decodeAnswer = Schema.decodeUnknownResult(Answer)

/** What is said and what is thought, from wherever the vendor puts it. */
const spoken = ({ content, reasoning, reasoning_content }: Schema.Struct.Type<typeof texts>) => {
  const thought = reasoning ?? reasoning_content
  if (content == null || typeof content === "string") return { content, thought }
  const said = content.flatMap(({ text }) => text ?? [])
  const thoughts = content.flatMap(({ thinking }) => thinking?.flatMap(({ text }) => text ?? []) ?? [])
  return {
    content: said.length === 0 ? undefined : said.join(""),
    thought: thoughts.length === 0 ? thought : thoughts.join("")
  }
}

const asIndex = (index: number | null | undefined): number | undefined =>
  index != null && index >= 0 ? index : undefined

const readAnswer = (answer: typeof Answer.Type) => ({
  choices: answer.choices.map(({ finish_reason, index, message }, position): Choice => {
    const { content, thought } = spoken(message)
    return {
      index: asIndex(index) ?? position,
      finishReason: readFinish(finish_reason, (message.tool_calls?.length ?? 0) > 0),
      content: content ?? null,
      ...(thought == null ? {} : { reasoning: thought }),
      ...(typeof message.refusal === "string" ? { refusal: message.refusal } : {}),
      ...(message.tool_calls == null || message.tool_calls.length === 0
        ? {}
        : {
            toolCalls: message.tool_calls.map(({ extra_content, function: called, id }) => ({
              id: signedId(id, extra_content),
              type: "function",
              function: called
            }))
          })
    }
  }),
  ...tier(answer.service_tier),
  ...usageField(readUsage(answer.usage))
})

const tier = (served: string | null | undefined): { readonly serviceTier?: ServedTier } =>
  served === "priority" || served === "fast"
    ? { serviceTier: "priority" }
    : served === "default"
      ? { serviceTier: "default" }
      : {}

/** Compatible servers have reasons of their own (`eos`, `function_call`, `model_length`). */
const readFinish = (reason: string | null | undefined, calledTools: boolean): FinishReason => {
  switch (reason) {
    case "length":
    case "max_tokens":
    case "model_length":
      return "length"
    case "content_filter":
      return "content_filter"
    case "tool_calls":
    case "function_call":
      return "tool_calls"
    default:
      return calledTools ? "tool_calls" : "stop"
  }
}

// -- Streamed answer --------------------------------------------------------------------------------------------------

const Chunk = Schema.Struct({
  choices: Maybe(
    Schema.Array(
      Schema.Struct({
        index: Schema.optionalKey(Schema.Int),
        finish_reason: Maybe(Schema.String),
        delta: Maybe(
          Schema.Struct({
            role: Maybe(Schema.String),
            ...texts,
            tool_calls: Maybe(
              Schema.Array(
                Schema.Struct({
                  index: Maybe(Schema.Int),
                  id: Maybe(Schema.String),
                  function: Maybe(Schema.Struct({ name: Maybe(Schema.String), arguments: Maybe(Schema.String) })),
                  extra_content: Maybe(Schema.JsonObject)
                })
              )
            )
          })
        )
      })
    )
  ),
  service_tier: Maybe(Schema.String),
  usage: Schema.optionalKey(Schema.Unknown)
})

const decodeChunk = Schema.decodeUnknownResult(Chunk)

const malformed = (detail: string): Malformed => ({ _tag: "Malformed", detail })

class Reader implements StreamReader {
  #done = false
  #finished = false
  /** By the vendor's index, the last call that has it: which one of the answer it is, and the vendor's id of it. */
  readonly #calls = new Map<number, { readonly index: number; readonly id: string | null | undefined }>()
  #called = 0
  readonly #texts = new TextFrames(textOnly)

  read(data: string): Result.Result<ReadonlyArray<CompletionEvent>, Malformed | UpstreamSaid> {
    if (data === "[DONE]") {
      this.#done = true
      return Result.succeed([])
    }
    const known = this.#texts.read(data)
    if (known !== undefined) return Result.succeed([{ _tag: "Delta", index: 0, content: known }])
    let json: unknown
    try {
      json = JSON.parse(data)
    } catch {
      return Result.fail(malformed(`a frame of ${data.length} characters is not JSON`))
    }
    const text = textOnly(json)
    if (text !== undefined) {
      this.#texts.learn(data, text)
      return Result.succeed([{ _tag: "Delta", index: 0, content: text }])
    }
    const failure = inBandError(json)
    if (failure !== undefined) return Result.fail(failure)
    const chunk = decodeChunk(json)
    return Result.isFailure(chunk)
      ? Result.fail(malformed(`a frame is not a chunk: ${chunk.failure.message}`))
      : Result.succeed(this.#events(chunk.success))
  }

  isComplete(): boolean {
    return this.#done || this.#finished
  }

  isDone(): boolean {
    return this.#done
  }

  finish(): ReadonlyArray<CompletionEvent> {
    return this.#finished ? [] : [{ _tag: "Delta", index: 0, finishReason: this.#called > 0 ? "tool_calls" : "stop" }]
  }

  #events(chunk: typeof Chunk.Type): ReadonlyArray<CompletionEvent> {
    const events: Array<CompletionEvent> = []
    for (const { delta, finish_reason, index } of chunk.choices ?? []) {
      const calls = delta?.tool_calls?.map(({ extra_content, function: called, id, index: at }, position) => {
        const place = asIndex(at) ?? position
        const known = this.#calls.get(place)
        // Some give every call the same index or none, others every piece of one call an id of its own.
        const isNext = id != null && id !== "" && id !== known?.id && called?.name != null && called.name !== ""
        const first = known === undefined || isNext
        const call = first ? { index: this.#called++, id } : known
        this.#calls.set(place, call)
        return {
          index: call.index,
          ...(first && id != null ? { id: signedId(id, extra_content) } : {}),
          ...(first && called?.name != null ? { name: called.name } : {}),
          ...(called?.arguments == null ? {} : { arguments: called.arguments })
        }
      })
      const { content, thought } = spoken(delta ?? {})
      // Some repeat the reason with the usage.
      const finished = finish_reason != null && !this.#finished
      if (finished) this.#finished = true
      const event: Delta = {
        _tag: "Delta",
        index: asIndex(index) ?? 0,
        ...(delta?.role == null ? {} : { role: "assistant" }),
        ...(content == null ? {} : { content }),
        ...(thought == null ? {} : { reasoning: thought }),
        ...(delta?.refusal == null ? {} : { refusal: delta.refusal }),
        ...(calls === undefined || calls.length === 0 ? {} : { toolCalls: calls }),
        ...(finished ? { finishReason: readFinish(finish_reason, this.#called > 0) } : {}),
        ...tier(chunk.service_tier)
      }
      events.push(event)
    }
    const usage = chunk.usage == null ? undefined : readUsage(chunk.usage)
    if (usage !== undefined) events.push({ _tag: "Usage", usage })
    return events
  }
}

/**
 * The text of a chunk that says nothing else. Nearly all are such, and looking at them directly costs a fraction of what
 * the schema does.
 */
const textOnly = (chunk: unknown): string | undefined => {
  if (!Predicate.isObject(chunk)) return undefined
  const { choices, error, service_tier, usage } = chunk as Readonly<Record<string, unknown>>
  if (error != null || service_tier != null || usage != null) return undefined
  if (!Array.isArray(choices) || choices.length !== 1) return undefined
  const choice: unknown = choices[0]
  if (!Predicate.isObject(choice)) return undefined
  const { delta, finish_reason, index } = choice as Readonly<Record<string, unknown>>
  if (index !== 0 || finish_reason != null || !Predicate.isObject(delta)) return undefined
  for (const key in delta) if (key !== "content") return undefined
  const { content } = delta as Readonly<Record<string, unknown>>
  return typeof content === "string" ? content : undefined
}

// -- Usage ------------------------------------------------------------------------------------------------------------

const Tokens = Maybe(Schema.Unknown)

const decodeUsage = Schema.decodeUnknownOption(
  Schema.Struct({
    prompt_tokens: Tokens,
    completion_tokens: Tokens,
    total_tokens: Tokens,
    prompt_tokens_details: Maybe(Schema.Struct({ cached_tokens: Tokens, cache_write_tokens: Tokens })),
    completion_tokens_details: Maybe(Schema.Struct({ reasoning_tokens: Tokens }))
  })
)

/**
 * `prompt_tokens` includes the cached ones; `completion_tokens` includes reasoning, but for vendors whose total shows
 * that it does not. Counts that cannot be are as good as none: the text is counted instead.
 */
const readUsage = (reported: unknown): Usage | undefined => {
  const wire = Option.getOrUndefined(decodeUsage(reported))
  const prompt = asCount(wire?.prompt_tokens)
  const completion = asCount(wire?.completion_tokens)
  if (wire === undefined || prompt === undefined || completion === undefined) return undefined
  const cacheRead = Math.min(asCount(wire.prompt_tokens_details?.cached_tokens) ?? 0, prompt)
  const cacheWrite = Math.min(asCount(wire.prompt_tokens_details?.cache_write_tokens) ?? 0, prompt - cacheRead)
  const reasoning = asCount(wire.completion_tokens_details?.reasoning_tokens) ?? 0
  const outside = reasoning > 0 && asCount(wire.total_tokens) === prompt + completion + reasoning
  return {
    ...none,
    input: prompt - cacheRead - cacheWrite,
    cacheRead,
    cacheWrite,
    output: outside ? completion : Math.max(completion - reasoning, 0),
    reasoning: outside ? reasoning : Math.min(reasoning, completion)
  }
}

const usageField = (usage: Usage | undefined) => (usage === undefined ? {} : { usage })

// -- Errors -----------------------------------------------------------------------------------------------------------

const decodeError = Schema.decodeUnknownOption(Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }))

/** Some vendors answer 200 and put the error into the body or the stream. */
const inBandError = (body: unknown): UpstreamSaid | undefined =>
  Predicate.hasProperty(body, "error") && body.error != null
    ? {
        _tag: "UpstreamSaid",
        detail: Option.match(decodeError(body), {
          onNone: () => JSON.stringify(body.error),
          onSome: ({ error }) => error.message
        })
      }
    : undefined

const decodeMessage = Schema.decodeUnknownOption(Schema.Struct({ message: Schema.String }))

const Places = Schema.Struct({
  detail: Schema.Array(
    Schema.Struct({ loc: Schema.Array(Schema.Union([Schema.String, Schema.Int])), msg: Schema.String })
  )
})

const decodePlaces = Schema.decodeUnknownOption(Schema.Union([Places, Schema.Struct({ message: Places })]))

/**
 * The words of a refusal: in OpenAI's error object, in a list of one such (Google), alone, or place by place where the
 * request was not of the vendor's schema (Mistral).
 */
const refusalIn = (body: unknown): string | undefined => {
  const [said]: ReadonlyArray<unknown> = Array.isArray(body) ? body : [body]
  return Option.getOrUndefined(
    Option.firstSomeOf([
      Option.map(decodeError(said), ({ error }) => error.message),
      Option.map(decodeMessage(said), ({ message }) => message),
      Option.map(decodePlaces(said), (places) =>
        ("message" in places ? places.message : places).detail
          .map(({ loc, msg }) => `${loc.join(".")}: ${msg}`)
          .join("; ")
      )
    ])
  )
}
