import { Context, type Effect, Schema } from "effect"

/** A caller chose an address that this service does not call (decisions 10). */
export class ForbiddenAddress extends Schema.TaggedError<ForbiddenAddress>()("ForbiddenAddress", {
  host: Schema.String
}) {
  override get message() {
    return (
      `${this.host} is not an address that this service calls: only http and https at public addresses, and at no port ` +
      "of another protocol. An operator allows private addresses with ALLOW_PRIVATE_UPSTREAMS=true."
    )
  }
}

/**
 * Calls to addresses that a caller chose (decisions 10): never to this machine, to private networks or to a cloud's
 * metadata, by whatever name or form of writing, unless the operator allows it.
 */
export class Egress extends Context.Service<
  Egress,
  {
    /** Whether the address may be called as far as it can be known now. A name that cannot be resolved passes. */
    readonly check: (url: string) => Effect.Effect<void, ForbiddenAddress>
    /**
     * `fetch`, for the libraries that take one. It looks at the address that each connection goes to in the end, also
     * after a redirect, and rejects with `ForbiddenAddress`. A redirect to another host takes no header along that could
     * be a key.
     */
    readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>
    /**
     * The addresses of a host, at least one, for who connects by himself and to nothing else. Rejects with
     * `ForbiddenAddress` if one of them may not be called, and as the resolver does.
     */
    readonly resolve: (host: string) => Promise<readonly [Address, ...ReadonlyArray<Address>]>
  }
>()("gateway/ports/runtime/Egress") {}

export interface Address {
  /** Of IP version 4 or 6. */
  readonly address: string
  readonly family: number
}
