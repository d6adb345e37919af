import { Predicate, Schema, SchemaAST, SchemaIssue } from "effect"
import { type Issue, issuesOf } from "../shared/Issue.ts"

/**
 * What is wrong with a body that is no `ChatRequest`. A message, part or format of an unknown kind is wrong in the
 * field that tells the kinds apart: `messages[0].role`.
 */
export const requestIssues = (error: Schema.SchemaError, body: unknown): ReadonlyArray<Issue> =>
  issuesOf(new Schema.SchemaError(pointed(error.issue, body)))

const pointed = (issue: SchemaIssue.Issue, value: unknown): SchemaIssue.Issue => {
  if (issue._tag === "Pointer") {
    return new SchemaIssue.Pointer(issue.path, pointed(issue.issue, issue.path.reduce(at, value)))
  }
  if (issue._tag === "Composite") {
    const [first, ...rest] = issue.issues
    return new SchemaIssue.Composite(issue.ast, [pointed(first, value), ...rest.map((one) => pointed(one, value))])
  }
  if (issue._tag !== "AnyOf") return issue
  return issue.issues.length > 0
    ? new SchemaIssue.AnyOf(
        issue.ast,
        issue.issues.map((one) => pointed(one, value))
      )
    : ofNoKind(issue, value)
}

const at = (value: unknown, key: PropertyKey): unknown =>
  Predicate.isObjectOrArray(value) ? Reflect.get(value, key) : undefined

const ofNoKind = (issue: SchemaIssue.AnyOf, value: unknown): SchemaIssue.Issue => {
  if (!Predicate.isObject(value)) return issue
  const kinds = issue.ast.types
    .filter(SchemaAST.isObjects)
    .flatMap(({ propertySignatures }) => propertySignatures.filter(({ type }) => SchemaAST.isLiteral(type)).slice(0, 1))
  const [kind] = kinds
  if (kind === undefined) return issue
  const known = new SchemaAST.Union(kinds.map(({ type }) => type))
  return new SchemaIssue.Pointer([kind.name], new SchemaIssue.AnyOf(known, []))
}
