import { Predicate, Schema, SchemaIssue } from "effect"

/** One thing wrong with an input: where it stands and what it takes. `path` is like `messages[0].content`. */
export const Issue = Schema.Struct({ path: Schema.String, message: Schema.String })
export type Issue = typeof Issue.Type

const standard = SchemaIssue.makeFormatterStandardSchemaV1()

/** A caller can act on a few issues at a time; a hostile body must not make an answer longer than itself. */
const most = 20

/** Every distinct issue of a failed decoding, the first twenty. */
export const issuesOf = (error: Schema.SchemaError): ReadonlyArray<Issue> => {
  const distinct = new Map<string, Issue>()
  for (const { message, path } of standard(error.issue).issues) {
    const issue = { path: render(path ?? []), message }
    distinct.set(`${issue.path}\n${message}`, issue)
    if (distinct.size === most) break
  }
  return [...distinct.values()]
}

/** `a.b[0]`, the way programmers write it. */
const render = (path: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }>): string =>
  path.reduce<string>((text, segment) => {
    const key = Predicate.isObject(segment) && "key" in segment ? segment.key : segment
    return typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`
  }, "")
