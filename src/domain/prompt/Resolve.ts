import { Result, Schema } from "effect"
import type { Prompt, PromptArgument } from "./Prompt.ts"
import { MissingArguments } from "./PromptErrors.ts"

/** Values for a prompt's arguments, by their names. */
export type ArgumentValues = ReadonlyMap<string, string>

/** How a request gives them: JSON with texts, numbers and truth values (section 4.7). */
export const ArgumentsFromJson = Schema.fromJsonString(
  Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite, Schema.Boolean]))
)

export const valuesOf = (given: typeof ArgumentsFromJson.Type): ArgumentValues =>
  new Map(Object.entries(given).map(([name, value]) => [name, String(value)]))

/** Fails with the required ones that are not given. */
export const complete = (
  { arguments: declared, name }: Prompt,
  values: ArgumentValues
): Result.Result<void, MissingArguments> => {
  const missing = declared.filter((argument) => argument.required === true && !values.has(argument.name))
  return missing.length === 0
    ? Result.succeed(undefined)
    : Result.fail(new MissingArguments({ prompt: name, names: missing.map((argument) => argument.name) }))
}

/** Braces do not nest, so that a text of braces is read once and not once for each. */
const placeholder = /\{\{([^{}]*)\}\}/g

/** The place of what a user adds in their own words, unless it is an argument's name. */
const contextName = "context"

/**
 * A prompt's text with every `{{name}}` replaced (decisions 8). What takes its place is not read again. An argument that
 * is declared and not given leaves nothing; a placeholder that nobody declared or gave stays. Where the text has no
 * placeholder, the arguments are added as a paragraph; so is the context that has no place of its own.
 */
export const resolved = (
  text: string,
  declared: ReadonlyArray<PromptArgument>,
  values: ArgumentValues,
  context: string
): string => {
  const placed = new Set<string>()
  const names = new Set(declared.map(({ name }) => name))
  const replaced = text.replace(placeholder, (whole, inner: string) => {
    const name = inner.trim()
    if (name === "") return whole
    placed.add(name)
    const value = values.get(name)
    if (value !== undefined) return value
    return name === contextName && context !== "" ? context : names.has(name) ? "" : whole
  })
  const isContextPlaced = placed.has(contextName) && !values.has(contextName)
  const added = [
    ...(context === "" || isContextPlaced ? [] : [context]),
    ...(placed.size > 0 ? [] : [...values].map(([name, value]) => `${name}: ${value}`))
  ]
  return withParagraph(replaced, added.join("\n"))
}

export const withParagraph = (text: string, paragraph: string): string =>
  paragraph === "" ? text : text.trim() === "" ? paragraph : `${text}\n\n${paragraph}`
