import { Context } from "effect"

/**
 * Counts the tokens of a text, for holds and for vendors that report no usage. A synchronous call in bounded time:
 * long texts are sampled, so the count of a hostile text is an estimate.
 */
export class Tokenizer extends Context.Service<Tokenizer, { readonly count: (text: string) => number }>()(
  "gateway/ports/runtime/Tokenizer"
) {}
