import { Result } from "effect"
import {
  type Alias,
  Composer,
  CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  type YAMLError,
  YAMLMap,
  YAMLSeq
} from "yaml"

export type YamlPath = ReadonlyArray<string | number>

/** A text that is YAML of one document. */
export interface YamlSource {
  /** Plain data. Keys are own properties whatever they are called. */
  readonly value: unknown
  /** Null for an empty text. */
  readonly root: Node | null
  /** The node at a path, through aliases. */
  readonly nodeAt: (path: YamlPath) => Node | null | undefined
  /** Where the key at a path stands, or an item of a list. */
  readonly keyOffset: (path: YamlPath) => number
  /** Where the value at a path begins; of one that is not there, the nearest thing around it. */
  readonly valueOffset: (path: YamlPath) => number
  readonly position: (offset: number) => YamlPosition
}

/** 1-based. */
export interface YamlPosition {
  readonly line: number
  readonly column: number
}

export interface YamlFault extends YamlPosition {
  readonly code: "yaml_syntax" | "too_big"
  readonly message: string
  readonly path: YamlPath
}

/** Decisions 4. */
const mostBytes = 64 * 1024

/** No configuration is nested deeper, and what reads it recursively must not overflow. */
const deepest = 64

/** How many values aliases may repeat: far more than a configuration needs, far less than a bomb makes. */
const mostRepeated = 10_000

/** What YAML does not take, and what a decoder leaves of bytes that are no UTF-8. */
const unprintable = /[^\t\n\r\u0020-\u007e\u0085\u00a0-\ud7ff\ue000-\ufefe\uff00-\ufffc\u{10000}-\u{10ffff}]/u

/** Reads YAML of at most 64 KB; else the first thing that is wrong with it. */
export const readYaml = (source: string): Result.Result<YamlSource, YamlFault> => {
  const text = source.startsWith("\ufeff") ? source.slice(1) : source
  const lines = new LineCounter()
  const position = (offset: number): YamlPosition => {
    const { col, line } = lines.linePos(Math.min(Math.max(offset, 0), text.length))
    return line === 0 ? { line: 1, column: offset + 1 } : { line, column: col }
  }
  const fault = (offset: number, message: string, path: YamlPath = [], code: YamlFault["code"] = "yaml_syntax") =>
    Result.fail<YamlFault>({ code, message, path, ...position(offset) })

  if (Buffer.byteLength(text) > mostBytes) return fault(0, "The document is larger than 64 KB.", [], "too_big")
  const odd = text.search(unprintable)
  if (odd !== -1) {
    for (let at = text.indexOf("\n"); at !== -1 && at < odd; at = text.indexOf("\n", at + 1)) lines.addNewLine(at + 1)
    if (lines.lineStarts[0] !== 0) lines.lineStarts.unshift(0)
    return fault(odd, `The document is not UTF-8 text: it has the character ${named(text.codePointAt(odd))}.`)
  }

  const parsed = parse(text, lines)
  const tokens = Result.getOrElse(parsed, () => [])
  const tooDeep = Result.isFailure(parsed) ? parsed.failure : deeperThan(deepest, tokens)
  if (tooDeep !== undefined) return fault(tooDeep, `The document is nested deeper than ${deepest} levels.`)
  const composer = new Composer({
    prettyErrors: false,
    stringKeys: true,
    // The library compares every key with every other one; the walk below does it once for each.
    uniqueKeys: false
  })
  const [document, second] = composer.compose(tokens, true, text.length)
  if (document === undefined) return fault(0, "The document is empty.")
  const [error] = [...document.errors, ...document.warnings]
  if (error !== undefined) return fault(error.pos[0], inOurWords(error))
  if (second !== undefined) return fault(second.range[0], "This is a second document: a configuration is one.")

  const walked = walk(document)
  if (Result.isFailure(walked)) {
    const { code, message, offset, path } = walked.failure
    return fault(offset, message, path, code)
  }

  const nodeAt = (path: YamlPath): Node | null | undefined => {
    let node: Node | null | undefined = document.contents
    for (const segment of path) {
      node = inner(resolved(node, document), segment)?.value
      if (node === undefined) return undefined
    }
    return node
  }
  const offsetAt = (path: YamlPath, ofKey: boolean): number => {
    let node: Node | null | undefined = document.contents
    let offset = startOf(node) ?? 0
    for (const [at, segment] of path.entries()) {
      const found = inner(resolved(node, document), segment)
      if (found === undefined) break
      const wantsKey = ofKey && at === path.length - 1
      offset = (wantsKey ? undefined : startOf(found.value)) ?? startOf(found.key) ?? startOf(found.value) ?? offset
      node = found.value
    }
    return offset
  }
  return Result.succeed({
    value: walked.success,
    root: document.contents,
    nodeAt,
    keyOffset: (path) => offsetAt(path, true),
    valueOffset: (path) => offsetAt(path, false),
    position
  })
}

const startOf = (node: Node | null | undefined): number | undefined => node?.range?.[0]

const resolved = (node: Node | null | undefined, document: Document): Node | null | undefined =>
  isAlias(node) ? node.resolve(document) : node

