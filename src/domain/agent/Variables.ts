import { Predicate } from "effect"

/** `$NAME` and `${NAME}`, with names as they are in `.env`; and the place of the agent's own files. */
const reference = /\$\{\{\s*[\w-]+\.agent_dir\s*\}\}|\$(?:([A-Z_][A-Z0-9_]*)(?![A-Za-z0-9_])|\{([A-Z_][A-Z0-9_]*)\})/g

/** What stands for the agent's directory: files of an agent are named relative to it. */
const agentDirectory = "."

export interface Expansion {
  readonly value: unknown
  /** Variables that nobody has set, by the place of the value that names them. */
  readonly unset: ReadonlyArray<{ readonly path: ReadonlyArray<string | number>; readonly name: string }>
}

/**
 * Plain data with the variables in its texts replaced (decisions 4); an unset one is an empty text. Keys stay, and so
 * does what only looks like a variable: `$5`, `$lower`, `$Name`.
 */
export const expandVariables = (data: unknown, variables: ReadonlyMap<string, string>): Expansion => {
  const unset: Array<Expansion["unset"][number]> = []
  const visit = (value: unknown, path: ReadonlyArray<string | number>): unknown => {
    if (Predicate.isString(value)) {
      if (!value.includes("$")) return value
      return value.replace(reference, (_text, plain?: string, braced?: string) => {
        const name = plain ?? braced
        if (name === undefined) return agentDirectory
        const found = variables.get(name)
        if (found === undefined) unset.push({ path, name })
        return found ?? ""
      })
    }
    if (Array.isArray(value)) return value.map((item, index) => visit(item, [...path, index]))
    if (!Predicate.isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, visit(inner, [...path, key])]))
  }
  return { value: visit(data, []), unset }
}

/** Whether a text names a variable, so that what it stands for is kept elsewhere. */
export const namesVariable = (text: string): boolean => text.search(reference) !== -1
