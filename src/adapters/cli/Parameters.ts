import { Effect, Schema } from "effect"
import { Argument, CliError, Flag } from "effect/cli"

const parse =
  <A>(kind: "argument" | "flag", option: string, schema: Schema.Codec<A, string>) =>
  (value: string) =>
    Schema.decodeEffect(schema)(value).pipe(
      Effect.mapError(({ message: expected }) => new CliError.InvalidValue({ option, value, expected, kind }))
    )

/** An argument that a schema decides about: its message says what is allowed. */
export const argument = <A>(name: string, schema: Schema.Codec<A, string>) =>
  Argument.String(name).pipe(Argument.mapEffect(parse("argument", name, schema)))

/** A flag that a schema decides about: its message says what is allowed. */
export const flag = <A>(name: string, schema: Schema.Codec<A, string>) =>
  Flag.String(name).pipe(Flag.mapEffect(parse("flag", name, schema)))

export const org = Flag.String("org").pipe(
  Flag.withDescription('Name of the organization, "default" if not given'),
  Flag.withMetavar("name"),
  Flag.withDefault("default")
)

export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print one line of JSON instead of text"),
  Flag.withDefault(false)
)
