import { Schema } from "effect"

/** A variable of `.env` and nothing else, as configurations name it: `$OPENAI_API_KEY` or `${OPENAI_API_KEY}`. */
export const VariableReference = Schema.String.check(
  Schema.isPattern(/^\$(?:[A-Z_][A-Z0-9_]*|\{[A-Z_][A-Z0-9_]*\})$/, {
    expected: "a variable of .env such as $OPENAI_API_KEY"
  })
)

/**
 * `preferences.yml` of a workspace (decisions 3): which model the user wants in every agent that is installed. The key
 * is the name of a variable, never the key itself. Other sections are others' affair.
 */
export const Preferences = Schema.Struct({
  llm: Schema.optionalKey(
    Schema.Struct({
      provider: Schema.NonEmptyString,
      model: Schema.NonEmptyString,
      apiKey: Schema.optionalKey(VariableReference),
      baseURL: Schema.optionalKey(Schema.NonEmptyString)
    })
  )
})
export type Preferences = typeof Preferences.Type
