import type { Result, Schema } from "effect"
import type { UpstreamCall } from "../../application/ports/vendor/Upstreams.ts"
import type { ChatRequest } from "../../domain/completion/ChatRequest.ts"
import type { Completion } from "../../domain/completion/Completion.ts"
import type { InvalidRequest } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"

/** What one vendor's dialect of a protocol differs in. Plain data, so that a driver stays a record. */
export interface Dialect {
  /** The name of the field that limits the output. */
  readonly outputLimit: "max_completion_tokens" | "max_tokens"
  /** Whether fields beyond the vendor's own reference may be sent (`reasoning`, `usage`, reasoning of messages). */
  readonly extensions: boolean
  /** Fields of the contract that the vendor refuses. */
  readonly lacks?: ReadonlyArray<keyof ChatRequest>
  /** The name of the field `seed`, if it is another one. */
  readonly seed?: "random_seed"
  /** Whether instructions of the role `developer` go as `system`, the one such role that the vendor knows. */
  readonly systemOnly?: boolean
  /** Whether the vendor tells the usage of every stream unasked, and takes no `stream_options`. */
  readonly usageUnasked?: boolean
  /** Where the vendor wants what the model thought in earlier answers, however the caller names it; "parts": of content. */
  readonly thoughts?: "parts" | "reasoning" | "reasoning_content"
  /** Whether calls bear a field `extra_content` that has to come back with them: signatures of what was thought. */
  readonly signsCalls?: boolean
}

/**
 * A wire format: how a request is written in it, and how its answers are read. One file per format in `protocols/`, in
 * this order: request, whole answer, streamed answer, usage, errors.
 */
export interface Protocol {
  /** Where it lives below an upstream's base URL. */
  readonly path: string
  /** Where its list of models lives below the base URL, if not at `/models`. */
  readonly modelsPath?: string
  /** Headers of every request beside the vendor's key, such as the version of the wire. In lower case. */
  readonly headers?: Readonly<Record<string, string>>
  /** True of servers that answer by streams only: a whole answer is the fold of one (`Folded`). */
  readonly streamsOnly?: boolean
  readonly write: (call: UpstreamCall, dialect: Dialect) => Result.Result<object, InvalidRequest>
  readonly read: (body: unknown) => Result.Result<Completion, Schema.SchemaError | UpstreamSaid>
  readonly reader: () => StreamReader
  /** The vendor's own words in the body of an error answer, if it has any. */
  readonly errorText: (body: unknown) => string | undefined
}

/** The state machine of one streamed answer. */
export interface StreamReader {
  /** Events of one frame's data. Throws nothing: what cannot be read is a failure. */
  readonly read: (data: string) => Result.Result<ReadonlyArray<CompletionEvent>, Malformed | UpstreamSaid>
  /** True once the vendor said that the answer is complete: the connection may end now. */
  readonly isComplete: () => boolean
  /** True once nothing may follow any more. */
  readonly isDone: () => boolean
  /** What is missing of a complete answer when the vendor ended it without saying why. */
  readonly finish: () => ReadonlyArray<CompletionEvent>
}

/** A frame that is not of the format. */
export interface Malformed {
  readonly _tag: "Malformed"
  readonly detail: string
}

/** An error that the vendor put where an answer was due. */
export interface UpstreamSaid {
  readonly _tag: "UpstreamSaid"
  readonly detail: string
}
