import { Context, type Option } from "effect"
import type { AccessMethod } from "../../../domain/catalog/AccessMethod.ts"
import type { Model } from "../../../domain/catalog/Model.ts"

/** An upstream, and a model's name there. */
export interface Place {
  readonly upstream: string
  readonly upstreamModel: string
}

/** How one access method reaches a model. */
export interface Route extends Place {
  readonly method: AccessMethod
  /** Where the model is had when the upstream fails, in this order. The operator's own: for `service` only. */
  readonly fallbacks?: ReadonlyArray<Place>
}

/** With the operator's key, against the caller's credit; the others need a key of the caller's organization. */
export const isService = ({ method }: Pick<Route, "method">): boolean => method === "service"

export interface CatalogEntry {
  readonly model: Model
  /** In the order of preference. */
  readonly routes: ReadonlyArray<Route>
}

/** What this deployment can serve, by itself or with an organization's own key, in memory. */
export class ModelCatalog extends Context.Service<
  ModelCatalog,
  {
    readonly entries: ReadonlyArray<CatalogEntry>
    readonly find: (id: string) => Option.Option<CatalogEntry>
  }
>()("gateway/ports/vendor/ModelCatalog") {}
