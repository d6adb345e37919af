/**
 * Search of conversations is for a phrase as it stands, whatever its case (decisions 8): `%`, `_` and operators mean
 * themselves. What is compared are folded texts. Folding takes each character for itself, so that every character of a
 * folded text stands where it stands in the text.
 */
export const folded = (text: string): string => text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ")

/** Where a phrase was found in a text. */
export interface Found {
  /** The phrase as it is written there. */
  readonly matchedText: string
  /** With up to 50 characters on each side. */
  readonly context: string
}

/** Characters on each side of a match. */
const surroundings = 50

/** The first place that has the phrase in its own case, else the first that has it in any; undefined without one. */
export const foundIn = (text: string, phrase: string): Found | undefined => {
  const exact = text.indexOf(phrase)
  const start = exact >= 0 ? exact : folded(text).indexOf(folded(phrase))
  if (start < 0) return undefined
  const end = start + phrase.length
  // No character of more than one unit has more than two: so many units hold enough, and a cut one is at their far end.
  const before = Array.from(text.slice(Math.max(0, start - 2 * surroundings - 1), start))
    .slice(-surroundings)
    .join("")
  const after = Array.from(text.slice(end, end + 2 * surroundings + 1))
    .slice(0, surroundings)
    .join("")
  const matchedText = text.slice(start, end)
  return { matchedText, context: before + matchedText + after }
}
