import type { Dialect, Protocol } from "./Protocol.ts"

/**
 * A vendor: four orthogonal parts. Protocol and framing are the wire format; endpoint and auth say where and as whom.
 * Plain records in a list, since a vendor is configuration, not code.
 */
export interface Driver {
  /** Its name in upstream errors, routes and logs, and in the packaged catalogue. */
  readonly id: string
  readonly auth: Auth
  readonly protocol: Protocol
  readonly dialect: Dialect
  readonly baseUrl: string
  /** The environment variable with the operator's key; `<PROVIDER>_BASE_URL` beside it replaces `baseUrl`. */
  readonly keyVariable: string
  readonly baseUrlVariable: string
  /** What stands before the vendor's model ids in this service's: "" for vendors of their own models. */
  readonly modelPrefix: string
}

/** The header that a vendor wants its key in. */
export type Auth = "bearer" | "x-api-key"

/** A driver with the operator's configuration. */
export interface Upstream {
  readonly id: string
  readonly auth: Auth
  readonly protocol: Protocol
  readonly dialect: Dialect
  readonly baseUrl: string
  readonly apiKey: string | undefined
}
