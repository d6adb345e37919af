import { Option, Predicate, Schema } from "effect"
import { none, type Usage } from "../../../../domain/billing/Usage.ts"
import type { ServedTier } from "../../../../domain/completion/Completion.ts"
import { asCount } from "../TokenCount.ts"

const Tokens = Schema.optionalKey(Schema.Unknown)

const decodeUsage = Schema.decodeUnknownOption(
  Schema.Struct({
    input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    output_tokens: Tokens,
    output_tokens_details: Schema.optionalKey(Schema.NullOr(Schema.Struct({ thinking_tokens: Tokens }))),
    service_tier: Tokens
  })
)

/**
 * The vendor's counts of the input are disjoint; `output_tokens` includes thinking, which only newer answers count apart.
 * Counts that cannot be are as good as none: the text is counted instead.
 */
export const readUsage = (reported: unknown): Usage | undefined => {
  const wire = Option.getOrUndefined(decodeUsage(reported))
  const input = asCount(wire?.input_tokens)
  const output = asCount(wire?.output_tokens)
  if (wire === undefined || input === undefined || output === undefined) return undefined
  const reasoning = Math.min(asCount(wire.output_tokens_details?.thinking_tokens) ?? 0, output)
  return {
    ...none,
    input,
    cacheRead: asCount(wire.cache_read_input_tokens) ?? 0,
    cacheWrite: asCount(wire.cache_creation_input_tokens) ?? 0,
    output: output - reasoning,
    reasoning
  }
}

/** The counts of a stream are totals so far; one that an event leaves out or nulls is as it was. */
export const laterUsage = (before: unknown, after: unknown): unknown =>
  Predicate.isObject(before) && Predicate.isObject(after)
    ? { ...before, ...Object.fromEntries(Object.entries(after).filter(([, count]) => count !== null)) }
    : (after ?? before)

/** The tier that was served; `batch` is none of the contract's. */
export const readTier = (reported: unknown): { readonly serviceTier?: ServedTier } => {
  const tier = Option.getOrUndefined(decodeUsage(reported))?.service_tier
  return tier === "priority" ? { serviceTier: "priority" } : tier === "standard" ? { serviceTier: "default" } : {}
}
