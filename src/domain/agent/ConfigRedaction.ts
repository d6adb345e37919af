import { Predicate } from "effect"

/** What stands in place of a secret. */
export const redactionMark = "[REDACTED]"

/**
 * A configuration, as plain data, that may be shown (section 4.2): every secret replaced by a mark. Secrets are what
 * `known` lists, such as the values of `.env`; keys, and whatever a key calls a secret; all that MCP servers get as
 * environment or headers, since it is there that tokens are; users in addresses; and texts that look like keys.
 */
export const redactConfig = (
  document: Readonly<Record<string, unknown>>,
  known: ReadonlyArray<string>
): Readonly<Record<string, unknown>> => {
  // A longer one may contain a shorter one.
  const secrets = known.filter((secret) => secret.length >= shortest).toSorted((a, b) => b.length - a.length)
  const text = (value: string): string =>
    redactText(secrets.reduce((found, secret) => found.replaceAll(secret, redactionMark), value))

  const visit = (value: unknown, path: ReadonlyArray<string>): unknown => {
    if (Predicate.isString(value)) return text(value)
    if (Array.isArray(value)) {
      return value.map((item: unknown, index) =>
        path.at(-1) === "args" && Predicate.isString(item) ? argument(text(item), value[index - 1]) : visit(item, path)
      )
    }
    return Predicate.isObject(value) ? entries(value, path) : value
  }
  const entries = (value: object, path: ReadonlyArray<string>) =>
    Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [
        text(key),
        isSecret([...path, key]) ? marked(inner) : visit(inner, [...path, key])
      ])
    )
  return entries(document, [])
}

/** A shorter value of `.env` is no secret worth the name, and would be found in every word. */
const shortest = 6

const secretName =
  /api[-_]?key|secret|token|passw(?:or)?d|passphrase|credential|authorization|cookie|(?:private|access|signing|encryption)[-_]?key|connection[-_]?string|^(?:auth|key|pat|dsn)$/i

/** Numbers of tokens, and where approvals are kept. */
const harmlessName = /tokens$|tokenizer|storage$/i

/** Whether what is called so is a secret. */
export const isSecretName = (name: string): boolean => secretName.test(name) && !harmlessName.test(name)

const isSecret = (path: ReadonlyArray<string>): boolean => {
  const [section, , part, name] = path
  if (section === "mcpServers") return (part === "env" || part === "headers") && name !== undefined
  return isSecretName(path.at(-1) ?? "") || path.at(-2) === "headers"
}

/** What is empty shows nothing, and that it is empty is worth knowing. */
const marked = (value: unknown): unknown =>
  value === "" || value === null || value === undefined ? value : redactionMark

/** `--api-key=…`, `API_KEY=…`, and the argument after `--api-key`. */
const argument = (value: string, before: unknown): string => {
  const [, name, sign] = /^-{0,2}([\w.-]+)([=:])./s.exec(value) ?? []
  if (name !== undefined && sign !== undefined && isSecretName(name)) {
    return `${value.slice(0, value.indexOf(sign) + 1)}${redactionMark}`
  }
  const isValue =
    Predicate.isString(before) && /^-{1,2}[\w.-]+$/.test(before) && isSecretName(before.replace(/^-+/, ""))
  return isValue ? redactionMark : value
}

const userInfo = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/?#@"']+@/gi

const queryValue = /([?&#;][\w.-]*(?:key|token|secret|passw(?:or)?d|signature|credential|auth)[\w.-]*=)[^&#\s"']+/gi

/** The forms in which providers give keys out. */
const keyForms = [
  /\b(?:sk|gsk|xai|tvly|pplx)[-_][A-Za-z0-9_-]{8,}/g,
  // Words begin like these too, but have no digits.
  /\b(?:pk|rk|key|fc|hf|npm|glpat|xox[abprs]|shpat|dop_v1)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{8,}/g,
  /\b(?:gh[opsur]|github_pat)_[A-Za-z0-9_]{16,}/g,
  /\bAIza[A-Za-z0-9_-]{20,}/g,
  /\bA[KS]IA[A-Z0-9]{12,}/g,
  /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
  /\b(?:Bearer|Basic)\s+[^\s"'<$[{]{8,}/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g
]

const redactText = (text: string): string =>
  keyForms.reduce(
    (found, form) => found.replace(form, redactionMark),
    text.replace(userInfo, `$1${redactionMark}@`).replace(queryValue, `$1${redactionMark}`)
  )
