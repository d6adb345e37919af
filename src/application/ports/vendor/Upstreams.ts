import { Context, type Effect, type Redacted, type Scope, type Stream } from "effect"
import type { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import type { Completion } from "../../../domain/completion/Completion.ts"
import type { InvalidRequest, UpstreamFailed, UpstreamRefused } from "../../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../../domain/completion/CompletionEvent.ts"
import type { Route } from "./ModelCatalog.ts"

export interface UpstreamCall {
  /** An agent's call with a key of its own has no access method. */
  readonly route: Omit<Route, "method"> & Partial<Pick<Route, "method">>
  readonly request: ChatRequest
  /** The organization's own key; undefined: the operator's. */
  readonly apiKey?: Redacted.Redacted | undefined
  /**
   * The call is an agent's, to the vendor of which the route has the id in `Providers`, whatever the operator configured:
   * it bears no key but `apiKey`. An address that the caller chose is called through `Egress`.
   */
  readonly provider?: { readonly baseUrl: string | undefined } | undefined
  /** The most output tokens the upstream may produce, where that is less than it would by itself. */
  readonly outputCap: number | undefined
  /** The most output tokens that the hold covers: for wires on which a request has to say a limit. */
  readonly outputLimit: number
}

/** Why a call gave nothing: the request cannot be expressed on this wire, or the upstream refused it or failed. */
export type CallError = InvalidRequest | UpstreamRefused | UpstreamFailed

/**
 * The model vendors. A call that an upstream fails before the first byte of its answer goes to the route's fallbacks in
 * turn, and fails when none serves. Interrupting a call, or closing the scope of a stream before its end, closes the connection at once.
 */
export class Upstreams extends Context.Service<
  Upstreams,
  {
    readonly complete: (call: UpstreamCall) => Effect.Effect<Completion, CallError>
    /**
     * Succeeds when the first event is there, so that everything before it is an error of the call. The stream ends well
     * only after the vendor said that it is complete; a connection that breaks off is `UpstreamFailed`.
     */
    readonly stream: (
      call: UpstreamCall
    ) => Effect.Effect<Stream.Stream<CompletionEvent, UpstreamFailed>, CallError, Scope.Scope>
  }
>()("gateway/ports/vendor/Upstreams") {}
