import { type Pricing, ratesFor } from "../catalog/Pricing.ts"
import { type NanoUsd, nanoUsd, zero } from "../shared/Money.ts"
import { inputTokens, type Usage } from "./Usage.ts"

const million = 1_000_000n

/** Rates are per million tokens; one usage is rounded up to the next nano-USD, once. */
const perMillion = (product: bigint): NanoUsd => nanoUsd((product + million - 1n) / million)

/** What a usage costs. The tier follows from its own input tokens. A model without a price costs nothing. */
export const costOf = (pricing: Pricing | null, usage: Usage): NanoUsd => {
  if (pricing === null) return zero
  const rates = ratesFor(pricing, inputTokens(usage))
  return perMillion(
    BigInt(usage.input) * rates.input +
      BigInt(usage.cacheRead) * rates.cacheRead +
      BigInt(usage.cacheWrite) * rates.cacheWrite +
      BigInt(usage.output) * rates.output +
      BigInt(usage.reasoning) * rates.reasoning
  )
}

/** The dearest that so many input and output tokens can turn out: what a hold must cover. */
export const worstCost = (pricing: Pricing | null, input: number, output: number): NanoUsd => {
  if (pricing === null) return zero
  const { input: inputRate, outputRate } = worstRates(pricing, input)
  return perMillion(BigInt(input) * inputRate + BigInt(output) * outputRate)
}

/** How many output tokens an amount covers beside so many input tokens, at most `most`; -1 if not even the input. */
export const affordableOutput = (pricing: Pricing | null, input: number, amount: NanoUsd, most: number): number => {
  if (pricing === null) return most
  const { input: inputRate, outputRate } = worstRates(pricing, input)
  const left = amount * million - BigInt(input) * inputRate
  if (left < 0n) return -1
  if (outputRate === 0n) return most
  const tokens = left / outputRate
  return tokens > BigInt(most) ? most : Number(tokens)
}

const worstRates = (pricing: Pricing, input: number) => {
  const rates = ratesFor(pricing, input)
  return { input: max(rates.input, rates.cacheRead, rates.cacheWrite), outputRate: max(rates.output, rates.reasoning) }
}

const max = (...rates: ReadonlyArray<bigint>): bigint => rates.reduce((most, rate) => (rate > most ? rate : most), 0n)
