import { isSameHost, type Llm, type LlmRequest, originOf, storedIn, type Variables } from "./Llm.ts"
import type { LlmIssue } from "./LlmIssue.ts"
import { type Provider, type ProviderModel, serviceProvider } from "./Provider.ts"

/** What a request to switch comes to. */
export interface LlmChoice {
  readonly provider: Provider
  readonly model: string
  readonly router: Llm["router"]
  readonly baseURL: string | undefined
  readonly maxInputTokens: number | undefined
  /**
   * Whose key: the one that is in force stays (`kept`); that of the request, to be stored (`given`), or the one that is
   * stored already (`stored`), each under the provider's variable; or `none`.
   */
  readonly key: "kept" | "given" | "stored" | "none"
}

export interface Judgement {
  readonly issues: ReadonlyArray<LlmIssue>
  /** Undefined if any issue is an error. */
  readonly choice: LlmChoice | undefined
}

/**
 * Judges provider, model, router, key, address and limits of a request together (decisions 5), against what is in
 * force and what the workspace has stored. What the request leaves open: the model of another provider is its default;
 * a model alone stays with the provider in force if that has it, else goes to the one other provider that lists it.
 */
export const judge = (
  request: LlmRequest,
  current: Llm,
  providers: ReadonlyArray<Provider>,
  variables: Variables
): Judgement => {
  const id = request.provider ?? providerFor(request.model, current, providers)
  const provider = providers.find((each) => each.id === id)
  if (provider === undefined) {
    const known = providers.map((each) => each.id)
    const message = `There is no provider ${quoted(id)}. Use one of ${known.join(", ")}.`
    return { issues: [error("unknown_provider", "provider", message, { provider: id, known })], choice: undefined }
  }
  const isOther = provider.id !== current.provider
  const issues: Array<LlmIssue> = []

  const model = request.model ?? (isOther ? defaultOf(provider) : current.model)
  const listed = provider.models.find(({ name }) => name === model)
  if (listed === undefined && (model === undefined || !provider.takesAnyModel)) {
    issues.push(unknownModel(provider, model))
  }

  const router = request.router ?? (provider.routers.includes(current.router) ? current.router : provider.routers[0])
  if (!provider.routers.includes(router)) {
    const supported = provider.routers
    const message = `${provider.name} is not reached by the router ${quoted(router)}, only by ${supported.join(", ")}.`
    issues.push(
      error("router_not_supported", "router", message, { provider: provider.id, router, supported: [...supported] })
    )
  }

  const baseURL = addressFor(request, current, provider, variables)
  const misled = addressIssues(request, provider, baseURL)
  const keyed = keyFor(request, current, provider, misled.length === 0 ? { baseURL } : undefined, variables)
  issues.push(...misled, ...keyed.issues)

  const { issues: limitIssues, maxInputTokens } = limitFor(request, current, isOther || model !== current.model, listed)
  issues.push(...limitIssues)

  return model === undefined || issues.some(({ severity }) => severity === "error")
    ? { issues, choice: undefined }
    : { issues, choice: { provider, model, router, baseURL, maxInputTokens, key: keyed.key } }
}

/** Which provider a request without one means. */
const providerFor = (model: string | undefined, current: Llm, providers: ReadonlyArray<Provider>): string => {
  const lists = (provider: Provider) => provider.models.some(({ name }) => name === model)
  const inForce = providers.find(({ id }) => id === current.provider)
  if (model === undefined || inForce === undefined || inForce.takesAnyModel || lists(inForce)) return current.provider
  // What this gateway serves bears the names of its vendors' models: a provider's own name is the nearer meaning.
  const [only, ...others] = providers.filter((provider) => provider.id !== serviceProvider && lists(provider))
  return only !== undefined && others.length === 0 ? only.id : current.provider
}

const defaultOf = ({ models }: Provider): string | undefined => models.find(({ isDefault }) => isDefault)?.name

const unknownModel = (provider: Provider, model: string | undefined): LlmIssue =>
  model === undefined
    ? error("unknown_model", "model", `${provider.name} has no default model: give one.`, { provider: provider.id })
    : error(
        "unknown_model",
        "model",
        `${provider.name} has no model ${quoted(model)}. GET /api/llm/catalog?provider=${provider.id} lists its models.`,
        { provider: provider.id, model }
      )

/** What the request asks for, or what was in force; another model may take less than the one before. */
const limitFor = (
  request: LlmRequest,
  current: Llm,
  isOther: boolean,
  listed: ProviderModel | undefined
): { readonly maxInputTokens: number | undefined; readonly issues: ReadonlyArray<LlmIssue> } => {
  const maxInputTokens = request.maxInputTokens ?? current.maxInputTokens
  if (listed === undefined || maxInputTokens === undefined || maxInputTokens <= listed.maxInputTokens) {
    return { maxInputTokens, issues: [] }
  }
  const context = { model: listed.name, maxInputTokens, limit: listed.maxInputTokens }
  const most = `${listed.displayName} takes at most ${listed.maxInputTokens} input tokens`
  const issue = (message: string) => error("max_input_tokens_exceeded", "maxInputTokens", message, context)
  return request.maxInputTokens === undefined && isOther
    ? {
        maxInputTokens: undefined,
        issues: [{ ...issue(`${most}: the limit of ${maxInputTokens} is dropped.`), severity: "warning" }]
      }
    : { maxInputTokens, issues: [issue(`${most}, not ${maxInputTokens}.`)] }
}

