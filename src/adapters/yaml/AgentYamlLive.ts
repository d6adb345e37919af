import { Effect, Layer, Result, Schema } from "effect"
import { AgentYaml, type AgentReading } from "../../application/ports/files/AgentYaml.ts"
import { KnownModels, type KnownProvider } from "../../application/ports/vendor/KnownModels.ts"
import { type AgentConfig, AgentDocument } from "../../domain/agent/AgentConfig.ts"
import type { ConfigError, ConfigErrorCode, ConfigWarning } from "../../domain/agent/ConfigIssue.ts"
import { effectiveConfig } from "../../domain/agent/EffectiveConfig.ts"
import { expandVariables, namesVariable } from "../../domain/agent/Variables.ts"
import { codedIssuesOf, renderPath } from "../../domain/shared/CodedIssue.ts"
import { editYaml, writeYaml } from "./YamlEdits.ts"
import { readYaml, type YamlPath, type YamlSource } from "./YamlSource.ts"

export const layer = Layer.effect(
  AgentYaml,
  Effect.map(KnownModels, ({ providers }) =>
    AgentYaml.of({
      read: (text, variables) => read(text, variables, providers),
      edit: editYaml,
      write: writeYaml,
      parse: (text) => Result.match(readYaml(text), { onFailure: () => undefined, onSuccess: ({ value }) => value })
    })
  )
)

type Providers = ReadonlyMap<string, KnownProvider>
type Variables = ReadonlyMap<string, string>

/** A caller can act on a few at a time, and an answer must not grow with a hostile document. */
const most = 50

const read = (text: string, variables: Variables, providers: Providers): AgentReading =>
  Result.match(readYaml(text), {
    onFailure: ({ path, ...fault }) => ({
      errors: [{ ...fault, path: renderPath(path) }],
      warnings: [],
      valid: undefined
    }),
    onSuccess: (source) => readDocument(source, variables, providers)
  })

const readDocument = (source: YamlSource, variables: Variables, providers: Providers): AgentReading => {
  const expanded = expandVariables(source.value, variables)
  const unset = expanded.unset.map(({ name, path }): ConfigWarning => ({
    path: renderPath(path),
    message: `The variable ${name} is not set: it is read as an empty text.`,
    code: "undefined_variable"
  }))
  const decoded = decode(source.value ?? {})
  if (Result.isFailure(decoded)) {
    return { errors: mistakes(source, decoded.failure), warnings: unset.slice(0, most), valid: undefined }
  }
  // It has the same shape; what its texts come to is not the document's mistake, such as an address that is not set.
  const config = effectiveConfig(decodeExpanded(expanded.value, { disableChecks: true }))
  const errors = modelErrors(source, config, providers)
  return {
    errors,
    warnings: [...unset, ...keyWarnings(decoded.success, config, variables, providers)].slice(0, most),
    valid: errors.length === 0 ? { document: decoded.success, config } : undefined
  }
}

const decode = Schema.decodeUnknownResult(AgentDocument, { errors: "all", onExcessProperty: "error" })

const decodeExpanded = Schema.decodeUnknownSync(AgentDocument)

/** What the schema refuses, from the top of the document to its end. */
const mistakes = (source: YamlSource, error: Schema.SchemaError): ReadonlyArray<ConfigError> =>
  codedIssuesOf(error, source.value ?? {})
    .map(({ code, message, path: keys }) => {
      const path = keys.map((key) => (typeof key === "number" ? key : String(key)))
      const last = brief(String(path.at(-1)))
      return code === "unknown_key"
        ? errorAt(source, source.keyOffset(path), path, code, `Unknown key ${JSON.stringify(last)}.`)
        : code === "missing_required"
          ? errorAt(
              source,
              source.valueOffset(path.slice(0, -1)),
              path,
              code,
              `The key ${JSON.stringify(last)} is missing.`
            )
          : errorAt(source, source.valueOffset(path), path, code, `${message}.`)
    })
    .toSorted((a, b) => a.line - b.line || a.column - b.column)

const errorAt = (
  { position }: YamlSource,
  offset: number,
  path: YamlPath,
  code: ConfigErrorCode,
  message: string
): ConfigError => ({ ...position(offset), path: renderPath(path.map(brief)), message, code })

/** Keys are the document's own words, however long. */
const brief = <Key extends string | number>(key: Key): Key | string =>
  typeof key === "string" && key.length > 100 ? `${key.slice(0, 100)}…` : key

/** Whether the provider is one, and has the model. Behind an address of one's own there may be any model. */
const modelErrors = (source: YamlSource, { llm }: AgentConfig, providers: Providers): ReadonlyArray<ConfigError> => {
  const at = (key: string, code: ConfigErrorCode, message: string) => {
    const path = ["llm", key]
    return [errorAt(source, source.valueOffset(path), path, code, message)]
  }
  const provider = providers.get(llm.provider)
  if (provider === undefined) {
    return at("provider", "invalid_enum", `Expected one of the providers ${[...providers.keys()].join(", ")}.`)
  }
  if (provider.models === undefined || llm.baseURL !== undefined) return []
  const model = provider.models.get(llm.model)
  if (model === undefined) {
    return at("model", "unsupported_model", `${llm.provider} has no such model. GET /api/llm/catalog lists its models.`)
  }
  const { maxInputTokens: limit } = model
  return limit !== undefined && llm.maxInputTokens !== undefined && llm.maxInputTokens > limit
    ? at("maxInputTokens", "too_big", `The model takes at most ${limit} tokens.`)
    : []
}

const keyWarnings = (
  document: AgentDocument,
  { llm }: AgentConfig,
  variables: Variables,
  providers: Providers
): ReadonlyArray<ConfigWarning> => {
  const path = "llm.apiKey"
  const written = document.llm.apiKey?.trim() ?? ""
  const variable = providers.get(llm.provider)?.keyVariable
  if (llm.apiKey === "") {
    if (variable === undefined || (variables.get(variable) ?? "") !== "") return []
    const message = `There is no API key of ${llm.provider}: save one by POST /api/llm/key, or set ${variable} in .env.`
    return [{ path, message, code: "missing_api_key" }]
  }
  return namesVariable(written)
    ? []
    : [
        {
          path,
          message: "An API key stands in the file itself: keep it in .env and name its variable here.",
          code: "raw_api_key"
        }
      ]
}
