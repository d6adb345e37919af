import { Effect, FileSystem, Result, Schema, SchemaGetter, SchemaIssue } from "effect"
import { CatalogId, SomeModelFields } from "./ModelFields.ts"
import { ModelsFileInvalid } from "./ModelsFileInvalid.ts"
import { mostBytes, parseYaml, tooLarge, type YamlText } from "./YamlText.ts"

const upstreamName = /^[a-z0-9][a-z0-9-]*$/
const nameRule = { message: "Expected a name of lower-case letters, digits and -" }
const UpstreamName = Schema.String.annotate(nameRule).check(Schema.isPattern(upstreamName, nameRule))

const urlRule = { message: "Expected an http or https address without user, query and fragment" }

/** Paths are appended to it, and it stands in logs. */
const isBaseUrl = (text: string): boolean => {
  if (!URL.canParse(text) || /[?#\s]/.test(text)) return false
  const { password, protocol, username } = new URL(text)
  return (protocol === "http:" || protocol === "https:") && username === "" && password === ""
}

const BaseUrl = Schema.String.annotate(urlRule)
  .check(Schema.makeFilter(isBaseUrl, urlRule))
  .pipe(
    Schema.decode({
      decode: SchemaGetter.transform((url) => url.replace(/\/+$/, "")),
      encode: SchemaGetter.passthrough()
    })
  )

const variableRule = { message: "Expected the name of an environment variable in upper case, not the key itself" }

/** Upper-case only, so that a key put here by mistake is refused. */
const KeyVariable = Schema.String.annotate(variableRule).check(Schema.isPattern(/^[A-Z][A-Z0-9_]*$/, variableRule))

/** The wire formats, by the names that operators write. */
const WireName = Schema.Literals(["chat", "responses", "anthropic"])

const UpstreamEntry = Schema.Struct({
  base_url: BaseUrl,
  api_key: Schema.optionalKey(KeyVariable),
  protocol: WireName.pipe(Schema.withDecodingDefaultKey(Effect.succeed("chat" as const))),
  dialect: Schema.optionalKey(Schema.Literals(["compatible", "openai"]))
}).check(
  Schema.makeFilter(({ dialect, protocol }) =>
    dialect === undefined || protocol === "chat"
      ? undefined
      : { path: ["dialect"], issue: "Only the protocol chat has dialects: remove this key" }
  )
)

const fallbackRule = { message: "Expected a list of fallbacks such as { upstream: other }" }

const ModelEntry = Schema.Struct({
  id: CatalogId,
  upstream: Schema.optionalKey(UpstreamName),
  upstream_model: Schema.optionalKey(Schema.NonEmptyString),
  fallbacks: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        upstream: UpstreamName,
        upstream_model: Schema.optionalKey(Schema.NonEmptyString)
      }).annotate(fallbackRule)
    ).annotate(fallbackRule)
  ),
  ...SomeModelFields.fields
})

const patternRule = { message: "Expected a model id in quotes, in which * stands for any characters" }
const Pattern = Schema.String.annotate(patternRule).check(Schema.isPattern(/^[!-~]{1,200}$/, patternRule))

const listRule = { message: "Expected a list" }

const Content = Schema.Struct({
  upstreams: Schema.Record(Schema.String, UpstreamEntry)
    .annotate({ message: "Expected names with upstreams" })
    .check(
      Schema.makeFilter((upstreams) => {
        const name = Object.keys(upstreams).find((name) => !upstreamName.test(name))
        return name === undefined ? undefined : { path: [name], issue: nameRule.message }
      })
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  models: Schema.Array(ModelEntry)
    .annotate(listRule)
    .check(
      Schema.makeFilter((models) => {
        const ids = models.map(({ id }) => id)
        const again = ids.findIndex((id, index) => ids.indexOf(id) < index)
        return again === -1
          ? undefined
          : { path: [again, "id"], issue: "This id stands above already: remove one of the two" }
      })
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  hide: Schema.Array(Pattern)
    .annotate(listRule)
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))
}).annotate({ message: "Expected the keys upstreams, models and hide" })

/** A server that the operator names. `keyVariable` is the environment variable with its key. */
export interface CustomUpstream {
  readonly name: string
  readonly baseUrl: string
  readonly keyVariable: string | undefined
  /** OpenAI's chat completions or Responses, or Anthropic's Messages. */
  readonly protocol: typeof WireName.Type
  /** Of `chat`. `compatible`: extension fields such as reasoning pass through. */
  readonly dialect: "compatible" | "openai"
  readonly line: number
}

