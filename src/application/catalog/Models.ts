import { Context, Effect, Layer, Option, type Redacted } from "effect"
import type { AccessMethod } from "../../domain/catalog/AccessMethod.ts"
import { AccessMethodNotOffered, ModelNotFound, NoKeyForAccessMethod } from "../../domain/catalog/CatalogErrors.ts"
import type { Model } from "../../domain/catalog/Model.ts"
import { type ProviderName, providerOf } from "../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { ProviderKeyRing } from "../identity/ProviderKeyRing.ts"
import { type CatalogEntry, isService, ModelCatalog, type Route } from "../ports/vendor/ModelCatalog.ts"

/** How one request reaches its model. */
export interface ResolvedModel {
  readonly model: Model
  readonly route: Route
  /** The organization's own key; undefined: the operator's, for the access method `service`. */
  readonly apiKey: Redacted.Redacted | undefined
}

/** Which models there are, and how a request reaches one. */
export class Models extends Context.Service<
  Models,
  {
    /**
     * What an organization can use: the models that the operator has a key for, and those that it has a key for itself.
     * A model that nobody has a key for would only be in the way: the packaged catalogue has a hundred of them. The same
     * array for organizations that can use the same.
     */
    readonly list: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<Model>>
    /**
     * Without a method: `service` when the model lists it, else the first listed one for which the organization has a
     * key (decisions 2).
     */
    readonly resolve: (
      id: string,
      method: AccessMethod | undefined,
      organization: OrganizationId
    ) => Effect.Effect<ResolvedModel, ModelNotFound | AccessMethodNotOffered | NoKeyForAccessMethod>
  }
>()("gateway/catalog/Models") {
  static readonly layer = Layer.effect(
    Models,
    Effect.gen(function* () {
      const catalog = yield* ModelCatalog
      const keys = yield* ProviderKeyRing

      /** The answers of `list`, by the providers that decide it. */
      const lists = new Map<string, ReadonlyArray<Model>>()
      const deciding = new Set(catalog.entries.flatMap(ownProviders))

      const list = Effect.fn("Models.list")(function* (organization: OrganizationId) {
        const own = deciding.size === 0 ? [] : yield* keys.providers(organization)
        const opened = own.filter((provider) => deciding.has(provider))
        const name = opened.join(" ")
        const made = lists.get(name) ?? usableWith(catalog.entries, opened)
        lists.set(name, made)
        return made
      })

      const resolve = Effect.fnUntraced(function* (
        id: string,
        method: AccessMethod | undefined,
        organization: OrganizationId
      ) {
        const entry = catalog.find(id)
        if (Option.isNone(entry)) return yield* new ModelNotFound({ model: id })
        const { model, routes } = entry.value
        const wanted = method === undefined ? routes : routes.filter((route) => route.method === method)
        const [first] = wanted
        if (first === undefined) {
          return yield* new AccessMethodNotOffered({
            model: id,
            method: method ?? "service",
            offered: model.accessMethods
          })
        }
        const service = wanted.find(isService)
        if (service !== undefined) return { model, route: service, apiKey: undefined }
        for (const route of wanted) {
          const provider = providerOf(route.method)
          const apiKey = provider === undefined ? Option.none() : yield* keys.find(organization, provider)
          if (Option.isSome(apiKey)) return { model, route, apiKey: apiKey.value }
        }
        return yield* new NoKeyForAccessMethod({ method: first.method })
      })

      return Models.of({ list, resolve })
    })
  ).pipe(Layer.provide(ProviderKeyRing.layer))
}

/** The providers whose keys open a model to an organization; none for a model that is open to all. */
const ownProviders = ({ routes }: CatalogEntry): ReadonlyArray<ProviderName> =>
  routes.some(isService)
    ? []
    : routes.flatMap(({ method }) => {
        const provider = providerOf(method)
        return provider === undefined ? [] : [provider]
      })

const usableWith = (entries: ReadonlyArray<CatalogEntry>, opened: ReadonlyArray<ProviderName>): ReadonlyArray<Model> =>
  entries
    .filter(
      (entry) => entry.routes.some(isService) || ownProviders(entry).some((provider) => opened.includes(provider))
    )
    .map(({ model }) => model)
