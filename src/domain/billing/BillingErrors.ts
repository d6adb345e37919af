import { Schema } from "effect"

/** The account's free credit does not cover the request's worst case. Amounts are USD, for the message. */
export class InsufficientCredits extends Schema.TaggedError<InsufficientCredits>()("InsufficientCredits", {
  neededUsd: Schema.Number,
  availableUsd: Schema.Number
}) {
  override get message() {
    return (
      `Insufficient credits: the request may cost up to ${this.neededUsd} USD and ${this.availableUsd} USD are ` +
      "free (credit held by running requests is not). Lower max_tokens, shorten the input or add credit."
    )
  }
}
