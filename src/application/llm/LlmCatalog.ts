import { Context, Effect, Layer, Option, Redacted } from "effect"
import type { Router } from "../../domain/agent/AgentConfig.ts"
import type { Model } from "../../domain/catalog/Model.ts"
import { storedIn, type Variables } from "../../domain/llm/Llm.ts"
import { type FileType, fileTypesOf, type Provider, serviceProvider } from "../../domain/llm/Provider.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Environment } from "../agent/Environment.ts"
import { Models } from "../catalog/Models.ts"
import { ModelCatalog } from "../ports/vendor/ModelCatalog.ts"
import { Providers } from "../ports/vendor/Providers.ts"

/** What a listing is narrowed to (section 4.6); all of it together. */
export interface CatalogFilter {
  /** Ids; one that does not exist matches nothing. */
  readonly providers?: ReadonlyArray<string> | undefined
  readonly hasKey?: boolean | undefined
  readonly router?: Router | undefined
  readonly fileType?: FileType | undefined
  readonly defaultOnly?: boolean | undefined
}

/** A provider with the models that passed. */
export interface ListedProvider extends Provider {
  /** True as well of one that needs no key. */
  readonly hasKey: boolean
}

/** Which models agents of a workspace can use, from every provider (section 2.11). */
export class LlmCatalog extends Context.Service<
  LlmCatalog,
  {
    /** Every vendor, and this gateway itself with what it serves to the workspace's organization. */
    readonly providers: (workspace: OrganizationId) => Effect.Effect<ReadonlyArray<Provider>>
    /** A provider whose models were all filtered out is left out. */
    readonly list: (workspace: OrganizationId, filter: CatalogFilter) => Effect.Effect<ReadonlyArray<ListedProvider>>
  }
>()("gateway/llm/LlmCatalog") {
  static readonly layer = Layer.effect(
    LlmCatalog,
    Effect.gen(function* () {
      const { vendors } = yield* Providers
      const models = yield* Models
      const catalog = yield* ModelCatalog
      const environment = yield* Environment

      /** `Models` gives the same list for the same models, so each is described once. */
      const described = new WeakMap<ReadonlyArray<Model>, ReadonlyArray<Provider>>()

      const providers = Effect.fn("LlmCatalog.providers")(function* (workspace: OrganizationId) {
        const served = yield* models.list(workspace)
        const made = described.get(served) ?? [...vendors, serviceOf(served, catalog, vendors)]
        described.set(served, made)
        return made
      })

      const list = Effect.fn("LlmCatalog.list")(function* (workspace: OrganizationId, filter: CatalogFilter) {
        const variables = plain(yield* environment.variables(workspace))
        return (yield* providers(workspace)).flatMap((provider) => narrowed(provider, filter, variables))
      })

      return LlmCatalog.of({ providers, list })
    })
  )
}

/** For judging and comparing only: what is told or logged of a variable is its name. */
export const plain = (variables: ReadonlyMap<string, Redacted.Redacted>): Variables =>
  new Map([...variables].map(([name, value]) => [name, Redacted.value(value)]))

const narrowed = (
  provider: Provider,
  { defaultOnly, fileType, hasKey, providers, router }: CatalogFilter,
  variables: Variables
): ReadonlyArray<ListedProvider> => {
  const { id, keyVariable, needsKey, routers } = provider
  const isKeyed = !needsKey || storedIn(variables, keyVariable) !== undefined
  if (providers !== undefined && !providers.includes(id)) return []
  if (hasKey !== undefined && hasKey !== isKeyed) return []
  if (router !== undefined && !routers.includes(router)) return []
  const models = provider.models.filter(
    ({ fileTypes, isDefault }) =>
      (fileType === undefined || fileTypes.includes(fileType)) && (defaultOnly !== true || isDefault)
  )
  // One that lists no model, as it takes any, is no less there for that.
  const isAsked = fileType !== undefined || defaultOnly === true
  return isAsked && models.length === 0 ? [] : [{ ...provider, models, hasKey: isKeyed }]
}

/** This gateway as a provider of what it serves: without a key, since the workspace's own credit and keys pay. */
const serviceOf = (
  served: ReadonlyArray<Model>,
  catalog: ModelCatalog["Service"],
  vendors: ReadonlyArray<Provider>
): Provider => {
  const models = served.map((model) => {
    const [route] = Option.match(catalog.find(model.id), { onNone: () => [], onSome: ({ routes }) => routes })
    const vendor = vendors.find(({ id }) => id === route?.upstream)
    return {
      name: model.id,
      displayName: model.name,
      maxInputTokens: model.maxInputTokens,
      maxOutputTokens: model.maxOutputTokens,
      supportsToolCall: model.supportsToolCall,
      fileTypes: fileTypesOf(model.input, vendor?.reads),
      /** Where its vendor stands in the order of vendors, if it is that one's default. */
      rank: vendor?.models.some(({ isDefault, name }) => isDefault && name === route?.upstreamModel)
        ? vendors.indexOf(vendor)
        : vendors.length
    }
  })
  const least = Math.min(...models.map(({ rank }) => rank))
  const chosen = models.find(({ rank }) => rank === least)
  return {
    id: serviceProvider,
    name: "This gateway",
    keyVariable: undefined,
    needsKey: false,
    // The Vercel AI SDK would go out over HTTP and come in again.
    routers: ["in-built"],
    takesBaseURL: false,
    baseUrlVariable: undefined,
    takesAnyModel: false,
    reads: { pdf: "none", audio: "none" },
    models: models.map(({ rank: _rank, ...model }) => ({ ...model, isDefault: model.name === chosen?.name }))
  }
}
