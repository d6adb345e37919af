import { Schema } from "effect"

const Tokens = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Token counts in disjoint buckets: every token is in exactly one, so a price applies to each once. Vendors overlap
 * theirs differently; each protocol maps its form into this one.
 */
export const Usage = Schema.Struct({
  /** Input that was neither read from nor written to a cache. */
  input: Tokens,
  cacheRead: Tokens,
  cacheWrite: Tokens,
  /** Output without reasoning. */
  output: Tokens,
  reasoning: Tokens
})
export type Usage = typeof Usage.Type

export const none: Usage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 }

/** All input tokens: what the long-context tier and the contract's `input_tokens` count. */
export const inputTokens = (usage: Usage): number => usage.input + usage.cacheRead + usage.cacheWrite

/** All output tokens, reasoning included. */
export const outputTokens = (usage: Usage): number => usage.output + usage.reasoning
