import { Schema } from "effect"

/** The name that a caller gives a request, so that its repetition can be told from another request (decisions 2). */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[!-~]{1,255}$/, { expected: "1 to 255 visible ASCII characters without spaces" })
).pipe(Schema.brand("IdempotencyKey"))
export type IdempotencyKey = typeof IdempotencyKey.Type
