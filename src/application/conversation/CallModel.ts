import { Array, Context, Effect, Layer, Option, Redacted, type Scope, Schema, Stream } from "effect"
import type { ChatMessage } from "../../domain/completion/ChatMessage.ts"
import { type ChatRequest, outputLimit } from "../../domain/completion/ChatRequest.ts"
import type { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import { Caller, noKey } from "../../domain/identity/ApiKey.ts"
import type { Llm } from "../../domain/llm/Llm.ts"
import {
  type FileType,
  fileTypesOf,
  type Provider,
  type ProviderModel,
  serviceProvider
} from "../../domain/llm/Provider.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { type ChatError, type ChatEvent, CompleteChat } from "../completion/CompleteChat.ts"
import { Egress } from "../ports/runtime/Egress.ts"
import { Members } from "../ports/storage/Members.ts"
import { ExternalModels } from "../ports/vendor/ExternalModels.ts"
import { ModelCatalog } from "../ports/vendor/ModelCatalog.ts"
import { Providers } from "../ports/vendor/Providers.ts"
import { type CallError, Upstreams } from "../ports/vendor/Upstreams.ts"
import { modalityOf } from "./Media.ts"
import type { ModelCapabilities } from "./ModelCapabilities.ts"

/** The model gave no answer, or not all of it. The message is fit for the user; `code` is that of the `error` event. */
export class ModelFailed extends Schema.TaggedError<ModelFailed>()("ModelFailed", {
  code: Schema.String,
  message: Schema.String,
  /** Whether the same message may succeed later. */
  recoverable: Schema.Boolean
}) {}

/**
 * The models of agents (decisions 5, 6): `in-built`, of which provider `service` is metered like any request of the
 * gateway and every other one is called with the organization's own key, and `external-sdk`. Both give the same events.
 */
export class CallModel extends Context.Service<
  CallModel,
  {
    /** What the model takes, as far as the catalogue knows; unknown models are taken to accept everything. */
    readonly capabilities: (llm: Llm) => Effect.Effect<ModelCapabilities>
    /**
     * Succeeds when the first event is there: what fails before is retried as requests of the gateway are. What the model
     * cannot take fails before anything is sent. Closing the scope before the end closes the connection at once.
     */
    readonly stream: (
      call: ModelCall
    ) => Effect.Effect<Stream.Stream<CompletionEvent, ModelFailed>, ModelFailed, Scope.Scope>
  }
>()("gateway/conversation/CallModel") {
  static readonly layer = Layer.effect(
    CallModel,
    Effect.gen(function* () {
      const chat = yield* CompleteChat
      const upstreams = yield* Upstreams
      const external = yield* ExternalModels
      const { vendors } = yield* Providers
      const catalog = yield* ModelCatalog
      const members = yield* Members
      const egress = yield* Egress

      /** What is known of a model. */
      const listedModel = ({ model, provider }: Llm): Listed | undefined => {
        if (provider !== serviceProvider) {
          return vendors.find(({ id }) => id === provider)?.models.find(({ name }) => name === model)
        }
        return Option.getOrUndefined(
          Option.map(catalog.find(model), ({ model, routes }) => ({
            ...model,
            fileTypes: fileTypesOf(model.input, vendors.find(({ id }) => id === routes[0]?.upstream)?.reads)
          }))
        )
      }

      const capabilitiesOf = (llm: Llm): ModelCapabilities => {
        const listed = listedModel(llm)
        const limits = [llm.maxInputTokens, listed?.maxInputTokens].filter((limit) => limit !== undefined)
        return {
          takes: new Set(listed === undefined ? everything : listed.fileTypes.map((type) => modalities[type])),
          tools: listed?.supportsToolCall ?? true,
          maxInputTokens: limits.length === 0 ? undefined : Math.min(...limits)
        }
      }

      /** Who pays for what nobody's key asked for. */
      const owner = Effect.fnUntraced(function* (workspace: OrganizationId) {
        const found = Array.findFirst(yield* members.list(workspace), ({ role }) => role === "owner")
        if (Option.isNone(found)) {
          return yield* failed("invalid_request", "The organization has no owner, who would pay. Add one: members add.")
        }
        const { id: memberId, role } = found.value
        return new Caller({ organizationId: workspace, memberId, role, keyId: noKey })
      })

      /** By this gateway itself: a hold, the answer, one settlement. */
      const metered = Effect.fnUntraced(function* ({ caller, requestId, workspace }: ModelCall, request: ChatRequest) {
        const payer = caller ?? (yield* owner(workspace))
        const events = yield* Effect.mapError(chat.stream({ caller: payer, request, requestId }), chatFailed)
        return events.pipe(Stream.filter(isAnswer), Stream.mapError(chatFailed))
      })

      /** Where the provider is if not at its own address. */
      const address = Effect.fnUntraced(function* ({ baseURL }: Llm, { name, takesBaseURL }: Provider) {
        if (baseURL === undefined) {
          return takesBaseURL
            ? yield* failed("invalid_request", `${name} needs the address of a server: llm.baseURL of the agent.`)
            : undefined
        }
        yield* Effect.mapError(egress.check(baseURL), ({ message }) => failed("invalid_request", message))
        return baseURL
      })

      /** With the organization's own key, which costs no credit. */
      const own = Effect.fnUntraced(function* ({ llm, requestId }: ModelCall, request: ChatRequest) {
        const provider = vendors.find(({ id }) => id === llm.provider)
        if (provider === undefined) {
          return yield* failed("unknown_model", `There is no provider ${JSON.stringify(llm.provider)}.`)
        }
        const baseUrl = yield* address(llm, provider)
        if (llm.apiKey === "" && provider.needsKey) return yield* failed("missing_api_key", withoutKey(provider, llm))
        const apiKey = llm.apiKey === "" ? undefined : Redacted.make(llm.apiKey)
        const limit = outputLimit(request) ?? listedModel(llm)?.maxOutputTokens ?? usualOutput
        const opened =
          llm.router === "external-sdk"
            ? external.stream({ provider: provider.id, request, apiKey, baseUrl, outputLimit: limit })
            : upstreams.stream({
                route: { upstream: provider.id, upstreamModel: llm.model },
                request,
                apiKey,
                provider: { baseUrl },
                outputCap: undefined,
                outputLimit: limit
              })
        const told = (error: CallError) => ownFailed(error, provider, llm)
        const logged = (error: CallError) => logFailure(error, requestId)
        const events = yield* opened.pipe(Effect.tapError(logged), Effect.mapError(told))
        return events.pipe(
          Stream.tapError((error: UpstreamFailed) => logged(error)),
          Stream.mapError(told)
        )
      })

      return CallModel.of({
        capabilities: (llm) => Effect.sync(() => capabilitiesOf(llm)),
        stream: Effect.fn("CallModel.stream")(function* (call) {
          const { llm } = call
          const missing = missingFor(call.request, capabilitiesOf(llm))
          if (missing.length > 0) return yield* failed("unsupported_input", cannotTake(llm, missing))
          const request = requestOf(call)
          return yield* llm.provider === serviceProvider ? metered(call, request) : own(call, request)
        })
      })
    })
  )
}

type Listed = Pick<ProviderModel, "maxInputTokens" | "maxOutputTokens" | "supportsToolCall" | "fileTypes">

const modalities = { pdf: "file", audio: "audio", image: "image" } as const satisfies Record<FileType, string>

const everything = Object.values(modalities)

/** Output tokens, for wires that must be told a limit, of a model of which none is known. */
const usualOutput = 8_192

const requestOf = ({ llm, request }: ModelCall): ChatRequest => ({
  ...(llm.temperature === undefined ? {} : { temperature: llm.temperature }),
  ...(llm.maxOutputTokens === undefined || outputLimit(request) !== undefined
    ? {}
    : { max_completion_tokens: llm.maxOutputTokens }),
  ...request,
  model: llm.model,
  stream: true
})

const isAnswer = (event: ChatEvent): event is CompletionEvent => event._tag !== "Settled"

// -- What a model cannot take -----------------------------------------------------------------------------------------

type Need = "image" | "file" | "audio" | "tools"

/** What a request needs of its model and the model has not. */
const missingFor = (request: ModelCall["request"], { takes, tools }: ModelCapabilities): ReadonlyArray<Need> => {
  const needs = new Set<Need>(request.messages.flatMap(modalitiesOf))
  if ((request.tools ?? []).length > 0) needs.add("tools")
  return [...needs].filter((need) => (need === "tools" ? !tools : !takes.has(need)))
}

const modalitiesOf = ({ content }: ChatMessage): ReadonlyArray<"image" | "file" | "audio"> =>
  typeof content === "string" || content === null || content === undefined
    ? []
    : content.flatMap((part) => {
        switch (part.type) {
          case "text":
          case "refusal":
            return []
          case "image":
          case "image_url":
            return ["image"]
          case "input_audio":
            return ["audio"]
          case "media":
            return [modalityOf(part.mediaType)]
          case "file":
            return ["data" in part ? modalityOf(part.mimeType) : "file"]
        }
      })

const names: Readonly<Record<Need, string>> = { image: "images", file: "files", audio: "audio", tools: "tools" }

const cannotTake = ({ model }: Llm, missing: ReadonlyArray<Need>): string =>
  `The model ${JSON.stringify(model)} takes no ${missing.map((need) => names[need]).join(" and no ")}. ` +
  "Choose one that does: GET /api/llm/catalog lists what models take."

// -- Failures ---------------------------------------------------------------------------------------------------------

/** Codes that waiting, or nothing but another try, may mend. */
const failed = (code: ModelFailed["code"], message: string, recoverable = false): ModelFailed =>
  new ModelFailed({ code, message, recoverable })

const withoutKey = ({ keyVariable, name }: Provider, { baseURL, provider }: Llm): string =>
  baseURL === undefined
    ? `There is no key of ${name}. Save one by POST /api/llm/key, as ${JSON.stringify({ provider })} with its apiKey.`
    : `There is no key of ${name} for ${new URL(baseURL).origin}: a stored key goes to no other host than its own. ` +
      `Give the apiKey for this one by POST /api/llm/switch, or set ${keyVariable}.`

/** What goes wrong with a request of the gateway. */
const chatFailed = (error: ChatError): ModelFailed => {
  const { message } = error
  switch (error._tag) {
    case "ModelNotFound":
      return failed("unknown_model", message)
    case "NoKeyForAccessMethod":
      return failed("missing_api_key", message)
    case "InsufficientCredits":
      return failed("insufficient_credits", message)
    case "RateLimited":
      return failed("rate_limited", message, true)
    case "AccessMethodNotOffered":
    case "InvalidRequest":
    case "UpstreamRefused":
      return failed("invalid_request", message)
    case "UpstreamFailed":
      return failed(error.reason === "rate_limited" ? "rate_limited" : "upstream_error", message, error.retryable)
  }
}

/** What goes wrong at a provider that the organization has the key of: it can mend what else the operator has to. */
const ownFailed = (error: CallError, { keyVariable, name }: Provider, { model }: Llm): ModelFailed => {
  if (error._tag !== "UpstreamFailed") return failed("invalid_request", error.message)
  switch (error.reason) {
    case "credentials_refused":
      return failed(
        "upstream_error",
        `${name} refuses the key of this agent, or its account has no credit. Look at ${keyVariable}; ` +
          "POST /api/llm/key replaces it."
      )
    case "rate_limited":
      return failed("rate_limited", `${name} takes no more requests of this key for now. Try again later.`, true)
    case "unexpected_status":
      return failed("upstream_error", `${name} does not know the model ${JSON.stringify(model)} at its address.`)
    default:
      return failed("upstream_error", `${name} failed (${error.reason.replaceAll("_", " ")}). Try again.`, true)
  }
}

const logFailure = (error: CallError, requestId: string): Effect.Effect<void> =>
  error._tag === "UpstreamFailed"
    ? Effect.logWarning("A provider that an agent uses failed.", {
        requestId,
        provider: error.upstream,
        reason: error.reason,
        detail: error.detail
      })
    : Effect.void

export interface ModelCall {
  readonly workspace: OrganizationId
  /** As it is in force for the session: `EffectiveLlm.of`. */
  readonly llm: Llm
  /** Who pays for provider `service`; null while the runtime is open: the organization's owner. */
  readonly caller: Caller | null
  readonly requestId: string
  /** The model is that of `llm`, as are limits and temperature. */
  readonly request: Omit<ChatRequest, "model" | "stream" | "stream_options">
}
