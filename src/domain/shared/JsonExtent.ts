/** JSON nested deeper than this breaks stores, and nobody means it. */
export const deepestJson = 128

/** A value of two bytes takes a hundred in memory: 32 MiB of them would take gigabytes and seconds. */
export const mostJsonValues = 500_000

/** How deep a JSON text is nested and about how many values it has, found without parsing it. Strings are skipped. */
export const extentOf = (text: string): { readonly depth: number; readonly values: number } => {
  let open = 0
  let depth = 0
  let values = 1
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22:
        at = endOfString(text, at)
        break
      case 0x2c:
        values++
        break
      case 0x5b:
      case 0x7b:
        values++
        depth = Math.max(depth, ++open)
        break
      case 0x5d:
      case 0x7d:
        open--
    }
  }
  return { depth, values }
}

/** Where the string that begins here ends: at the first quote after an even number of backslashes. */
const endOfString = (text: string, start: number): number => {
  let end = start
  for (;;) {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return end
  }
}
