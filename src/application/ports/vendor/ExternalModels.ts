import { Context, type Effect, type Redacted, type Scope, type Stream } from "effect"
import type { ChatRequest } from "../../../domain/completion/ChatRequest.ts"
import type { UpstreamFailed } from "../../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../../domain/completion/CompletionEvent.ts"
import type { CallError } from "./Upstreams.ts"

export interface ExternalCall {
  /** Its id in `Providers`. */
  readonly provider: string
  /** The request's model is the name by which the provider knows it. */
  readonly request: ChatRequest
  /** The organization's own key; undefined of a provider that needs none. The operator's is never used. */
  readonly apiKey: Redacted.Redacted | undefined
  /** An address that a caller chose, called through `Egress`; undefined: the provider's own. */
  readonly baseUrl: string | undefined
  /** The most output tokens of the model: for wires on which a request has to say a limit. */
  readonly outputLimit: number
}

/** The model vendors through a library of others: the router `external-sdk` (decisions 5). Streams are as `Upstreams` has them. */
export class ExternalModels extends Context.Service<
  ExternalModels,
  {
    /** Retried before its first event as upstreams are. Closing the scope closes the connection at once. */
    readonly stream: (
      call: ExternalCall
    ) => Effect.Effect<Stream.Stream<CompletionEvent, UpstreamFailed>, CallError, Scope.Scope>
  }
>()("gateway/ports/vendor/ExternalModels") {}
