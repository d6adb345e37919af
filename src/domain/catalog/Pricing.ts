import { Schema } from "effect"

/** Integer nano-USD per million tokens, so that a price list's decimals stay exact. */
const Rate = Schema.BigInt.check(Schema.isGreaterThanOrEqualToBigInt(0n))

const rates = {
  input: Rate,
  output: Rate,
  /** Null: charged as `input`. */
  cacheRead: Schema.NullOr(Rate),
  /** Null: charged as `input`. */
  cacheWrite: Schema.NullOr(Rate)
}

/** What a model costs. The long-context tier, where a model has one, replaces all rates of a request it applies to. */
export const Pricing = Schema.Struct({
  ...rates,
  /** Null: charged as `output`. */
  reasoning: Schema.NullOr(Rate),
  longContext: Schema.NullOr(
    Schema.Struct({
      /** The tier applies to requests with more input tokens than this, cached ones included. */
      inputTokensAbove: Schema.Int.check(Schema.isGreaterThan(0)),
      ...rates
    })
  )
})
export type Pricing = typeof Pricing.Type

/** The rates that one request pays, nano-USD per million tokens. */
export interface Rates {
  readonly input: bigint
  readonly output: bigint
  readonly cacheRead: bigint
  readonly cacheWrite: bigint
  readonly reasoning: bigint
}

/** The rates that a request with so many input tokens pays. */
export const ratesFor = (pricing: Pricing, inputTokens: number): Rates => {
  const tier = pricing.longContext
  return tier !== null && inputTokens > tier.inputTokensAbove
    ? {
        input: tier.input,
        output: tier.output,
        cacheRead: tier.cacheRead ?? tier.input,
        cacheWrite: tier.cacheWrite ?? tier.input,
        reasoning: tier.output
      }
    : {
        input: pricing.input,
        output: pricing.output,
        cacheRead: pricing.cacheRead ?? pricing.input,
        cacheWrite: pricing.cacheWrite ?? pricing.input,
        reasoning: pricing.reasoning ?? pricing.output
      }
}

export const free: Pricing = {
  input: 0n,
  output: 0n,
  cacheRead: null,
  cacheWrite: null,
  reasoning: null,
  longContext: null
}

/** A rate from the decimal USD per million tokens that price lists print, to the nearest nano-USD. */
export const rateFromUsd = (usdPerMillion: number): bigint => BigInt(Math.round(usdPerMillion * 1_000_000_000))

/** USD per million tokens as a JSON number, for the edge. */
export const rateToUsd = (rate: bigint): number => Number(rate) / 1_000_000_000
