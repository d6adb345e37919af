import { Schema } from "effect"

/**
 * The store cannot be reached. No use case can mend that, so it travels as a defect of every storage port and the edge
 * answers 503.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect()
}) {
  override get message() {
    return "The store cannot be reached."
  }
}
