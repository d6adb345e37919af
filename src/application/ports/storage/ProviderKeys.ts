import { Context, type Effect, type Option } from "effect"
import type { ProviderKey, ProviderName } from "../../../domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"
import type { SealedText } from "../runtime/Secrets.ts"

/** A key with its text, which no store can read. */
export interface StoredProviderKey {
  readonly key: ProviderKey
  readonly sealed: SealedText
}

/** Where organizations' own provider keys are kept: one of each provider. */
export class ProviderKeys extends Context.Service<
  ProviderKeys,
  {
    /** Takes the place of the organization's earlier key of this provider. */
    readonly put: (stored: StoredProviderKey) => Effect.Effect<void>
    /** In the order of the providers' names. */
    readonly list: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<StoredProviderKey>>
    /** What was removed; none if there was no such key. */
    readonly remove: (organization: OrganizationId, provider: ProviderName) => Effect.Effect<Option.Option<ProviderKey>>
  }
>()("gateway/ports/storage/ProviderKeys") {}
