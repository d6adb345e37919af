import { Context, type Effect, type Redacted, Schema } from "effect"

/** A secret as it may be stored: nobody reads or moves it without the key. */
export const SealedText = Schema.String.pipe(Schema.brand("SealedText"))
export type SealedText = typeof SealedText.Type

/** The key of all secrets, as `SECRETS_KEY` gives it: 32 bytes in base64. */
export const SecretsKey = Schema.Uint8ArrayFromBase64.check(Schema.makeFilter((key) => key.length === 32)).pipe(
  Schema.RedactedFromValue
)
export type SecretsKey = typeof SecretsKey.Type

/** There is no key to encrypt with. The message is the one line that the operator needs. */
export class SecretsUnavailable extends Schema.TaggedError<SecretsUnavailable>()("SecretsUnavailable", {
  message: Schema.String
}) {}

/** A stored secret that this key does not open. */
export class SecretUnreadable extends Schema.TaggedError<SecretUnreadable>()("SecretUnreadable", {
  reason: Schema.Literals(["other key", "altered"])
}) {
  override get message() {
    return this.reason === "other key"
      ? "A stored secret was encrypted under another SECRETS_KEY. Start with the one it was stored with, or store it again."
      : "A stored secret was altered, or moved to where it does not belong. Store it again."
  }
}

/**
 * Encrypts what is stored and must not be read there. A secret opens only for the owner it was sealed for: names from
 * the general to the particular, such as a kind of secret, an organization, a provider.
 */
export class Secrets extends Context.Service<
  Secrets,
  {
    /** The same text sealed twice looks different. */
    readonly seal: (
      text: Redacted.Redacted,
      owner: ReadonlyArray<string>
    ) => Effect.Effect<SealedText, SecretsUnavailable>
    readonly open: (
      sealed: SealedText,
      owner: ReadonlyArray<string>
    ) => Effect.Effect<Redacted.Redacted, SecretsUnavailable | SecretUnreadable>
  }
>()("gateway/ports/runtime/Secrets") {}
