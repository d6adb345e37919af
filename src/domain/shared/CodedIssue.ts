import { Predicate, Schema, SchemaAST, SchemaIssue } from "effect"

/** The kinds of mistakes in an input, by the codes that the runtime tells them with (decisions 4). */
export const IssueCode = Schema.Literals([
  "unknown_key",
  "missing_required",
  "invalid_type",
  "invalid_enum",
  "invalid_value",
  "too_big",
  "too_small"
])
export type IssueCode = typeof IssueCode.Type

/** One mistake, where it stands and of which kind. */
export interface CodedIssue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly code: IssueCode
  readonly message: string
}

/** A caller can act on a few mistakes at a time; a hostile input must not make an answer longer than itself. */
const most = 50

/**
 * Every mistake that a failed decoding found, in its order; of each place the first one. With the input that was decoded
 * a variant that does not exist is told by the key that selects it.
 */
export const codedIssuesOf = (error: Schema.SchemaError, input?: unknown): ReadonlyArray<CodedIssue> => {
  const found = new Map<string, CodedIssue>()
  const visit = (issue: SchemaIssue.Issue, path: ReadonlyArray<PropertyKey>): void => {
    if (found.size === most) return
    if (issue._tag === "Pointer") return visit(issue.issue, [...path, ...issue.path])
    if (issue._tag === "Encoding") return visit(issue.issue, path)
    if (issue._tag === "Composite") return issue.issues.forEach((one) => visit(one, path))
    // A check of a whole that names a part of it.
    if (issue._tag === "Filter" && issue.issue._tag === "Pointer") return visit(issue.issue, path)
    if (issue._tag === "AnyOf" && issue.issues.length > 0 && !issue.ast.types.every(SchemaAST.isLiteral)) {
      return issue.issues.forEach((one) => visit(one, path))
    }
    const choice = issue._tag === "AnyOf" ? choiceOf(issue.ast, valueAt(input, path)) : undefined
    if (choice !== undefined) {
      const { code, key, message } = choice
      found.set(JSON.stringify([...path.map(String), key]), { path: [...path, key], code, message })
      return
    }
    const key = JSON.stringify(path.map(String))
    if (!found.has(key)) found.set(key, { path, code: codeOf(issue), message: messageOf(issue) })
  }
  visit(error.issue, [])
  return [...found.values()]
}

/** What is wrong with the key by which the variants of a union are told apart, such as `type`. */
const choiceOf = (
  { types }: SchemaAST.Union,
  value: unknown
): { readonly key: string; readonly code: IssueCode; readonly message: string } | undefined => {
  if (!Predicate.isObject(value)) return undefined
  const choices = types.map((type) =>
    SchemaAST.isObjects(type)
      ? type.propertySignatures.flatMap(({ name, type }) =>
          SchemaAST.isLiteral(type) && Predicate.isString(name) ? [{ key: name, literal: type.literal }] : []
        )
      : []
  )
  const key = choices[0]?.find(({ key }) => choices.every((one) => one.some((choice) => choice.key === key)))?.key
  if (key === undefined) return undefined
  const allowed = choices.flat().filter((choice) => choice.key === key)
  const message = `Expected ${allowed.map(({ literal }) => JSON.stringify(String(literal))).join(" | ")}`
  return { key, code: Object.hasOwn(value, key) ? "invalid_enum" : "missing_required", message }
}

const valueAt = (value: unknown, path: ReadonlyArray<PropertyKey>): unknown =>
  path.reduce<unknown>(
    (inner, key) =>
      Predicate.isObjectOrArray(inner) && Object.hasOwn(inner, key) ? Reflect.get(inner, key) : undefined,
    value
  )

const codeOf = (
  issue: Exclude<SchemaIssue.Issue, { readonly _tag: "Pointer" | "Encoding" | "Composite" }>
): IssueCode => {
  switch (issue._tag) {
    case "Filter":
      return codeOfCheck(issue)
    case "MissingKey":
      return "missing_required"
    case "UnexpectedKey":
      return "unknown_key"
    case "AnyOf":
      return issue.ast.types.every(SchemaAST.isLiteral) ? "invalid_enum" : "invalid_type"
    case "InvalidType":
      return SchemaAST.isLiteral(issue.ast) ? "invalid_enum" : "invalid_type"
    case "InvalidValue":
    case "Forbidden":
    case "OneOf":
      return "invalid_value"
  }
}

/** A bound is told apart by its side; of one with two, a value says which it has left. */
const codeOfCheck = ({ filter }: SchemaIssue.Filter): IssueCode => {
  const name = filter.annotations?.representation?.id.replace(/^effect\/schema\/is/, "") ?? ""
  if (/^(?:Max|LessThan)/.test(name)) return "too_big"
  if (/^(?:Min|GreaterThan|NonEmpty)/.test(name)) return "too_small"
  return name === "Int" ? "invalid_type" : "invalid_value"
}

const standard = SchemaIssue.makeFormatterStandardSchemaV1()

/** What is missing is told by its path: "Missing key" at `apiKey` would be read as another kind of key. */
const messageOf = (issue: SchemaIssue.Issue): string => {
  if (issue._tag === "MissingKey") return "Required"
  return issue._tag === "AnyOf" && issue.ast.types.every(SchemaAST.isObjects)
    ? "Expected object"
    : (standard(issue).issues[0]?.message ?? "Invalid.")
}

/** `a.b[0]`, the way programmers write it. */
export const renderPath = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    ""
  )
