import { Schema } from "effect"

/** The workspace has no session of this id. */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>()("SessionNotFound", { id: Schema.String }) {
  override get message() {
    return `There is no session ${JSON.stringify(this.id)}.`
  }
}

/** The workspace has as many active sessions as its agent takes. */
export class TooManySessions extends Schema.TaggedError<TooManySessions>()("TooManySessions", {
  most: Schema.Int,
  /** Milliseconds without activity after which one no longer counts. */
  millis: Schema.Int
}) {
  override get message() {
    return (
      `The agent takes at most ${this.most} sessions that were active within ${this.millis / 1_000} seconds. ` +
      "Delete one, wait, or raise `sessions.maxSessions` in the agent's configuration."
    )
  }
}
