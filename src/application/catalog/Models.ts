import { Context, Effect, Layer, Option } from "effect"
import type { AccessMethod } from "../../domain/catalog/AccessMethod.ts"
import { AccessMethodNotOffered, ModelNotFound } from "../../domain/catalog/CatalogErrors.ts"
import type { Model } from "../../domain/catalog/Model.ts"
import { ModelCatalog, type Route } from "../ports/vendor/ModelCatalog.ts"

/** Which models there are, and how a request reaches one. */
export class Models extends Context.Service<
  Models,
  {
    readonly list: ReadonlyArray<Model>
    /** Without a method: `service` when the model lists it, else its first one (decisions 2). */
    readonly resolve: (
      id: string,
      method: AccessMethod | undefined
    ) => Effect.Effect<{ readonly model: Model; readonly route: Route }, ModelNotFound | AccessMethodNotOffered>
  }
>()("gateway/catalog/Models") {
  static readonly layer = Layer.effect(
    Models,
    Effect.gen(function* () {
      const catalog = yield* ModelCatalog

      const resolve = Effect.fnUntraced(function* (id: string, method: AccessMethod | undefined) {
        const entry = catalog.find(id)
        if (Option.isNone(entry)) return yield* new ModelNotFound({ model: id })
        const { model, routes } = entry.value
        const route =
          method === undefined
            ? (routes.find((route) => route.method === "service") ?? routes[0])
            : routes.find((route) => route.method === method)
        if (route === undefined) {
          return yield* new AccessMethodNotOffered({
            model: id,
            method: method ?? "service",
            offered: model.accessMethods
          })
        }
        return { model, route }
      })

      return Models.of({ list: catalog.entries.map(({ model }) => model), resolve })
    })
  )
}
