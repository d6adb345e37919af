import { Config, Duration, Effect, Option, Schema, SchemaGetter } from "effect"
import { isAbsolute } from "node:path"

/** An environment variable has a value that cannot be used. The message is the one line that the operator sees. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", {
  variable: Schema.String,
  takes: Schema.String
}) {
  override get message() {
    return `${this.variable}: expected ${this.takes}.`
  }
}

/** The variable's text; an empty one counts as absent, as compose files and unit files set it. */
const text = (variable: string): Effect.Effect<Option.Option<string>> =>
  Config.option(Config.String(variable)).pipe(Config.map(Option.filter((value) => value.trim() !== "")), Effect.orDie)

/** A variable that may be absent. `takes` completes the sentence "expected …". */
export const optional = <A>(
  variable: string,
  schema: Schema.ConstraintCodec<A, string>,
  takes: string
): Effect.Effect<Option.Option<A>, InvalidSetting> =>
  Effect.flatMap(text(variable), (value) =>
    Option.isNone(value)
      ? Effect.succeedNone
      : Schema.decodeUnknownEffect(schema)(value.value.trim()).pipe(
          Effect.map(Option.some),
          Effect.mapError(() => new InvalidSetting({ variable, takes }))
        )
  )

/** A variable with a default. */
export const withDefault = <A>(
  variable: string,
  schema: Schema.ConstraintCodec<A, string>,
  takes: string,
  otherwise: A
): Effect.Effect<A, InvalidSetting> =>
  Effect.map(
    optional(variable, schema, takes),
    Option.getOrElse(() => otherwise)
  )

export const Secret = Schema.String.pipe(Schema.RedactedFromValue)

export const HttpUrl = Schema.String.check(
  Schema.makeFilter((value: string) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol))
)

/** Origins as browsers send them, divided by commas: `https://app.example.com`. */
export const Origins = Schema.String.pipe(
  Schema.decodeTo(
    Schema.Array(
      Schema.String.check(
        Schema.makeFilter((value: string) => URL.canParse(value) && new URL(value).origin === value && value !== "null")
      )
    ),
    {
      decode: SchemaGetter.transform((value: string) => value.split(",").map((origin) => origin.trim())),
      encode: SchemaGetter.transform((origins: ReadonlyArray<string>) => origins.join(","))
    }
  )
)

/** Absolute directories, divided by colons like those of `PATH`. */
export const Directories = Schema.String.pipe(
  Schema.decodeTo(Schema.Array(Schema.String.check(Schema.makeFilter((value: string) => isAbsolute(value)))), {
    decode: SchemaGetter.transform((value: string) => value.split(":")),
    encode: SchemaGetter.transform((directories: ReadonlyArray<string>) => directories.join(":"))
  })
)

export const PostgresUrl = Schema.String.check(
  Schema.makeFilter((value: string) => URL.canParse(value) && /^postgres(?:ql)?:$/.test(new URL(value).protocol))
).pipe(Schema.RedactedFromValue)

export const wholeNumber = (least: number, most: number) =>
  Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: least, maximum: most }))

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 }

/** `5`, `5s`, `500ms`, `2m`; a bare number is seconds. */
export const Time = Schema.String.check(Schema.isPattern(/^\d+(?:\.\d+)?\s*(?:ms|s|m)?$/)).pipe(
  Schema.decodeTo(Schema.Duration, {
    decode: SchemaGetter.transform((value: string) =>
      Duration.millis(Number.parseFloat(value) * (units[value.replace(/[\d.\s]/g, "")] ?? 1000))
    ),
    encode: SchemaGetter.transform((value: Duration.Duration) => `${Duration.toMillis(value)}ms`)
  })
)

export const takesTime = "a time such as 5s, 500ms or 2m"

/** A time that something may take: neither none at all nor more than a day. */
export const Deadline = Time.check(
  Schema.makeFilter((time) => Duration.toMillis(time) >= 1 && Duration.toMillis(time) <= 86_400_000)
)

export const takesDeadline = "a time from 1ms to 1440m, such as 90s or 5m"
