import { Schema, SchemaGetter } from "effect"
import { NanoUsd } from "../../domain/shared/Money.ts"

/** An `int8` column (the client gives a `bigint`) that holds a safe integer, such as epoch milliseconds. */
export const SafeInt8 = Schema.BigInt.pipe(
  Schema.decodeTo(Schema.Int, {
    decode: SchemaGetter.transform(Number),
    encode: SchemaGetter.transform(BigInt)
  })
)

/** An `int8` column of nano-USD. */
export const Money = NanoUsd
