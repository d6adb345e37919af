import { Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { Refusing } from "./Envelope.ts"
import { brief } from "./MessageEnvelope.ts"

/** `{name: ServiceValidationError, …}` of section 7.2: a memory whose fields are wrong. */
export const ValidationWire = Schema.Struct({
  name: Schema.Literal("ServiceValidationError"),
  message: Schema.String,
  issues: Schema.Array(
    Schema.Struct({
      code: Schema.NonEmptyString,
      path: Schema.Array(Schema.String),
      message: Schema.String,
      severity: Schema.Literals(["error", "warning"])
    })
  ),
  errorCount: Schema.Int,
  warningCount: Schema.Int
}).annotate({ identifier: "ServiceValidationError", httpApiStatus: 400 })

export interface Mistake {
  readonly code: string
  readonly path: ReadonlyArray<string>
  readonly message: string
}

const mostIssues = 20

export const validationEnvelope = (
  mistakes: ReadonlyArray<Mistake>,
  status = 400
): HttpServerResponse.HttpServerResponse => {
  const issues = mistakes.slice(0, mostIssues).map(({ code, message, path }) => ({
    code,
    path,
    message: brief(message),
    severity: "error" as const
  }))
  return HttpServerResponse.jsonUnsafe(
    {
      name: "ServiceValidationError",
      message: issues
        .map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
        .join("; "),
      issues,
      errorCount: issues.length,
      warningCount: 0
    } satisfies typeof ValidationWire.Type,
    { status }
  )
}

export const refuseByValidation: Refusing = (failure) =>
  failure._tag === "InvalidInput"
    ? validationEnvelope(failure.issues)
    : validationEnvelope(
        [{ code: failure._tag === "BodyTooLarge" ? "too_big" : "invalid_json", path: [], message: failure.message }],
        failure._tag === "BodyTooLarge" ? 413 : 400
      )
