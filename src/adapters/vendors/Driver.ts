import type { Dialect, Protocol } from "./Protocol.ts"

/**
 * A vendor: four orthogonal parts. Protocol and framing are the wire format; endpoint and auth say where and as whom.
 * Plain records in a list, since a vendor is configuration, not code.
 */
export interface Driver {
  /** Its name in upstream errors, routes and logs, and in the packaged catalogue. */
  readonly id: string
  readonly auth: Auth
  /** Headers that follow from the key itself, in lower case, such as the account that a token was given to. */
  readonly headersOf?: (key: string) => Readonly<Record<string, string>>
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
export interface Upstream extends Pick<Driver, "id" | "auth" | "headersOf" | "protocol" | "dialect" | "baseUrl"> {
  /** The operator's key. */
  readonly apiKey: string | undefined
  /** Whether a caller chose `baseUrl`: such an address is not called but through `Egress` (decisions 10). */
  readonly isChosenByCaller?: boolean
}

/** What says who asks: the key in the header that the vendor wants it in, and what follows from it. */
export const keyHeaders = (upstream: Upstream, apiKey: string | undefined): Record<string, string> =>
  apiKey === undefined
    ? {}
    : {
        ...(upstream.auth === "x-api-key" ? { "x-api-key": apiKey } : { authorization: `Bearer ${apiKey}` }),
        ...upstream.headersOf?.(apiKey)
      }
