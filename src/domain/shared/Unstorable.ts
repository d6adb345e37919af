import { Predicate } from "effect"

export interface Unstorable {
  readonly path: ReadonlyArray<string>
  readonly message: string
}

const noText = "Expected a text without NUL and without lone surrogates."

/** JSON has no infinity: such a number would be stored as null. */
const noNumber = "Expected a number of at most 1.7976931348623157e308."

/** What no store takes, and where it stands: a text with NUL or half of a surrogate pair, a number that is too large. */
export const unstorableIn = (value: unknown): Unstorable | undefined => {
  if (Predicate.isString(value)) {
    return value.includes("\0") || !value.isWellFormed() ? { path: [], message: noText } : undefined
  }
  if (Predicate.isNumber(value)) return Number.isFinite(value) ? undefined : { path: [], message: noNumber }
  if (!Predicate.isObjectOrArray(value)) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const found = unstorableIn(key) ?? unstorableIn(inner)
    if (found !== undefined) return { ...found, path: [key, ...found.path] }
  }
  return undefined
}
