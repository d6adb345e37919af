import { Schema } from "effect"

/** No route has this path. */
export class UnknownRoute extends Schema.TaggedError<UnknownRoute>()("UnknownRoute", { path: Schema.String }) {
  override get message() {
    return `Nothing is served at ${this.path}. GET /openapi.json describes every route.`
  }
}

/** The path exists, but not with this method. */
export class MethodNotAllowed extends Schema.TaggedError<MethodNotAllowed>()("MethodNotAllowed", {
  method: Schema.String,
  path: Schema.String,
  allowed: Schema.Array(Schema.String)
}) {
  override get message() {
    return `${this.path} does not take ${this.method}, only ${this.allowed.join(", ")}.`
  }
}

/** A defect: its cause stands in the log under the request id. */
export class UnexpectedFailure extends Schema.TaggedError<UnexpectedFailure>()("UnexpectedFailure", {}) {
  override get message() {
    return "The service failed unexpectedly. Its log has the cause under this request id."
  }
}

/** What arrived is no request of HTTP/1.1. */
export class MalformedHttp extends Schema.TaggedError<MalformedHttp>()("MalformedHttp", {
  status: Schema.Literals([400, 408, 413, 431]),
  detail: Schema.String
}) {
  override get message() {
    return `The request cannot be read: ${this.detail}`
  }
}
