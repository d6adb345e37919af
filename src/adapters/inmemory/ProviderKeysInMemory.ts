import { Array, Effect, Layer, Option, Order } from "effect"
import { ProviderKeys, type StoredProviderKey } from "../../application/ports/storage/ProviderKeys.ts"
import type { ProviderName } from "../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { State } from "./State.ts"

const byProvider = Order.mapInput(Order.String, ({ key }: StoredProviderKey) => key.provider)

export const layer = Layer.effect(
  ProviderKeys,
  Effect.gen(function* () {
    const { organizations } = yield* State
    const stored = new Map<OrganizationId, Map<ProviderName, StoredProviderKey>>()

    return ProviderKeys.of({
      put: ({ key, sealed }) =>
        Effect.suspend(() => {
          const { organizationId, provider } = key
          if (!organizations.has(organizationId)) return Effect.die(new Error(`no organization ${organizationId}`))
          const own = stored.get(organizationId) ?? new Map<ProviderName, StoredProviderKey>()
          stored.set(organizationId, own.set(provider, { key, sealed }))
          return Effect.void
        }),
      list: (organization) => Effect.sync(() => Array.sort(stored.get(organization)?.values() ?? [], byProvider)),
      remove: (organization, provider) =>
        Effect.sync(() => {
          const removed = stored.get(organization)?.get(provider)
          stored.get(organization)?.delete(provider)
          return Option.map(Option.fromUndefinedOr(removed), ({ key }) => key)
        })
    })
  })
)
