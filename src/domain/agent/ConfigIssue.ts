import { Schema } from "effect"

/** What can be wrong with an agent's YAML (decisions 4). */
export const ConfigErrorCode = Schema.Literals([
  "yaml_syntax",
  "unknown_key",
  "missing_required",
  "invalid_type",
  "invalid_enum",
  "invalid_value",
  "too_big",
  "too_small",
  "unsupported_model"
])
export type ConfigErrorCode = typeof ConfigErrorCode.Type

export const ConfigWarningCode = Schema.Literals(["missing_api_key", "undefined_variable", "raw_api_key"])
export type ConfigWarningCode = typeof ConfigWarningCode.Type

/** One error of an agent's YAML (section 4.2): where it stands, 1-based, and what it takes. `path` is like `llm.model`. */
export const ConfigError = Schema.Struct({
  line: Schema.Int,
  column: Schema.Int,
  path: Schema.String,
  message: Schema.String,
  code: ConfigErrorCode
})
export type ConfigError = typeof ConfigError.Type

/** Something that an agent can start with, but hardly wants. */
export const ConfigWarning = Schema.Struct({
  path: Schema.String,
  message: Schema.String,
  code: ConfigWarningCode
})
export type ConfigWarning = typeof ConfigWarning.Type
