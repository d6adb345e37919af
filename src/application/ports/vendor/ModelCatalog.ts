import { Context, type Option } from "effect"
import type { AccessMethod } from "../../../domain/catalog/AccessMethod.ts"
import type { Model } from "../../../domain/catalog/Model.ts"

/** How one access method reaches a model: an upstream, and the model's name there. */
export interface Route {
  readonly method: AccessMethod
  readonly upstream: string
  readonly upstreamModel: string
}

export interface CatalogEntry {
  readonly model: Model
  readonly routes: ReadonlyArray<Route>
}

/** What this deployment can serve, in memory. */
export class ModelCatalog extends Context.Service<
  ModelCatalog,
  {
    readonly entries: ReadonlyArray<CatalogEntry>
    readonly find: (id: string) => Option.Option<CatalogEntry>
  }
>()("gateway/ports/vendor/ModelCatalog") {}