/** Where a model is had when its upstream fails. */
export interface CustomFallback {
  readonly upstream: string
  readonly upstreamModel: string | undefined
  readonly line: number
}

/** A model of the operator's: new, or what it changes of a packaged one. */
export interface CustomModel {
  readonly id: string
  readonly upstream: string | undefined
  readonly upstreamModel: string | undefined
  readonly fallbacks?: ReadonlyArray<CustomFallback>
  readonly fields: typeof SomeModelFields.Type
  readonly line: number
}

/** What the operator adds to the catalogue, overrides and hides. */
export interface ModelsFile {
  readonly file: string
  readonly upstreams: ReadonlyArray<CustomUpstream>
  readonly models: ReadonlyArray<CustomModel>
  /** Ids, `*` for any characters. */
  readonly hide: ReadonlyArray<string>
}

/** The content of a text. `file` names it in errors. */
export const parse = (text: string, file: string): Result.Result<ModelsFile, ModelsFileInvalid> =>
  parseYaml(text).pipe(
    Result.mapError(({ line, problem }) => new ModelsFileInvalid({ file, line, problem })),
    Result.flatMap(({ lineOf, value = {} }) =>
      decode(value).pipe(
        Result.mapBoth({
          onFailure: ({ issue }) => {
            const { path, problem } = firstOf(issue)
            return new ModelsFileInvalid({ file, line: lineOf(path), problem })
          },
          onSuccess: (content) => ({ file, ...located(content, lineOf) })
        })
      )
    )
  )

/** Reads and parses the file that `MODELS_FILE` names. */
export const read = Effect.fn("ModelsFile.read")(function* (file: string) {
  const files = yield* FileSystem.FileSystem
  const invalid = (problem: string) => new ModelsFileInvalid({ file, line: undefined, problem })
  const nameAnother = "name a file that can be read"
  const unreadable = Effect.mapError(() => invalid(nameAnother))

  const { size, type } = yield* unreadable(files.stat(file))
  if (type !== "File") return yield* invalid(nameAnother)
  if (size > mostBytes) return yield* invalid(tooLarge)
  const bytes = yield* unreadable(files.readFile(file))
  const text = yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () => invalid("save it as UTF-8")
  })
  return yield* Effect.fromResult(parse(text, file))
})

const decode = Schema.decodeUnknownResult(Content, { onExcessProperty: "error" })

const located = (content: typeof Content.Type, lineOf: YamlText["lineOf"]): Omit<ModelsFile, "file"> => ({
  upstreams: Object.entries(content.upstreams).map(
    ([name, { api_key, base_url, dialect = "compatible", protocol }]) => ({
      name,
      baseUrl: base_url,
      keyVariable: api_key,
      protocol,
      dialect,
      line: lineOf(["upstreams", name])
    })
  ),
  models: content.models.map(({ fallbacks, id, upstream, upstream_model, ...fields }, index) => ({
    id,
    upstream,
    upstreamModel: upstream_model,
    ...(fallbacks === undefined
      ? {}
      : {
          fallbacks: fallbacks.map(({ upstream, upstream_model }, at) => ({
            upstream,
            upstreamModel: upstream_model,
            line: lineOf(["models", index, "fallbacks", at])
          }))
        }),
    fields,
    line: lineOf(["models", index])
  })),
  hide: content.hide
})

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "MissingKey"
      ? "This key is required"
      : issue._tag === "UnexpectedKey"
        ? "Unknown key: remove it or correct its spelling"
        : SchemaIssue.defaultLeafHook(issue)
})

/** `models[0].id: Expected …`. Values are not shown: one may be a key in the wrong place. */
const firstOf = (issue: SchemaIssue.Issue): { path: ReadonlyArray<PropertyKey>; problem: string } => {
  const [first] = format(issue).issues
  const path = (first?.path ?? []).map((segment) => (typeof segment === "object" ? segment.key : segment))
  const place = path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : `${text}${text === "" ? "" : "."}${printable(key)}`),
    ""
  )
  return { path, problem: place === "" ? `${first?.message}` : `${place}: ${first?.message}` }
}

const printable = (key: PropertyKey): string =>
  String(key)
    .slice(0, 80)
    .replace(/[^!-~]/g, "?")
