import { Equal, Predicate, Result } from "effect"
import { isMap, isScalar, isSeq, type Node, type Pair, stringify, type YAMLMap } from "yaml"
import type { YamlEdit } from "../../application/ports/files/AgentYaml.ts"
import { keyOf, readYaml, type YamlPath, type YamlSource } from "./YamlSource.ts"

/** Values as a new text. Long lines stay whole: a folded prompt is hard to read. */
export const writeYaml = (value: unknown): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

/**
 * Sets and removes values. Only the lines of the smallest value that has to be written anew change; everything else
 * stays as its author wrote it, byte by byte.
 */
export const editYaml = (text: string, edits: ReadonlyArray<YamlEdit>): string => edits.reduce(editOnce, text)

const editOnce = (text: string, { path, value }: YamlEdit): string => {
  const mark = text.startsWith("\ufeff") ? "\ufeff" : ""
  const body = text.slice(mark.length)
  const source = sourceOf(body)
  // A text that is no YAML cannot be kept.
  if (source === undefined) return writeYaml(withValue(undefined, path, value))
  const after = withValue(source.value, path, value)
  if (isSame(source.value, after)) return text
  // First the value alone, then what is around it, and so on outwards.
  for (let length = path.length; length > 0; length--) {
    const outer = path.slice(0, length)
    const edited = splice(body, source, outer, valueAt(after, outer))
    // Anchors, odd styles and comments in odd places: what came out is kept only if it says what it should.
    if (edited !== undefined && isSame(sourceOf(edited)?.value, after)) return mark + edited
  }
  return mark + writeYaml(after)
}

const sourceOf = (text: string): YamlSource | undefined => Result.getOrUndefined(readYaml(text))

/** Two documents are equal when they are written the same: the order of keys is their author's. */
const isSame = (a: unknown, b: unknown): boolean => Equal.equals(JSON.stringify(a), JSON.stringify(b))

/** Plain data with a value in another place; undefined removes it. */
const withValue = (data: unknown, [segment, ...rest]: YamlPath, value: unknown): unknown => {
  if (segment === undefined) return value
  if (Array.isArray(data) && typeof segment === "number") {
    const inner = withValue(data[segment], rest, value)
    return inner === undefined ? data.toSpliced(segment, 1) : data.toSpliced(segment, 1, inner)
  }
  const entries = Predicate.isObject(data) ? Object.entries(data) : []
  const key = String(segment)
  const at = entries.findIndex(([name]) => name === key)
  const inner = withValue(entries[at]?.[1], rest, value)
  if (inner === undefined) return Object.fromEntries(entries.filter(([name]) => name !== key))
  if (at === -1) return Object.fromEntries([...entries, [key, inner]])
  return Object.fromEntries(entries.with(at, [key, inner]))
}

const valueAt = (data: unknown, path: YamlPath): unknown =>
  path.reduce<unknown>(
    (inner, key) =>
      Predicate.isObjectOrArray(inner) && Object.hasOwn(inner, key) ? Reflect.get(inner, key) : undefined,
    data
  )

/** The text with one value set, added or removed where it stands; undefined when that takes more than its own lines. */
const splice = (text: string, source: YamlSource, path: YamlPath, value: unknown): string | undefined => {
  const key = path.at(-1)
  const parent = source.nodeAt(path.slice(0, -1))
  if (isSeq<Node>(parent) && typeof key === "number") return spliceScalar(text, parent.items[key], value)
  if (!isMap<Node, Node | null>(parent) || key === undefined) return undefined
  const pair = parent.items.find((item) => keyOf(item.key) === String(key))
  const scalar = pair === undefined ? undefined : spliceScalar(text, pair.value, value)
  if (scalar !== undefined) return scalar
  return parent.flow === true ? undefined : spliceLines(text, parent, pair, String(key), value)
}

/** A text, a number or so in place of another one on the same line. */
const spliceScalar = (text: string, node: Node | null | undefined, value: unknown): string | undefined => {
  if (!isScalar(node) || Predicate.isObjectOrArray(value) || value === undefined) return undefined
  const range = node.range
  if (range === undefined || range === null || range[0] === range[1] || node.type?.startsWith("BLOCK") === true)
    return undefined
  // In braces these end a plain text.
  const endsPlain = Predicate.isString(value) && /[,[\]{}]/.test(value)
  const style =
    node.type === "QUOTE_SINGLE" || node.type === "QUOTE_DOUBLE" ? node.type : endsPlain ? "QUOTE_DOUBLE" : "PLAIN"
  const written = stringify(value, {
    lineWidth: 0,
    defaultStringType: style,
    singleQuote: style === "QUOTE_SINGLE"
  }).trimEnd()
  return written.includes("\n") ? undefined : text.slice(0, range[0]) + written + text.slice(range[1])
}

/** Whole lines of a block map: those of a pair are replaced or removed, or new ones come after its last pair. */
const spliceLines = (
  text: string,
  { items }: YAMLMap<Node, Node | null>,
  pair: Pair<Node, Node | null> | undefined,
  key: string,
  value: unknown
): string | undefined => {
  const [first] = items
  const last = items.at(-1)
  const start = first?.key.range?.[0]
  if (first === undefined || last === undefined || start === undefined) return undefined
  const indent = start - lineStart(text, start)
  const written = value === undefined ? "" : indented(writeYaml({ [key]: value }), indent, lineBreakOf(text))
  if (pair === undefined) {
    const end = endOf(text, last)
    const before = text.slice(0, end)
    return (before.endsWith("\n") || before === "" ? before : before + lineBreakOf(text)) + written + text.slice(end)
  }
  const from = lineStart(text, pair.key.range?.[0] ?? 0)
  // A list's dash or a brace before the key.
  if (text.slice(from, from + indent).trim() !== "" || (value === undefined && items.length === 1)) return undefined
  return text.slice(0, from) + written + text.slice(endOf(text, pair))
}

/** After the last line that has something of the pair. Comments below it belong to what follows. */
const endOf = (text: string, { key, value }: Pair<Node, Node | null>): number => {
  const end = Math.max(key.range?.[1] ?? 0, value?.range?.[1] ?? 0)
  // The range of a block ends with its last line break.
  if (text[end - 1] === "\n") return end
  const next = text.indexOf("\n", end)
  return next === -1 ? text.length : next + 1
}

const lineStart = (text: string, offset: number): number => text.lastIndexOf("\n", offset - 1) + 1

const lineBreakOf = (text: string): string => (text.includes("\r\n") ? "\r\n" : "\n")

const indented = (text: string, spaces: number, lineBreak: string): string =>
  text
    .split("\n")
    .map((line) => (line === "" ? line : " ".repeat(spaces) + line))
    .join(lineBreak)
