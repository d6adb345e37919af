import { Schema } from "effect"

/** What can be wrong with a choice of provider, model and the rest (decisions 5). */
export const LlmIssueCode = Schema.Literals([
  "unknown_provider",
  "unknown_model",
  "router_not_supported",
  "missing_api_key",
  "base_url_not_supported",
  "base_url_required",
  "max_input_tokens_exceeded"
])
export type LlmIssueCode = typeof LlmIssueCode.Type

/** One of them, in the shape of section 7.2. A warning does not hinder the choice. */
export const LlmIssue = Schema.Struct({
  code: LlmIssueCode,
  message: Schema.String,
  severity: Schema.Literals(["error", "warning"]),
  /** The field of the request that it is about. */
  path: Schema.Array(Schema.String),
  context: Schema.Record(Schema.String, Schema.Json)
})
export type LlmIssue = typeof LlmIssue.Type

/** The choice cannot be made; every reason at once. */
export class LlmNotUsable extends Schema.TaggedError<LlmNotUsable>()("LlmNotUsable", {
  issues: Schema.NonEmptyArray(LlmIssue)
}) {
  override get message() {
    return this.issues.map(({ message }) => message).join(" ")
  }
}

/** No provider of this name takes a key. */
export class UnknownProvider extends Schema.TaggedError<UnknownProvider>()("UnknownProvider", {
  provider: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return `No provider ${JSON.stringify(this.provider)} takes a key. Use one of ${this.known.join(", ")}.`
  }
}
