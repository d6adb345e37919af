import { Schema } from "effect"

/** The operator's models file cannot be used. The message is one line: the file, the line, what to change. */
export class ModelsFileInvalid extends Schema.TaggedError<ModelsFileInvalid>()("ModelsFileInvalid", {
  file: Schema.String,
  /** From 1; undefined when the file as a whole is at fault. */
  line: Schema.UndefinedOr(Schema.Int),
  problem: Schema.String
}) {
  override get message() {
    return `MODELS_FILE ${this.file}${this.line === undefined ? "" : `:${this.line}`}: ${this.problem}`
  }
}
