import { Schema } from "effect"

/** The first request with this idempotency key still runs: its answer is not known yet. */
export class IdempotencyKeyBusy extends Schema.TaggedError<IdempotencyKeyBusy>()("IdempotencyKeyBusy", {}) {
  override get message() {
    return "A request with this Idempotency-Key is still running. Repeat yours when that one has ended."
  }
}

/** The idempotency key belongs to a request with another body. */
export class IdempotencyKeyReused extends Schema.TaggedError<IdempotencyKeyReused>()("IdempotencyKeyReused", {}) {
  override get message() {
    return "This Idempotency-Key was used for a request with another body. Give every new request a new key."
  }
}
