/**
 * The text of a `.env` file, as people write it and as the npm package `dotenv` reads it: `NAME=value`, `export NAME=…`
 * or `NAME: value` on a line; values bare up to a `#`, or in single, double or back quotes, then over several lines if
 * need be. Inside quotes nothing is escaped but `\n` and `\r` in double ones. Of several lines with one name the last
 * holds.
 */

/** The variables of the file. */
export const parseEnv = (text: string): ReadonlyMap<string, string> =>
  new Map(assignments(text).map(({ name, value }) => [name, value]))

/**
 * The same file with one variable set, or with null removed. All other lines, and the comments, stay as they are.
 * Neither name nor value is checked here; a value must have no line break.
 */
export const setEnv = (text: string, name: string, value: string | null): string => {
  if (value === null) return without(text, assignments(text), name)
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n"
  const line = `${name}=${written(value)}${lineEnd}`
  const changed = replaced(text, name, value) ?? `${text}${/(?:^|\n)$/.test(text) ? "" : lineEnd}${line}`
  if (parseEnv(changed).get(name) === value) return changed
  // Somebody forgot to close a quote, and it would end in the new value. Nothing comes before the first line.
  const rest = without(text, assignments(text), name)
  return rest.startsWith(byteOrderMark) ? `${byteOrderMark}${line}${rest.slice(1)}` : `${line}${rest}`
}

/** With the value in the last line of the name; an earlier one would keep a secret that is over. */
const replaced = (text: string, name: string, value: string): string | undefined => {
  const all = assignments(text)
  const last = all.findLastIndex((each) => each.name === name)
  const place = all[last]
  if (place === undefined) return undefined
  const changed = `${text.slice(0, place.valueStart)}${written(value)}${text.slice(place.valueEnd)}`
  return without(changed, all.slice(0, last), name)
}

/** Without those lines that have the name. From the end, so that what is before keeps its place. */
const without = (text: string, lines: ReadonlyArray<Assignment>, name: string): string =>
  lines
    .filter((each) => each.name === name)
    .reduceRight((kept, { end, start }) => kept.slice(0, start) + kept.slice(end), text)

interface Assignment {
  readonly name: string
  readonly value: string
  /** Of all its lines, with the line break at their end. */
  readonly start: number
  readonly end: number
  /** Of the value as it is written. */
  readonly valueStart: number
  readonly valueEnd: number
}

const byteOrderMark = "\uFEFF"

/** Everything before a value. */
const head = /[^\S\n]*(?:export[^\S\n]+)?([\w.-]+)(?:[^\S\n]*=[^\S\n]*|:[^\S\n]+)/y

/** A value in quotes, if nothing but a comment comes after it. */
const quoted = /(?:'(?:\\'|[^'])*'|"(?:\\"|[^"])*"|`(?:\\`|[^`])*`)(?=[^\S\n]*(?:#[^\n]*)?(?:\n|$))/y

const bare = /[^#\r\n]*/y

/**
 * What a value that no quotes can hold is marked with, and how it is written then: as a JSON text whose quotes and
 * backslashes are `\u0022` and `\u005c`, so that other readers, who do not know the mark, find its end.
 */
const mark = / # JSON(?=[^\S\n]|\n|$)/y
const marked = " # JSON"

const assignments = (text: string): ReadonlyArray<Assignment> => {
  const found: Array<Assignment> = []
  const at = (pattern: RegExp, position: number) => {
    pattern.lastIndex = position
    return pattern.exec(text)
  }
  const afterLine = (position: number) => {
    const lineEnd = text.indexOf("\n", position)
    return lineEnd === -1 ? text.length : lineEnd + 1
  }
  for (let start = 0; start < text.length;) {
    const begun = at(head, start)
    const [all = "", name] = begun ?? []
    if (name === undefined) {
      start = afterLine(start)
      continue
    }
    const valueStart = start + all.length
    const inQuotes = at(quoted, valueStart)?.[0]
    const raw = inQuotes ?? at(bare, valueStart)?.[0].trimEnd() ?? ""
    const rawEnd = valueStart + raw.length
    const json = inQuotes?.startsWith('"') === true && at(mark, rawEnd) !== null ? fromJson(raw) : undefined
    const end = afterLine(rawEnd)
    found.push({
      name,
      value: json ?? read(raw, inQuotes !== undefined),
      start,
      end,
      valueStart,
      valueEnd: json === undefined ? rawEnd : rawEnd + marked.length
    })
    start = end
  }
  return found
}

const read = (raw: string, isQuoted: boolean): string => {
  const inside = isQuoted ? raw.slice(1, -1) : raw
  const text = inside.replaceAll(/\r\n?/g, "\n")
  return raw.startsWith('"') ? text.replaceAll("\\n", "\n").replaceAll("\\r", "\r") : text
}

/** Undefined if it is none: then the mark is a comment like any other. */
const fromJson = (raw: string): string | undefined => {
  if (!/^"(?:[^"\\]|\\u[0-9a-f]{4})*"$/.test(raw)) return undefined
  return raw.slice(1, -1).replaceAll(/\\u([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
}

/** A value as it is written: as plainly as it can be read back, here and by others. */
const written = (value: string): string => {
  if (/^[\w./:@%+,=~^-]+$/.test(value)) return value
  // A backslash before the closing quote would hide it from some readers; `\n` in double quotes is a line break.
  const quote = ["'", '"', "`"].find(
    (mark) =>
      !value.includes(mark) && !value.endsWith("\\") && (mark !== '"' || !/\\[nr]/.test(value)) && !value.includes("\r")
  )
  if (quote !== undefined) return `${quote}${value}${quote}`
  if (/^[^'"`]/.test(value) && !/[#\r\n]/.test(value) && value.trim() === value) return value
  const escaped = value.replaceAll(
    /["\\\r\n]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )
  return `"${escaped}"${marked}`
}