/** Where the provider is: as asked for, as before, or where its stored key is for. Undefined: at its own address. */
const addressFor = (
  request: LlmRequest,
  current: Llm,
  { baseUrlVariable, id }: Provider,
  variables: Variables
): string | undefined =>
  request.baseURL ?? (id === current.provider ? current.baseURL : undefined) ?? storedIn(variables, baseUrlVariable)

const addressIssues = (
  request: LlmRequest,
  provider: Provider,
  baseURL: string | undefined
): ReadonlyArray<LlmIssue> => {
  const issue = (code: LlmIssue["code"], message: string) => [
    error(code, "baseURL", message, { provider: provider.id })
  ]
  if (!provider.takesBaseURL) {
    return request.baseURL === undefined
      ? []
      : issue(
          "base_url_not_supported",
          `${provider.name} has an address of its own. For another one use the provider openai-compatible.`
        )
  }
  if (baseURL === undefined) {
    return issue("base_url_required", `${provider.name} needs a baseURL, such as http://127.0.0.1:11434/v1.`)
  }
  return originOf(baseURL) === undefined
    ? issue("base_url_not_supported", "A baseURL is an http or https address without user and password.")
    : []
}

/** A stored key is never sent to another host than the one that it was stored for (decisions 10). */
const keyFor = (
  request: LlmRequest,
  current: Llm,
  provider: Provider,
  address: { readonly baseURL: string | undefined } | undefined,
  variables: Variables
): { readonly key: LlmChoice["key"]; readonly issues: ReadonlyArray<LlmIssue> } => {
  const { baseUrlVariable, id, keyVariable, name, needsKey, takesBaseURL } = provider
  if (keyVariable === undefined) return { key: "none", issues: [] }
  if (request.apiKey !== undefined) return { key: "given", issues: [] }
  const isInForce = id === current.provider && current.apiKey !== ""
  const isStored = storedIn(variables, keyVariable) !== undefined
  if (isInForce || isStored) {
    // An address that cannot be used is an issue of its own.
    if (address === undefined) return { key: "none", issues: [] }
    if (isInForce && isSameHost(address.baseURL, current.baseURL)) return { key: "kept", issues: [] }
    const storedFor = storedIn(variables, baseUrlVariable)
    // One that was stored before any address was known is for the first one, unless it is in force for another.
    const isForHost =
      storedFor === undefined
        ? takesBaseURL
          ? !isInForce
          : address.baseURL === undefined
        : isSameHost(address.baseURL, storedFor)
    if (isStored && isForHost) return { key: "stored", issues: [] }
  } else if (!needsKey) return { key: "none", issues: [] }
  const message =
    isInForce || isStored
      ? `The stored key of ${name} is for another host. Give the apiKey for this one.`
      : `There is no key of ${name}. Give apiKey, or save one by POST /api/llm/key.`
  return { key: "none", issues: [error("missing_api_key", "apiKey", message, { provider: id, envVar: keyVariable })] }
}

/**
 * The addresses that keys are to be stored for from now on, by their variables: that of a key which is chosen, and that
 * of the stored key which was in force until now, so that it does not count as free for any host.
 */
export const bindings = (
  choice: LlmChoice,
  current: Llm,
  providers: ReadonlyArray<Provider>,
  variables: Variables
): ReadonlyMap<string, string> => {
  const bound = new Map<string, string>()
  const before = providers.find(({ id }) => id === current.provider)
  const isStored = current.apiKey !== "" && current.apiKey === storedIn(variables, before?.keyVariable)
  if (before?.baseUrlVariable !== undefined && current.baseURL !== undefined && isStored) {
    if (storedIn(variables, before.baseUrlVariable) === undefined) bound.set(before.baseUrlVariable, current.baseURL)
  }
  const { baseUrlVariable } = choice.provider
  if (baseUrlVariable === undefined || choice.baseURL === undefined) return bound
  const isFree = choice.key === "stored" && storedIn(variables, baseUrlVariable) === undefined
  return choice.key === "given" || isFree ? bound.set(baseUrlVariable, choice.baseURL) : bound
}

const error = (
  code: LlmIssue["code"],
  field: keyof LlmRequest,
  message: string,
  context: LlmIssue["context"]
): LlmIssue => ({ code, message, severity: "error", path: [field], context })

const quoted = (text: string): string => JSON.stringify(text)
