/** What looks like a credential in a vendor's words, whatever vendor. */
const credential = /\b(?:sk|pk|rk|gsk|xai|key)[-_][A-Za-z0-9_-]{8,}|\bBearer\s+[^\s"']+/g

/** A vendor's words without credentials, short enough for a log line or a message. */
export const redact = (text: string, apiKey: string | undefined, most = 1_000): string => {
  const known = apiKey === undefined || apiKey === "" ? text : text.replaceAll(apiKey, "[redacted]")
  const clean = known.replace(credential, "[redacted]")
  return clean.length > most ? `${clean.slice(0, most)}…` : clean
}
