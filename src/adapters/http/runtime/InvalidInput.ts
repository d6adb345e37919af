import { Schema } from "effect"
import { IssueCode } from "../../../domain/shared/CodedIssue.ts"

/** The request's body, query or path has mistakes. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>()("InvalidInput", {
  issues: Schema.Array(Schema.Struct({ path: Schema.Array(Schema.String), code: IssueCode, message: Schema.String }))
}) {
  override get message() {
    return this.issues
      .map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
      .join("; ")
  }
}
