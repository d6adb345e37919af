import { Option, Schema } from "effect"
import { none, type Usage } from "../../../../domain/billing/Usage.ts"
import { asCount } from "../TokenCount.ts"

const Maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Tokens = Maybe(Schema.Unknown)

const decode = Schema.decodeUnknownOption(
  Schema.Struct({
    input_tokens: Tokens,
    input_tokens_details: Maybe(Schema.Struct({ cached_tokens: Tokens, cache_write_tokens: Tokens })),
    output_tokens: Tokens,
    output_tokens_details: Maybe(Schema.Struct({ reasoning_tokens: Tokens }))
  })
)

/**
 * `input_tokens` includes what was read from and written to the cache, `output_tokens` includes reasoning. Counts that
 * cannot be are as good as none: the text is counted instead.
 */
export const readUsage = (reported: unknown): Usage | undefined => {
  const wire = Option.getOrUndefined(decode(reported))
  const input = asCount(wire?.input_tokens)
  const output = asCount(wire?.output_tokens)
  if (wire === undefined || input === undefined || output === undefined) return undefined
  const cacheRead = Math.min(asCount(wire.input_tokens_details?.cached_tokens) ?? 0, input)
  const cacheWrite = Math.min(asCount(wire.input_tokens_details?.cache_write_tokens) ?? 0, input - cacheRead)
  const reasoning = Math.min(asCount(wire.output_tokens_details?.reasoning_tokens) ?? 0, output)
  return {
    ...none,
    input: input - cacheRead - cacheWrite,
    cacheRead,
    cacheWrite,
    output: output - reasoning,
    reasoning
  }
}
