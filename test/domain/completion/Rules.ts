import fc from "fast-check"

/** What JSON can say; beyond it Infinity, for a number too large for any computer, such as `1e400`. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [key: string]: Json
}

export type Path = ReadonlyArray<string | number>

/** A value with one thing wrong in it: what, and where. */
export interface Broken {
  readonly path: Path
  readonly value: Json
  readonly wrong: string
}

/** What a contract says of one value: which ones it allows, and every way to break an allowed one. */
export interface Rule {
  readonly allowed: fc.Arbitrary<Json>
  readonly broken: (value: Json) => ReadonlyArray<Broken>
}

const wrongTypes = (accepts: (value: Json) => boolean): ReadonlyArray<Broken> =>
  [null, true, 7, "seven", ["a"], { a: 1 }]
    .filter((value: Json) => !accepts(value))
    .map((value) => ({ path: [], value, wrong: "another type" }))

const wrong = (wrong: string, ...values: ReadonlyArray<Json>): ReadonlyArray<Broken> =>
  values.map((value) => ({ path: [], value, wrong }))

const isText = (value: Json): value is string => typeof value === "string"
export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** All of Unicode, with what trips programs: empty, NUL, half of a surrogate pair, control tokens, long. */
const anyText = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: "grapheme", maxLength: 20 }) },
  { weight: 3, arbitrary: fc.string({ unit: "binary", maxLength: 20 }) },
  fc.constantFrom("", "\0", "\ud83d", "\u2028", "<|endoftext|>", "__proto__", "💥".repeat(300))
)

export const text = ({ min = 0 } = {}): Rule => ({
  allowed: anyText.filter((value) => value.length >= min),
  broken: () => [...wrongTypes(isText), ...(min > 0 ? wrong("an empty string", "") : [])]
})

/** Text of a form of its own. */
export const formatted = (allowed: fc.Arbitrary<string>, ...others: ReadonlyArray<string>): Rule => ({
  allowed,
  broken: () => [...wrongTypes(isText), ...wrong("text of another form", ...others)]
})

export const oneOf = (...values: ReadonlyArray<string>): Rule => ({
  allowed: fc.constantFrom(...values),
  broken: () => [...wrongTypes(isText), ...wrong("no such value", "", "unheard-of", (values[0] ?? "").toUpperCase())]
})

export const flag: Rule = {
  allowed: fc.boolean(),
  broken: () => [...wrongTypes((value) => typeof value === "boolean"), ...wrong("text", "true")]
}

export const alwaysTrue: Rule = {
  allowed: fc.constant(true),
  broken: () => [...wrongTypes((value) => value === true), ...wrong("false", false)]
}

export const nothing: Rule = { allowed: fc.constant(null), broken: () => [] }

const isNumber = (value: Json): value is number => typeof value === "number"

export const number: Rule = {
  allowed: fc.double({ noNaN: true, noDefaultInfinity: true }),
  broken: () => [...wrongTypes(isNumber), ...wrong("text", "0.5"), ...wrong("too large", Infinity, -Infinity)]
}

/** Integers up to those that a double holds exactly. */
export const integer = ({ min }: { readonly min?: number } = {}): Rule => ({
  allowed:
    min === undefined
      ? fc.oneof(fc.integer(), fc.maxSafeInteger())
      : fc.oneof(
          fc.integer({ min }),
          fc.maxSafeNat().map((value) => Math.max(value, min))
        ),
  broken: () => [
    ...wrongTypes(isNumber),
    ...wrong("a fraction", 1.5, 1e-9),
    ...wrong("too large", Infinity),
    ...(min === undefined ? [] : wrong("too small", min - 1, -7))
  ]
})

/** Objects whose keys may be the names of what every object inherits. */
const dictionary = (value: fc.Arbitrary<Json>): fc.Arbitrary<JsonObject> =>
  fc
    .uniqueArray(
      fc.tuple(fc.oneof(anyText, fc.constantFrom("__proto__", "constructor", "toString", "effort", "type")), value),
      { maxLength: 4, selector: ([key]) => key }
    )
    .map((entries) => Object.fromEntries(entries))

const anyJson: fc.Arbitrary<Json> = fc.letrec<{ value: Json; object: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, -1.5, 1e300),
    anyText,
    fc.array(tie("value"), { maxLength: 3 }),
    tie("object")
  ),
  object: dictionary(tie("value"))
})).value

/** Any JSON object whatever. */
export const freeForm: Rule = {
  allowed: dictionary(anyJson),
  broken: () => wrongTypes(isObject)
}

export const list = (item: Rule, { min = 0 } = {}): Rule => ({
  allowed: fc.array(item.allowed, { minLength: min, maxLength: min + 2 }),
  broken: (value) => [
    ...wrongTypes(Array.isArray),
    ...(min > 0 ? wrong("an empty list", []) : []),
    ...(Array.isArray(value) ? value : []).flatMap((element: Json, index) =>
      item.broken(element).map(({ path, value: changed, wrong }) => ({
        path: [index, ...path],
        value: (Array.isArray(value) ? value : []).with(index, changed),
        wrong
      }))
    )
  ]
})

