import { Predicate } from "effect"

/** A request of a billion tokens does not exist; a count beyond is nonsense like a negative one. */
const mostTokens = 1_000_000_000

/** A vendor's count of tokens, or undefined where it cannot be one: then it is as good as none. */
export const asCount = (value: unknown): number | undefined =>
  Predicate.isNumber(value) && Number.isSafeInteger(value) && value >= 0 && value <= mostTokens ? value : undefined
