import { Schema } from "effect"
import { AccessMethod } from "./AccessMethod.ts"

export class ModelNotFound extends Schema.TaggedError<ModelNotFound>()("ModelNotFound", { model: Schema.String }) {
  override get message() {
    return `This deployment serves no model "${this.model}". GET /v1/models lists those it serves.`
  }
}

/** The model exists, but not by this access method. */
export class AccessMethodNotOffered extends Schema.TaggedError<AccessMethodNotOffered>()("AccessMethodNotOffered", {
  model: Schema.String,
  method: AccessMethod,
  offered: Schema.Array(AccessMethod)
}) {
  override get message() {
    return `The model "${this.model}" cannot be reached by "${this.method}", only by: ${this.offered.join(", ")}.`
  }
}

/** The model offers the access method, but the organization has stored no key for it. */
export class NoKeyForAccessMethod extends Schema.TaggedError<NoKeyForAccessMethod>()("NoKeyForAccessMethod", {
  method: AccessMethod
}) {
  override get message() {
    return `Your organization has no key for the access method "${this.method}".`
  }
}
