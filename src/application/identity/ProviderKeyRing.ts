import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { InvalidProviderKey, NoProviderKey } from "../../domain/identity/IdentityErrors.ts"
import { hintOf, ProviderKey, ProviderKeyText, type ProviderName } from "../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Secrets, type SecretsUnavailable } from "../ports/runtime/Secrets.ts"
import { ProviderKeys, type StoredProviderKey } from "../ports/storage/ProviderKeys.ts"

/**
 * The provider keys that organizations have stored for themselves (decisions 2). What requests look up is remembered
 * for two seconds, so a key that was removed or replaced stops working everywhere well within five; where it was done,
 * at once.
 */
export class ProviderKeyRing extends Context.Service<
  ProviderKeyRing,
  {
    /** Stores a key, in place of an earlier one of the same provider. */
    readonly set: (
      organization: OrganizationId,
      provider: ProviderName,
      text: Redacted.Redacted
    ) => Effect.Effect<ProviderKey, InvalidProviderKey | SecretsUnavailable>
    /** In the order of the providers' names. */
    readonly list: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<ProviderKey>>
    readonly remove: (organization: OrganizationId, provider: ProviderName) => Effect.Effect<ProviderKey, NoProviderKey>
    /** The providers that the organization has a key of; at most two seconds old. */
    readonly providers: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<ProviderName>>
    /**
     * The text of a key; at most two seconds old. One that does not decrypt is a defect: no caller can mend that, and
     * the log tells the operator.
     */
    readonly find: (
      organization: OrganizationId,
      provider: ProviderName
    ) => Effect.Effect<Option.Option<Redacted.Redacted>>
  }
>()("gateway/identity/ProviderKeyRing") {
  static readonly layer = Layer.effect(
    ProviderKeyRing,
    Effect.gen(function* () {
      const keys = yield* ProviderKeys
      const secrets = yield* Secrets

      const known = yield* Cache.makeWith(keys.list, {
        capacity: 10_000,
        // A look-up that failed, since the store was away, says nothing of the keys.
        timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.seconds(2) : Duration.zero)
      })

      const set = Effect.fn("ProviderKeyRing.set")(function* (
        organizationId: OrganizationId,
        provider: ProviderName,
        text: Redacted.Redacted
      ) {
        const plain = Redacted.value(text)
        if (!isKeyText(plain)) return yield* new InvalidProviderKey()
        const sealed = yield* secrets.seal(text, ownerOf(organizationId, provider))
        const createdAt = yield* Clock.currentTimeMillis
        const key = new ProviderKey({ organizationId, provider, hint: hintOf(plain), createdAt })
        yield* Effect.ensuring(keys.put({ key, sealed }), Cache.invalidate(known, organizationId))
        return key
      })

      const list = Effect.fn("ProviderKeyRing.list")(function* (organization: OrganizationId) {
        return (yield* keys.list(organization)).map(({ key }) => key)
      })

      const remove = Effect.fn("ProviderKeyRing.remove")(function* (
        organization: OrganizationId,
        provider: ProviderName
      ) {
        const forget = Cache.invalidate(known, organization)
        const removed = yield* Effect.ensuring(keys.remove(organization, provider), forget)
        return yield* Option.match(removed, {
          onNone: () => Effect.fail(new NoProviderKey({ provider })),
          onSome: Effect.succeed
        })
      })

      const find = Effect.fnUntraced(function* (organization: OrganizationId, provider: ProviderName) {
        const stored = (yield* Cache.get(known, organization)).find(({ key }) => key.provider === provider)
        if (stored === undefined) return Option.none<Redacted.Redacted>()
        return Option.some(yield* secrets.open(stored.sealed, ownerOf(organization, provider)))
      }, Effect.orDie)

      return ProviderKeyRing.of({
        set,
        list,
        remove,
        providers: (organization) => Effect.map(Cache.get(known, organization), providersOf),
        find
      })
    })
  )
}

const isKeyText = Schema.is(ProviderKeyText)

/** A key that is moved to another organization or provider does not open there. */
const ownerOf = (organization: OrganizationId, provider: ProviderName): ReadonlyArray<string> => [
  "provider-key",
  organization,
  provider
]

const providersOf = (stored: ReadonlyArray<StoredProviderKey>): ReadonlyArray<ProviderName> =>
  stored.map(({ key }) => key.provider)
