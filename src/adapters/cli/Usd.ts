import { Schema, SchemaGetter } from "effect"
import { NanoUsd, nanoUsd } from "../../domain/shared/Money.ts"

const decimals = 9

const fromDecimal = (text: string): NanoUsd => {
  const [whole = "", fraction = ""] = text.split(".")
  return nanoUsd(BigInt(whole + fraction.padEnd(decimals, "0")))
}

/** Every digit there is, and at least cents. */
export const toDecimal = (amount: bigint): string => {
  const digits = String(amount < 0n ? -amount : amount).padStart(decimals + 1, "0")
  const fraction = digits.slice(-decimals).replace(/0{1,7}$/, "")
  return `${amount < 0n ? "-" : ""}${digits.slice(0, -decimals)}.${fraction}`
}

const range = {
  minimum: 0n,
  exclusiveMinimum: true,
  maximum: fromDecimal("1000000")
}

const expected = "an amount in USD above 0 and at most 1000000, with at most 9 decimals"

/** An amount as an operator types it, such as `12.50`; exact to the nano-USD. */
export const Usd = Schema.String.check(Schema.isPattern(/^\d{1,7}(\.\d{1,9})?$/, { expected })).pipe(
  Schema.decodeTo(NanoUsd, {
    decode: SchemaGetter.transform(fromDecimal),
    encode: SchemaGetter.transform(toDecimal)
  }),
  Schema.check(Schema.isBetweenBigInt(range, { expected }))
)
