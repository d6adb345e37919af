import { Schema } from "effect"

/** The key is missing, mistyped, unknown, expired or revoked: a caller cannot tell which. */
export class InvalidApiKey extends Schema.TaggedError<InvalidApiKey>()("InvalidApiKey", {
  reason: Schema.Literals(["missing", "invalid"])
}) {
  override get message() {
    return this.reason === "missing"
      ? 'No API key. Send the header "Authorization: Bearer <API key>".'
      : "This API key is not valid. Check it for typing errors, expiry and revocation."
  }
}

export class NameTaken extends Schema.TaggedError<NameTaken>()("NameTaken", {
  kind: Schema.Literals(["organization", "member"]),
  name: Schema.String
}) {
  override get message() {
    return `There is already ${this.kind === "organization" ? "an organization" : "a member"} named "${this.name}".`
  }
}

export class UnknownName extends Schema.TaggedError<UnknownName>()("UnknownName", {
  kind: Schema.Literals(["organization", "member", "API key"]),
  name: Schema.String
}) {
  override get message() {
    return this.kind === "API key"
      ? `No API key has the id "${this.name}".`
      : `No ${this.kind} is named "${this.name}".`
  }
}

/** The text cannot be a provider's key. Says nothing of it. */
export class InvalidProviderKey extends Schema.TaggedError<InvalidProviderKey>()("InvalidProviderKey", {}) {
  override get message() {
    return "A provider's key has 1 to 4096 visible ASCII characters and no spaces."
  }
}

/** The organization has stored no key of this provider. */
export class NoProviderKey extends Schema.TaggedError<NoProviderKey>()("NoProviderKey", {
  provider: Schema.String
}) {
  override get message() {
    return `The organization has stored no key of the provider "${this.provider}".`
  }
}
