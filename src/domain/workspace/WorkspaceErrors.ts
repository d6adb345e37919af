import { Schema } from "effect"

/** Somebody else has changed what a change was based on. Nothing of it was done; read again and repeat. */
export class WorkspaceConflict extends Schema.TaggedError<WorkspaceConflict>()("WorkspaceConflict", {
  path: Schema.String
}) {
  override get message() {
    return `${this.path} was changed by another operation at the same time. Read it again and repeat the request.`
  }
}
