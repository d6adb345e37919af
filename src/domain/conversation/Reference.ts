/**
 * Addresses of resources begin so (section 2.9), and have at most 4,096 characters; anything else behind an `@` is
 * somebody's name, or just text.
 */
const reference =
  /(?<![^\s("'[{<,;:])@(?:<((?:mcp:|blob:|fs:\/\/\/)[^<>\n]{1,4096})>|((?:mcp:|blob:|fs:\/\/\/)\S{1,4096}))/g

/** What may belong to the sentence around it. */
const punctuation = new Set(".,;:!?)]}>\"'`*")

/**
 * The resources that a text names as `@<uri>` (decisions 8), each once, in their order. One with spaces in it stands in
 * angle brackets: `@<fs:///my notes.md>`. For each the addresses that may be meant, the likeliest first: signs at the
 * end may belong to the sentence.
 */
export const referencesIn = (text: string): ReadonlyArray<readonly [string, ...Array<string>]> => {
  const found = new Map<string, readonly [string, ...Array<string>]>()
  for (const [, bracketed, bare = ""] of text.matchAll(reference)) {
    if (bracketed !== undefined) {
      found.set(bracketed, [bracketed])
      continue
    }
    let end = bare.length
    while (punctuation.has(bare.charAt(end - 1))) end -= 1
    const without = bare.slice(0, end)
    found.set(without, without === bare ? [bare] : [without, bare])
  }
  return [...found.values()]
}
