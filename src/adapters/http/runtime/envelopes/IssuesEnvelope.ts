import { Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { Refusing } from "./Envelope.ts"
import { brief } from "./MessageEnvelope.ts"

export const IssueWire = Schema.Struct({
  code: Schema.NonEmptyString,
  message: Schema.String,
  severity: Schema.Literals(["error", "warning"]),
  path: Schema.optionalKey(Schema.Array(Schema.String)),
  context: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})
export type IssueWire = typeof IssueWire.Type

/** `{ok: false, issues}` of section 7.2: saving a configuration, managing agents, switching the model. */
export const IssuesWire = Schema.Struct({ ok: Schema.Literal(false), issues: Schema.Array(IssueWire) }).annotate({
  identifier: "Issues"
})

/** An answer quotes its request, and must not grow with it. */
const mostIssues = 50

export const issuesEnvelope = (
  status: number,
  issues: ReadonlyArray<IssueWire>
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.jsonUnsafe(
    {
      ok: false,
      issues: issues.slice(0, mostIssues).map((issue) => ({ ...issue, message: brief(issue.message) }))
    } satisfies typeof IssuesWire.Type,
    { status }
  )

/** The same shape under one status, for the description of an endpoint. */
export const issuesError = (status: number, description: string) =>
  IssuesWire.annotate({ identifier: `Issues${status}`, description, httpApiStatus: status })

/** A request that its schema refuses is an issue of code `schema_validation` for each mistake (section 4.3). */
export const refuseByIssues: Refusing = (failure) =>
  failure._tag === "InvalidInput"
    ? issuesEnvelope(
        400,
        failure.issues.map(({ message, path }) => ({
          code: "schema_validation",
          message,
          severity: "error",
          path
        }))
      )
    : issuesEnvelope(failure._tag === "BodyTooLarge" ? 413 : 400, [
        { code: "schema_validation", message: failure.message, severity: "error", path: [] }
      ])
