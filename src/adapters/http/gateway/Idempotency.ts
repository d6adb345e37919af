import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { createHash, type Hash } from "node:crypto"
import { type HeldKey, IdempotencyKeys } from "../../../application/completion/IdempotencyKeys.ts"
import { RateLimits } from "../../../application/ports/storage/RateLimits.ts"
import { InvalidRequest } from "../../../domain/completion/CompletionErrors.ts"
import { IdempotencyKey } from "../../../domain/completion/IdempotencyKey.ts"
import { refusalOf } from "../../../domain/ratelimit/RatePolicy.ts"
import type { ChatCompletionWire } from "./ChatApi.ts"
import { type Recorder, streamHeaders } from "./EventStreams.ts"
import type { Admitted } from "./Gate.ts"
import type { GatewayFailure } from "./GatewayEnvelope.ts"

/** What is kept of one answer at most, in bytes. A longer one frees its key: its repetition runs again. */
const mostKept = 4 * 1024 * 1024

/** The idempotency key of a request, and the digest of its body once that has been read. */
export interface Keyed {
  readonly key: IdempotencyKey
  readonly body: Hash
}

/** Fails with a header that is no key. */
export const keyed = (header: string | ReadonlyArray<string>): Effect.Effect<Keyed, InvalidRequest> =>
  isKey(header) ? Effect.sync(() => ({ key: header, body: createHash("sha256") })) : Effect.fail(invalidKey)

const isKey = Schema.is(IdempotencyKey)

const invalidKey = new InvalidRequest({
  issues: [{ path: "Idempotency-Key", message: "Expected 1 to 255 visible ASCII characters without spaces" }]
})

/** Keeps what a client is sent, to the last byte, for the repetitions of its request. */
export class Recording implements Recorder {
  readonly #key: HeldKey
  #text = ""
  #bytes = 0

  constructor(key: HeldKey) {
    this.#key = key
  }

  add(text: string): void {
    this.#bytes += Buffer.byteLength(text)
    this.#text = this.#bytes > mostKept ? "" : this.#text + text
  }

  complete(last: string): Effect.Effect<void> {
    this.add(last)
    return this.#bytes > mostKept ? this.#key.free : this.#key.store(this.#text)
  }

  get discard(): Effect.Effect<void> {
    return this.#key.free
  }
}

/** An answer that is not streamed. */
export const recorded = (recording: Recording, completion: ChatCompletionWire) => {
  const text = JSON.stringify(completion)
  return Effect.as(recording.complete(text), HttpServerResponse.text(text, { contentType: "application/json" }))
}

/**
 * Answers chat requests that have the header `Idempotency-Key` (decisions 2). A repetition gets the bytes of the first
 * answer: it is counted under the rate policy, but not charged, and no upstream is asked.
 */
export const idempotency = Effect.gen(function* () {
  const keys = yield* IdempotencyKeys
  const limits = yield* RateLimits

  const replay = Effect.fnUntraced(function* ({ caller, policy, state }: Admitted, stream: boolean, answer: string) {
    const decision = yield* limits.take(caller.organizationId, policy)
    state.rate = decision
    if (!decision.allowed) return yield* refusalOf(policy, decision)
    return HttpServerResponse.text(answer, {
      contentType: stream ? "text/event-stream" : "application/json",
      headers: stream ? { ...streamHeaders, ...replayed } : replayed
    })
  })

  /** `stream`: the form in which the request, and so the first one of its body, wants its answer. */
  return <E extends GatewayFailure, R>(
    { body, key }: Keyed,
    admitted: Admitted,
    stream: boolean,
    run: (recording: Recording) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
  ) =>
    keys.once(
      { organizationId: admitted.caller.organizationId, key, digest: body.digest("hex") },
      (held) => run(new Recording(held)),
      (answer) => replay(admitted, stream, answer)
    )
})

const replayed = { "idempotent-replayed": "true" }
