import { Schema } from "effect"

/** An amount of money: whole nano-USD (10^-9 USD). Never negative floats, never rounded by addition. */
export const NanoUsd = Schema.BigInt.pipe(Schema.brand("NanoUsd"))
export type NanoUsd = typeof NanoUsd.Type

export const nanoUsd = (amount: bigint): NanoUsd => NanoUsd.make(amount)

export const zero: NanoUsd = nanoUsd(0n)

const perUsd = 1_000_000_000

/** The nearest nano-USD of a decimal amount of USD, such as an operator types it. */
export const fromUsd = (usd: number): NanoUsd => nanoUsd(BigInt(Math.round(usd * perUsd)))

/**
 * USD as a JSON number, for the edge only. Exact to the nano-USD below about 9 million USD, and the closest
 * double above.
 */
export const toUsd = (amount: NanoUsd): number => {
  const whole = amount / BigInt(perUsd)
  const rest = amount % BigInt(perUsd)
  return Number(`${whole === 0n && rest < 0n ? "-" : ""}${whole}.${String(rest < 0n ? -rest : rest).padStart(9, "0")}`)
}

export const min = (a: NanoUsd, b: NanoUsd): NanoUsd => (a < b ? a : b)
