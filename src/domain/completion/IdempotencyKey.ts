import { Schema } from "effect"

/**
 * The name that a caller gives a request, so that its repetition can be told from another request (decisions 2). With
 * the flag `u` the pattern stands in the description of the interface.
 */
export const IdempotencyKey = Schema.String.check(Schema.isPattern(/^[!-~]{1,255}$/u)).pipe(
  Schema.brand("IdempotencyKey")
)
export type IdempotencyKey = typeof IdempotencyKey.Type
