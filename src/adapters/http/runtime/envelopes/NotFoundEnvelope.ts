import { Schema } from "effect"
import { HttpServerResponse } from "effect/http"

/** `{code, message, scope, type, context}` of section 7.2: a memory that does not exist. */
export const NotFoundWire = Schema.Struct({
  code: Schema.NonEmptyString,
  message: Schema.String,
  scope: Schema.NonEmptyString,
  type: Schema.Literal("not_found"),
  context: Schema.Record(Schema.String, Schema.Json)
}).annotate({ identifier: "NotFound", httpApiStatus: 404 })
export type NotFoundWire = typeof NotFoundWire.Type

export const notFoundEnvelope = (found: Omit<NotFoundWire, "type">): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe({ ...found, type: "not_found" } satisfies NotFoundWire, { status: 404 })
