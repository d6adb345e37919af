/** What looks like a credential in a server's words. */
const credential = /\b(?:sk|pk|rk|gsk|xai|key|ghp|xox[a-z])[-_][A-Za-z0-9_-]{8,}|\bBearer\s+[^\s"']+/g

/** Shorter values are words like `true` or `production`: nothing would be left of a text without them. */
const leastSecret = 6

/**
 * Takes out of a server's words the values that its configuration gave it, and what looks like a credential, and leaves
 * so much of them as a log line or a message may have.
 */
export const redaction = (given: Iterable<string>, most = 500): ((text: string) => string) => {
  const withoutSecrets = withoutAll(given)
  return (text) => {
    // What is cut off is not looked through: a server may say a lot.
    const clean = withoutSecrets(text.slice(0, 16 * 1024)).replace(credential, "[redacted]")
    return clean.length > most ? `${clean.slice(0, most)}…` : clean
  }
}

/** Takes these values out of a text, in whatever form they stand there, and leaves the rest of it as it is. */
export const withoutAll = (given: Iterable<string>): ((text: string) => string) => {
  const secrets = [...given]
    .flatMap(formsOf)
    .filter((value) => value.length >= leastSecret)
    .sort((a, b) => b.length - a.length)
  return (text) => secrets.reduce((clean, secret) => clean.replaceAll(secret, "[redacted]"), text)
}

/** A value, as libraries trim it, and as it stands in JSON or an address: it is said in each of these forms. */
const formsOf = (value: string): ReadonlyArray<string> =>
  [value, value.trim()].flatMap((form) => [
    form,
    JSON.stringify(form).slice(1, -1),
    encodeURIComponent(form.toWellFormed())
  ])
