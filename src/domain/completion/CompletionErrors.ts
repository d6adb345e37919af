import { Schema } from "effect"
import { Issue } from "../shared/Issue.ts"

/** The request breaks the contract, or the model's vendor cannot express it. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  issues: Schema.Array(Issue)
}) {
  override get message() {
    const [first] = this.issues
    return first === undefined
      ? "The request is not valid."
      : first.path === ""
        ? first.message
        : `${first.path}: ${first.message}`
  }
}

/** The upstream model provider failed; nothing of its answer reached the caller, or not all of it. */
export class UpstreamFailed extends Schema.TaggedError<UpstreamFailed>()("UpstreamFailed", {
  upstream: Schema.String,
  reason: Schema.Literals([
    "unreachable",
    // Nothing of an answer came in time, or it began and then stood still or took too long.
    "timeout",
    "stalled",
    "rate_limited",
    "server_error",
    "credentials_refused",
    "malformed_answer",
    "unexpected_status",
    "cut_off",
    // It failed repeatedly before, so it was not asked.
    "circuit_open"
  ]),
  /** For the log: what happened, with the upstream's own words redacted. Never shown to a caller. */
  detail: Schema.String,
  /** True where the organization's own key was used: then it is the organization that has to mend a refused one. */
  ownKey: Schema.optionalKey(Schema.Boolean)
}) {
  override get message() {
    const remedy = this.retryable
      ? "Try again."
      : this.ownKey === true && this.reason === "credentials_refused"
        ? "Your organization's own key has to be replaced."
        : "The operator has to mend it."
    return `The upstream model provider failed (${this.reason.replaceAll("_", " ")}). ${remedy}`
  }

  /** A refusal that concerns the operator (its key, its configuration) is not mended by asking again. */
  get retryable(): boolean {
    return this.reason !== "credentials_refused" && this.reason !== "unexpected_status"
  }
}

/** The upstream refused the request itself (its 400s): its words tell the caller what to change. */
export class UpstreamRefused extends Schema.TaggedError<UpstreamRefused>()("UpstreamRefused", {
  upstream: Schema.String,
  status: Schema.Int,
  said: Schema.String
}) {
  override get message() {
    return `The model's provider refused the request: ${this.said}`
  }
}

/** The service is shutting down: what still ran at its deadline was ended. */
export class ServiceStopping extends Schema.TaggedError<ServiceStopping>()("ServiceStopping", {}) {
  override get message() {
    return "The service is shutting down. Send the request again."
  }
}
