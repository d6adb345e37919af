import { Result } from "effect"
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  visit,
  type YAMLError
} from "yaml"

export interface YamlText {
  readonly value: unknown
  /** The line, from 1, of a value or, where it is missing, of what it is missing from. */
  readonly lineOf: (path: ReadonlyArray<PropertyKey>) => number
}

/** What is wrong with the text, in one line. `line` counts from 1 and is absent when the whole text is at fault. */
export interface YamlFault {
  readonly problem: string
  readonly line: number | undefined
}

export const mostBytes = 64 * 1024

export const tooLarge = "make it smaller, at most 64 KB"

/** YAML of at most 64 KB. Repeated keys, unknown tags and alias bombs are faults; an empty text is undefined. */
export const parseYaml = (text: string): Result.Result<YamlText, YamlFault> => {
  if (Buffer.byteLength(text) > mostBytes) return Result.fail({ problem: tooLarge, line: undefined })
  const lines = new LineCounter()
  const lineAt = (offset: number) => lines.linePos(offset).line

  return Result.gen(function* () {
    // Deep nesting overflows the stack of the parser, and an alias bomb throws only when it is turned into values.
    const document = yield* attempt("use less nesting", () =>
      // The library's own check for repeated keys compares every key with every other one.
      parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, uniqueKeys: false })
    )
    const [error] = [...document.errors, ...document.warnings]
    if (error !== undefined) {
      return yield* Result.fail({ problem: inOurWords(error), line: lineAt(error.pos[0]) })
    }
    const fault = yield* attempt("use less nesting", () => faultIn(document.contents))
    if (fault !== undefined) return yield* Result.fail({ problem: fault.problem, line: lineAt(fault.offset) })
    const value = yield* attempt("use fewer aliases", (): unknown => document.toJS() ?? undefined)

    const lineOf = (path: ReadonlyArray<PropertyKey>) => {
      let node: Node | null | undefined = document.contents
      let offset = node?.range?.[0] ?? 0
      for (const segment of path) {
        if (isAlias(node)) node = node.resolve(document)
        if (isMap<Node, Node | null>(node)) {
          const pair: Pair<Node, Node | null> | undefined = node.items.find(
            ({ key }) => isScalar(key) && String(key.value) === segment
          )
          if (pair === undefined) break
          offset = pair.key.range?.[0] ?? offset
          node = pair.value
        } else if (isSeq<Node>(node) && typeof segment === "number") {
          node = node.items[segment]
          offset = node?.range?.[0] ?? offset
        } else break
      }
      return lineAt(offset)
    }
    return { value, lineOf }
  })
}

const attempt = <A>(problem: string, evaluate: () => A): Result.Result<A, YamlFault> =>
  Result.try({ try: evaluate, catch: () => ({ problem, line: undefined }) })

const inOurWords = ({ code, message }: YAMLError): string => {
  if (code === "RESOURCE_EXHAUSTION") return "use less nesting"
  if (code === "MULTIPLE_DOCS") return "remove this second document"
  if (code === "NON_STRING_KEY") return "use plain text as a key"
  return message.replace(/\s+/g, " ")
}

interface Fault {
  readonly problem: string
  readonly offset: number
}

/** The first key that its map has already, or alias of nothing. */
const faultIn = (contents: Node | null): Fault | undefined => {
  const anchors = new Set<string>()
  let fault: Fault | undefined
  const stop = (problem: string, node: Node) => {
    fault = { problem, offset: node.range?.[0] ?? 0 }
    return visit.BREAK
  }
  visit(contents, {
    Value: (_, node) => {
      if (node.anchor !== undefined) anchors.add(node.anchor)
      if (!isMap(node)) return undefined
      const keys = new Set<string>()
      for (const { key } of node.items) {
        if (!isScalar(key)) continue
        const name = String(key.value)
        if (keys.has(name)) return stop("remove this key, it stands above already", key)
        keys.add(name)
      }
      return undefined
    },
    Alias: (_, alias) =>
      anchors.has(alias.source) ? undefined : stop("define the anchor of this alias above it", alias)
  })
  return fault
}
