import { Schema } from "effect"
import type { BlobId } from "../resource/Blob.ts"

/** What a custom prompt may be called (decisions 8). */
export const PromptName = Schema.String.check(
  Schema.isPattern(/^[a-z0-9][a-z0-9_-]{0,63}$/, {
    expected: "1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit"
  })
).pipe(Schema.brand("PromptName"))
export type PromptName = typeof PromptName.Type

/** Where a prompt comes from: packaged with the service, the agent's configuration, the user, or an MCP server. */
export const PromptSource = Schema.Literals(["builtin", "starter", "custom", "mcp"])
export type PromptSource = typeof PromptSource.Type

export const PromptArgument = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  required: Schema.optionalKey(Schema.Boolean)
})
export type PromptArgument = typeof PromptArgument.Type

/** A prompt without its text (section 2.8); `title` is beside the contract's fields, for those that have one. */
export const Prompt = Schema.Struct({
  name: Schema.String,
  title: Schema.optionalKey(Schema.String),
  description: Schema.String,
  arguments: Schema.Array(PromptArgument),
  source: PromptSource
}).annotate({ identifier: "Prompt" })
export type Prompt = typeof Prompt.Type

/** A prompt that the service itself has the text of. */
export interface PromptText {
  readonly prompt: Prompt
  /** With `{{name}}` where arguments go. */
  readonly text: string
  /** The blob that was given with it. */
  readonly resource: BlobId | undefined
}

/** A prompt that a user made. `id` is what its blob is kept for: a name can be given again. */
export interface CustomPrompt extends PromptText {
  readonly id: string
}

/** Inside the braces of a placeholder spaces at the ends and braces mean nothing. */
const ArgumentName = Schema.String.check(
  Schema.isPattern(/^[^{}\s](?:[^{}\r\n]{0,62}[^{}\s])?$/u, {
    expected: "1 to 64 characters without braces and line breaks, and without spaces at the ends"
  })
)

const Short = Schema.String.check(Schema.isMaxCodePoints(200))
const Description = Schema.String.check(Schema.isMaxCodePoints(2_000))

/** With its padding, and nothing else in it. */
const BytesFromBase64 = Schema.NonEmptyString.check(Schema.isBase64()).pipe(
  Schema.decodeTo(Schema.Uint8ArrayFromBase64)
)

const mostArguments = 50

/** What a custom prompt is made from (section 4.7). */
export const NewPrompt = Schema.Struct({
  name: PromptName,
  title: Schema.optionalKey(Short),
  description: Schema.optionalKey(Description),
  content: Schema.NonEmptyString,
  arguments: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        name: ArgumentName,
        description: Schema.optionalKey(Description),
        required: Schema.optionalKey(Schema.Boolean)
      })
    ).check(
      Schema.isMaxLength(mostArguments),
      Schema.makeFilter(
        (given) => new Set(given.map(({ name }) => name)).size === given.length || "arguments of different names"
      )
    )
  ),
  resource: Schema.optionalKey(
    Schema.Struct({
      base64: BytesFromBase64,
      mimeType: Schema.String.check(
        Schema.isMaxLength(255),
        Schema.isPattern(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:; ?[\x21-\x7e ]+)?$/, { expected: "a type like text/plain" })
      ),
      filename: Schema.optionalKey(
        Schema.String.check(
          Schema.isPattern(/^[^\p{Cc}/\\]{1,255}$/u, { expected: "1 to 255 characters without / and \\" })
        )
      )
    })
  )
})
export type NewPrompt = typeof NewPrompt.Type

/** As it is listed. */
export const promptOf = ({ arguments: given = [], description = "", name, title }: NewPrompt): Prompt => ({
  name,
  ...(title === undefined ? {} : { title }),
  description,
  arguments: given.map((argument) => ({ ...argument, required: argument.required ?? false })),
  source: "custom"
})
