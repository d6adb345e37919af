/** The variables that the service writes to a `.env` file (decisions 3): keys, tokens and addresses of providers. */

const writable = /^[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN|BASE_URL)$/

const mostBytes = 4096

/** Why a variable of this name cannot be written, and what to change; undefined if it can. */
export const refusedName = (name: string): string | undefined =>
  writable.test(name)
    ? undefined
    : "The name of a variable has capital letters, digits and _, starts with a letter and ends in _API_KEY, _TOKEN or " +
      "_BASE_URL."

/** Why a variable cannot have this value, and what to change; undefined if it can. Says nothing of the value. */
export const refusedValue = (value: string): string | undefined => {
  if (/[\r\n\u2028\u2029]/.test(value)) return "The value has a line break. Remove it: a value is one line."
  if (value.includes("\0")) return "The value has a NUL character. Remove it."
  if (!value.isWellFormed()) return "The value has half of a surrogate pair. Send it as valid Unicode."
  if (new TextEncoder().encode(value).length > mostBytes)
    return `The value is longer than ${mostBytes} bytes. Shorten it.`
  return undefined
}
