import { type Redacted, Schema } from "effect"
import { type AgentConfig, Router } from "../agent/AgentConfig.ts"
import type { Provider } from "./Provider.ts"

/** What of an agent's configuration says which model answers, expanded (decisions 4). */
export type Llm = AgentConfig["llm"]

/** What a switch asks for (section 4.6): what is not given stays, or follows from the rest. */
export interface LlmRequest {
  readonly provider?: string | undefined
  readonly model?: string | undefined
  readonly router?: Router | undefined
  readonly apiKey?: Redacted.Redacted | undefined
  readonly baseURL?: string | undefined
  readonly maxInputTokens?: number | undefined
}

/** A session's own choice, in place of the agent's (decisions 5). It has no key, only the name of its variable. */
export const LlmOverride = Schema.Struct({
  provider: Schema.NonEmptyString,
  model: Schema.NonEmptyString,
  router: Router,
  baseURL: Schema.NullOr(Schema.NonEmptyString),
  maxInputTokens: Schema.NullOr(Schema.Int.check(Schema.isGreaterThan(0))),
  /** Of the workspace's `.env`; null: the agent's own key, as long as it is for the same provider and host. */
  keyVariable: Schema.NullOr(Schema.NonEmptyString)
})
export type LlmOverride = typeof LlmOverride.Type

/** The values of a workspace's `.env`. */
export type Variables = ReadonlyMap<string, string>

/** A variable's value; an empty one is as good as none. */
export const storedIn = (variables: Variables, variable: string | undefined): string | undefined =>
  variable === undefined || variables.get(variable) === "" ? undefined : variables.get(variable)

/** Where a base URL leads: what its key may be sent to. Undefined for what is no http or https URL without a user. */
export const originOf = (baseURL: string): string | undefined => {
  if (!URL.canParse(baseURL)) return undefined
  const { origin, password, protocol, username } = new URL(baseURL)
  return (protocol === "http:" || protocol === "https:") && username === "" && password === "" ? origin : undefined
}

/** Whether two calls go to the same host: that of the provider itself where there is no base URL. */
export const isSameHost = (a: string | undefined, b: string | undefined): boolean =>
  a === undefined || b === undefined ? a === b : originOf(a) !== undefined && originOf(a) === originOf(b)

/** An agent's settings as they hold for a session with a choice of its own. */
export const overridden = (llm: Llm, override: LlmOverride, variables: Variables): Llm => {
  const { keyVariable, model, provider, router } = override
  const baseURL = override.baseURL ?? undefined
  const isAgents = provider === llm.provider && isSameHost(baseURL, llm.baseURL)
  return {
    ...llm,
    provider,
    model,
    router,
    baseURL,
    maxInputTokens: override.maxInputTokens ?? undefined,
    apiKey: keyVariable !== null ? (storedIn(variables, keyVariable) ?? "") : isAgents ? llm.apiKey : ""
  }
}

/**
 * What is in force for settings that leave their key or address to the workspace's `.env`. A stored key is never sent to
 * another host than the one that it was stored for (decisions 10), nor to another provider: there it is as if there were
 * none.
 */
export const completed = (llm: Llm, providers: ReadonlyArray<Provider>, variables: Variables): Llm => {
  const provider = providers.find(({ id }) => id === llm.provider)
  const key = storedIn(variables, provider?.keyVariable)
  const storedFor = storedIn(variables, provider?.baseUrlVariable)
  const baseURL = llm.baseURL ?? storedFor
  const apiKey = llm.apiKey === "" ? (key ?? "") : llm.apiKey
  const isForHost =
    apiKey !== key
      ? isNobodysElse(apiKey, baseURL, providers, variables)
      : storedFor === undefined
        ? provider?.takesBaseURL === true || baseURL === undefined
        : isSameHost(baseURL, storedFor)
  return { ...llm, baseURL, apiKey: isForHost ? apiKey : "" }
}

/** Whether a key that is not the provider's stored one is that of no other provider, or is for this very host. */
const isNobodysElse = (
  apiKey: string,
  baseURL: string | undefined,
  providers: ReadonlyArray<Provider>,
  variables: Variables
): boolean => {
  const owners = providers.filter(({ keyVariable }) => apiKey !== "" && storedIn(variables, keyVariable) === apiKey)
  return (
    owners.length === 0 ||
    owners.some(({ baseUrlVariable }) => {
      const storedFor = storedIn(variables, baseUrlVariable)
      return storedFor !== undefined && isSameHost(baseURL, storedFor)
    })
  )
}
