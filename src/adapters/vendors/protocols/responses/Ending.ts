import { Schema } from "effect"

const Maybe = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** What a response says of itself at its end, beside its items. */
export const Ending = Schema.Struct({
  status: Maybe(Schema.String),
  incomplete_details: Maybe(Schema.Struct({ reason: Maybe(Schema.String) })),
  service_tier: Maybe(Schema.String),
  usage: Schema.optionalKey(Schema.Unknown)
})
export type Ending = typeof Ending.Type