export interface Fields {
  readonly required?: Readonly<Record<string, Rule>>
  readonly optional?: Readonly<Record<string, Rule>>
}

/** An object with these fields and no others. */
export const object = ({ required = {}, optional = {} }: Fields): Rule => ({
  allowed: fc
    .tuple(
      recordOf(required),
      recordOf(Object.fromEntries(Object.entries(optional).map(([name, rule]) => [name, maybe(rule)])))
    )
    .map((parts) => Object.fromEntries(parts.flatMap(Object.entries).filter(([, value]) => value !== absent))),
  broken: (value) => [...wrongTypes(isObject), ...(isObject(value) ? brokenFields(value, { required, optional }) : [])]
})

const absent = "\0absent"

/** A few optional fields at a time, so that requests stay readable. */
const maybe = ({ allowed }: Rule): Rule => ({
  allowed: fc.oneof({ weight: 2, arbitrary: fc.constant(absent) }, allowed),
  broken: () => []
})

const recordOf = (rules: Readonly<Record<string, Rule>>): fc.Arbitrary<JsonObject> =>
  fc.record(Object.fromEntries(Object.entries(rules).map(([name, { allowed }]) => [name, allowed])))

const brokenFields = (value: JsonObject, { required = {}, optional = {} }: Fields): ReadonlyArray<Broken> => [
  ...["extra", "__proto__", "Constructor", "a.b"].map((name) => ({
    path: [name],
    value: put(value, name, 1),
    wrong: "an unknown field"
  })),
  ...Object.keys(required).map((name) => ({ path: [name], value: without(value, name), wrong: "a missing field" })),
  ...Object.entries({ ...required, ...optional })
    .filter(([name]) => Object.hasOwn(value, name))
    .flatMap(([name, rule]) =>
      rule.broken(value[name] ?? null).map(({ path, value: changed, wrong }) => ({
        path: [name, ...path],
        value: put(value, name, changed),
        wrong
      }))
    )
]

/** With own keys only, also when one is `__proto__`. */
const put = (value: JsonObject, name: string, field: Json): JsonObject =>
  Object.fromEntries([...Object.entries(value).filter(([key]) => key !== name), [name, field]])

const without = (value: JsonObject, name: string): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))

/** Objects of several kinds, which the field `key` tells apart. */
export const kinds = (key: string, all: Readonly<Record<string, Fields>>): Rule => ({
  allowed: fc.oneof(
    ...Object.entries(all).map(
      ([kind, { required = {}, optional = {} }]) =>
        object({ required: { [key]: oneOf(kind), ...required }, optional }).allowed
    )
  ),
  broken: (value) => {
    if (!isObject(value)) return wrongTypes(isObject)
    const kind = value[key]
    const fields = typeof kind === "string" ? (all[kind] ?? {}) : {}
    return [
      ...wrongTypes(isObject),
      ...brokenFields(value, fields),
      ...["unheard-of", "", 7, null].map((kind) => ({
        path: [key],
        value: put(value, key, kind),
        wrong: "no such kind"
      })),
      { path: [key], value: without(value, key), wrong: "a missing kind" }
    ]
  }
})

/** Values of several types, such as a string or a list. */
export const either = (...rules: ReadonlyArray<readonly [is: (value: Json) => boolean, rule: Rule]>): Rule => ({
  allowed: fc.oneof(...rules.map(([, { allowed }]) => allowed)),
  broken: (value) => [
    ...wrongTypes((other) => rules.some(([is]) => is(other))),
    ...rules
      .filter(([is]) => is(value))
      .flatMap(([, rule]) => rule.broken(value))
      // What another type of the same value allows is not broken.
      .filter((broken) => broken.path.length > 0 || !rules.some(([is]) => is(broken.value) && !is(value)))
  ]
})

export const orText = (rule: Rule): readonly [(value: Json) => boolean, Rule] => [isText, rule]
export const orList = (rule: Rule): readonly [(value: Json) => boolean, Rule] => [Array.isArray, rule]
export const orObject = (rule: Rule): readonly [(value: Json) => boolean, Rule] => [isObject, rule]
export const orNull: readonly [(value: Json) => boolean, Rule] = [(value) => value === null, nothing]

/** `messages[0].content`, the way that error details name a place. */
export const render = (path: Path): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`),
    ""
  )

/** JSON text, in which Infinity is a number too large for any computer. */
export const write = (value: Json): string =>
  typeof value === "number" && !Number.isFinite(value)
    ? value > 0
      ? "1e400"
      : "-1e400"
    : Array.isArray(value)
      ? `[${value.map(write).join(",")}]`
      : isObject(value)
        ? `{${Object.entries(value)
            .map(([key, field]) => `${JSON.stringify(key)}:${write(field)}`)
            .join(",")}}`
        : JSON.stringify(value)
