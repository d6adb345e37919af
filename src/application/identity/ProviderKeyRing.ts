import { Context, Effect, Layer, Option, Redacted, Schema } from "effect"
import { InvalidProviderKey, NoProviderKey } from "../../domain/identity/IdentityErrors.ts"
import {
  hintOf,
  ProviderKey,
  ProviderKeyText,
  type ProviderName,
  providerOfVariable,
  variableOf
} from "../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import { Environment } from "../agent/Environment.ts"
import type { SecretsUnavailable } from "../ports/runtime/Secrets.ts"

/**
 * The provider keys that organizations have stored for themselves (decisions 2): variables of their workspaces' `.env`,
 * each named after its provider. What is read is at most a second old, so a key that was removed or replaced stops
 * working everywhere well within five; where it was done, at once.
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
    readonly remove: (
      organization: OrganizationId,
      provider: ProviderName
    ) => Effect.Effect<ProviderKey, NoProviderKey | SecretsUnavailable>
    /** The providers that the organization has a key of, in the order of their names. */
    readonly providers: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<ProviderName>>
    /**
     * The text of a key. A `.env` that does not decrypt is a defect: no caller can mend that, and the log tells the
     * operator.
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
      const environment = yield* Environment

      /** One variable. That of a provider has a name that can be written, and a key's text is a value that can. */
      const write = (organization: OrganizationId, provider: ProviderName, text: Redacted.Redacted | null) =>
        environment
          .set(organization, new Map([[variableOf(provider), text]]))
          .pipe(Effect.catchTag("InvalidVariable", Effect.die))

      const list = Effect.fn("ProviderKeyRing.list")(function* (organization: OrganizationId) {
        return keysOf(organization, yield* environment.variables(organization))
      })

      const find = Effect.fnUntraced(function* (organization: OrganizationId, provider: ProviderName) {
        const text = (yield* environment.variables(organization)).get(variableOf(provider))
        return Option.filter(Option.fromUndefinedOr(text), (value) => isKeyText(Redacted.value(value)))
      })

      return ProviderKeyRing.of({
        set: Effect.fn("ProviderKeyRing.set")(function* (organizationId, provider, text) {
          const plain = Redacted.value(text)
          if (!isKeyText(plain)) return yield* new InvalidProviderKey()
          yield* write(organizationId, provider, text)
          return new ProviderKey({ organizationId, provider, hint: hintOf(plain) })
        }),
        list,
        remove: Effect.fn("ProviderKeyRing.remove")(function* (organization, provider) {
          const removed = (yield* list(organization)).find((key) => key.provider === provider)
          if (removed === undefined) return yield* new NoProviderKey({ provider })
          yield* write(organization, provider, null)
          return removed
        }),
        providers: (organization) => Effect.map(list(organization), (keys) => keys.map(({ provider }) => provider)),
        find
      })
    })
  ).pipe(Layer.provide(Environment.layer))
}

const isKeyText = Schema.is(ProviderKeyText)

/** What people wrote into the file and cannot be a key, such as nothing at all, is none. */
const keysOf = (
  organizationId: OrganizationId,
  variables: ReadonlyMap<string, Redacted.Redacted>
): ReadonlyArray<ProviderKey> =>
  [...variables]
    .flatMap(([name, text]) => {
      const provider = providerOfVariable(name)
      const plain = Redacted.value(text)
      return provider === undefined || !isKeyText(plain)
        ? []
        : [new ProviderKey({ organizationId, provider, hint: hintOf(plain) })]
    })
    .sort((one, other) => (one.provider < other.provider ? -1 : 1))
