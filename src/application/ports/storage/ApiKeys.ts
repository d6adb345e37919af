import { Context, type Effect, type Option } from "effect"
import type { ApiKey, Caller } from "../../../domain/identity/ApiKey.ts"
import type { ApiKeyId, OrganizationId } from "../../../domain/shared/Ids.ts"

/** Where API keys are kept, by the digest of their text. Oldest first in every listing. */
export class ApiKeys extends Context.Service<
  ApiKeys,
  {
    readonly insert: (key: ApiKey, digest: string) => Effect.Effect<void>
    /** The key with this digest, also when it is expired or revoked. */
    readonly findByDigest: (digest: string) => Effect.Effect<Option.Option<FoundKey>>
    readonly list: (organization: OrganizationId) => Effect.Effect<ReadonlyArray<ApiKey>>
    /** Sets the time of revocation, once; none if no key has this id. */
    readonly revoke: (id: ApiKeyId, at: number) => Effect.Effect<Option.Option<ApiKey>>
  }
>()("gateway/ports/storage/ApiKeys") {}

export interface FoundKey {
  readonly key: ApiKey
  /** Whom it stands for. */
  readonly caller: Caller
  /** How long it may be used, in milliseconds from now by the store's clock; 0 once it is expired or revoked. */
  readonly usableFor: number
}
