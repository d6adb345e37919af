import { Schema } from "effect"

/** A turn ends with an `error` event (decisions 6) of this code and text. */
export class TurnFailed extends Schema.TaggedError<TurnFailed>()("TurnFailed", {
  code: Schema.String,
  message: Schema.String,
  /** Whether the same message may succeed later. */
  recoverable: Schema.Boolean
}) {}

/** Somebody cancelled the turn, or its session was reset or removed: what runs for it is of no use any more. */
export class TurnCancelled extends Schema.TaggedError<TurnCancelled>()("TurnCancelled", {}) {}