/** The pair of a key, or an item of a list. */
const inner = (
  node: Node | null | undefined,
  segment: string | number
): { readonly key: Node | undefined; readonly value: Node | null } | undefined => {
  if (isMap<Node, Node | null>(node)) {
    const pair = node.items.find(({ key }) => keyOf(key) === String(segment))
    return pair === undefined ? undefined : { key: pair.key, value: pair.value }
  }
  if (isSeq<Node>(node) && typeof segment === "number") {
    const value = node.items[segment]
    return value === undefined ? undefined : { key: undefined, value }
  }
  return undefined
}

/** Keys are texts, whatever they look like. */
export const keyOf = (key: Node | null): string => (isScalar(key) && typeof key.value === "string" ? key.value : "")

const named = (code: number | undefined): string => `U+${(code ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

const inOurWords = ({ code, message }: YAMLError): string => {
  if (code === "NON_STRING_KEY") return "A key is a plain text."
  if (code === "MULTIPLE_DOCS") return "This is a second document: a configuration is one."
  const [first = ""] = message.split("\n")
  return /[.:!?]$/.test(first) ? first : `${first}.`
}

/** Its syntax, or where brackets are nested too deep: the library takes a second to close thousands of them. */
const parse = (text: string, lines: LineCounter): Result.Result<ReadonlyArray<CST.Token>, number> => {
  const parser = new Parser(lines.addNewLine)
  const tokens: Array<CST.Token> = []
  lines.addNewLine(0)
  let open = 0
  let isScalar = false
  for (const lexeme of new Lexer().lex(text)) {
    if (!isScalar && (lexeme === "[" || lexeme === "{") && ++open > deepest) return Result.fail(parser.offset)
    if (!isScalar && (lexeme === "]" || lexeme === "}")) open--
    isScalar = lexeme === CST.SCALAR
    for (const token of parser.next(lexeme)) tokens.push(token)
  }
  for (const token of parser.end()) tokens.push(token)
  return Result.succeed(tokens)
}

/** Where the syntax is nested deeper than so many levels. Without recursion: it is this that bounds all recursion. */
const deeperThan = (levels: number, tokens: ReadonlyArray<CST.Token>): number | undefined => {
  const open = tokens.map((token) => ({ token, depth: 0 }))
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { depth, token } = next
    if (token.type === "document") {
      if (token.value !== undefined) open.push({ token: token.value, depth })
    } else if (CST.isCollection(token)) {
      if (depth === levels) return token.offset
      for (const { key, value } of token.items) {
        if (key !== undefined && key !== null) open.push({ token: key, depth: depth + 1 })
        if (value !== undefined) open.push({ token: value, depth: depth + 1 })
      }
    }
  }
  return undefined
}

interface WalkFault {
  readonly offset: number
  readonly message: string
  readonly path: YamlPath
  readonly code?: YamlFault["code"]
}

/** Values behind an anchor; undefined while they are still being read. */
type Anchors = Map<string, { readonly value: unknown; readonly size: number } | undefined>

/** The document as plain data. Repeated keys, cycles and too many repetitions by aliases are faults. */
const walk = (document: Document): Result.Result<unknown, WalkFault> => {
  const anchors: Anchors = new Map()
  let size = 0
  let repeated = 0
  let fault: WalkFault | undefined

  const stop = (node: Node, message: string, path: YamlPath, code?: YamlFault["code"]): undefined => {
    fault ??= { offset: startOf(node) ?? 0, message, path, ...(code === undefined ? {} : { code }) }
    return undefined
  }
  const repeat = (alias: Alias, path: YamlPath): unknown => {
    const { source } = alias
    const found = anchors.get(source)
    if (found === undefined) {
      return stop(alias, anchors.has(source) ? `*${source} contains itself.` : `There is no &${source} above.`, path)
    }
    repeated += found.size
    size += found.size
    return repeated > mostRepeated ? stop(alias, "Aliases repeat too much.", path, "too_big") : found.value
  }
  const visit = (node: Node | null, path: YamlPath): unknown => {
    if (fault !== undefined || node === null) return null
    if (isAlias(node)) return repeat(node, path)
    const { anchor } = node
    const before = size++
    if (anchor !== undefined) anchors.set(anchor, undefined)
    const value = plain(node, path)
    if (anchor !== undefined) anchors.set(anchor, { value, size: size - before })
    return value
  }
  const plain = (node: Node, path: YamlPath): unknown => {
    // Sets and ordered maps are kinds of maps and lists that only a tag makes.
    if (isMap<Node, Node | null>(node) && node.constructor === YAMLMap) {
      const keys = new Set<string>()
      const entries: Array<[string, unknown]> = []
      for (const { key, value } of node.items) {
        const name = keyOf(key)
        if (keys.has(name))
          return stop(key, `The key ${JSON.stringify(brief(name))} stands above already.`, [...path, name])
        keys.add(name)
        entries.push([name, visit(value, [...path, name])])
      }
      return Object.fromEntries(entries)
    }
    if (isSeq<Node>(node) && node.constructor === YAMLSeq) {
      return node.items.map((item, index) => visit(item, [...path, index]))
    }
    if (isScalar(node)) {
      const { value } = node
      if (value === null || typeof value === "string" || typeof value === "boolean" || typeof value === "number") {
        return value
      }
    }
    return stop(node, "This kind of value is not taken: write a text, a number, true, false, a list or a map.", path)
  }
  const value = visit(document.contents, [])
  return fault === undefined ? Result.succeed(value) : Result.fail(fault)
}

const brief = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text)
