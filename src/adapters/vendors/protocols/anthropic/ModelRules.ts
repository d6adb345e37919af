/**
 * What differs between the vendor's models so much that a request has to be written for one of them. The wire tells none
 * of it, so the name has to; a name of another pattern counts as the newest. What is not here a model refuses itself, in
 * words that say it better than a table that grows old (sampling on newer models, efforts that one does not have).
 */
export interface ModelRules {
  /** "adaptive": an effort says how much. "budget": a number of tokens does, which only models before 4.6 take. */
  readonly thinking: "adaptive" | "budget"
  /** Whether the model thinks when nothing is said. */
  readonly thinksByDefault: boolean
  /** How thinking is put off. Models that always think refuse it. */
  readonly off: "between_tools" | "disabled"
  readonly takesEffort: boolean
  /** Whether messages of the system may stand between the others. */
  readonly systemBetween: boolean
}

/** `claude-opus-4-5-20251101`, `claude-fable-5`, `claude-3-7-sonnet-20250219`; a date is no minor version. */
const pattern = /claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/

export const rulesOf = (model: string): ModelRules => {
  const [, family = "", major = "", minor = "0"] = pattern.exec(model) ?? []
  const version = major === "" ? newest : Number(major) * 100 + Number(minor)
  const adaptive = version >= 406
  return {
    thinking: adaptive ? "adaptive" : "budget",
    thinksByDefault: version >= 500,
    off: family === "sonnet" && version >= 505 ? "between_tools" : "disabled",
    takesEffort: adaptive || (family === "opus" && version === 405),
    systemBetween: version >= 408 && version !== newest
  }
}

const newest = Number.MAX_SAFE_INTEGER
