import { Array, Effect, type FileSystem, Layer, Option, Result } from "effect"
import {
  type CatalogEntry,
  isService,
  ModelCatalog,
  type Place,
  type Route
} from "../../application/ports/vendor/ModelCatalog.ts"
import type { AccessMethod } from "../../domain/catalog/AccessMethod.ts"
import { type ModelFields, modelOf } from "./ModelFields.ts"
import type { CustomFallback, CustomModel, ModelsFile } from "./ModelsFile.ts"
import { ModelsFileInvalid } from "./ModelsFileInvalid.ts"
import * as PackagedModels from "./PackagedModels.ts"

export interface CatalogueOptions {
  /** In the order in which they win an id, and describe it. Two with different methods may share their models. */
  readonly providers: ReadonlyArray<{
    /** Its id in the packaged data set. */
    readonly provider: string
    readonly upstream: string
    /** The provider with which it shares its models, those of the same id being the same; if not given, itself. */
    readonly joins?: string | undefined
    /** What stands before its ids in this service's: "" or such as `groq/`. */
    readonly prefix: string
    readonly method: AccessMethod
  }>
  readonly modelsFile: ModelsFile | undefined
  /** Whether to serve the model `echo`. */
  readonly echo: boolean
}

/** What this deployment serves: the packaged models of its providers, changed by the operator's file, and `echo`. */
export const layer = (options: CatalogueOptions): Layer.Layer<ModelCatalog, ModelsFileInvalid, FileSystem.FileSystem> =>
  Layer.effect(
    ModelCatalog,
    Effect.gen(function* () {
      const drafts = yield* packaged(options.providers)
      if (options.echo) drafts.set(echo.id, echo)
      if (options.modelsFile !== undefined) yield* applyFile(drafts, options.modelsFile, options)

      const entries = Array.map([...drafts.values()], ({ fields, id, routes }): CatalogEntry => ({
        model: modelOf(
          id,
          fields,
          Array.map(routes, ({ method }) => method)
        ),
        routes
      }))
      const found = new Map<string, Option.Option<CatalogEntry>>(
        entries.map((entry) => [entry.model.id, Option.some(entry)])
      )
      return ModelCatalog.of({ entries, find: (id) => found.get(id) ?? Option.none() })
    })
  )

/** A model while the catalogue is put together. */
interface Draft {
  readonly id: string
  /** The provider of the packaged data, or the one that it joins; undefined for the others. */
  readonly provider: string | undefined
  readonly fields: ModelFields
  readonly routes: Array.NonEmptyReadonlyArray<Route>
}

const packaged = Effect.fnUntraced(function* (providers: CatalogueOptions["providers"]) {
  const drafts = new Map<string, Draft>()
  for (const { joins, method, prefix, provider: source, upstream } of providers) {
    const { models } = yield* PackagedModels.load(source)
    const provider = joins ?? source
    for (const { id: upstreamModel, ...fields } of models) {
      const id = `${prefix}${upstreamModel}`
      const route = { method, upstream, upstreamModel }
      const first = drafts.get(id)
      if (first === undefined) {
        drafts.set(id, { id, provider, fields, routes: [route] })
      } else if (first.provider === provider && first.routes.every((other) => other.method !== method)) {
        drafts.set(id, { ...first, routes: [...first.routes, route] })
      } else {
        yield* Effect.logWarning("Two providers have a model of the same id: the second one is not served.", {
          id,
          served: first.provider,
          notServed: source
        })
      }
    }
  }
  return drafts
})

const applyFile = Effect.fnUntraced(function* (
  drafts: Map<string, Draft>,
  file: ModelsFile,
  options: CatalogueOptions
) {
  // No other upstream may get the organizations' own keys by bearing the name of the one that they are for.
  const builtIn = new Set(options.providers.map(({ upstream }) => upstream)).add(echoUpstream)
  const operated = new Set(options.providers.filter(isService).map(({ upstream }) => upstream)).add(echoUpstream)
  const invalid = (line: number, problem: string) => new ModelsFileInvalid({ file: file.file, line, problem })

  for (const { line, name } of file.upstreams) {
    if (builtIn.has(name)) return yield* invalid(line, `upstreams.${name}: Expected another name, this one is built in`)
  }
  const upstreams = new Set([...operated, ...file.upstreams.map(({ name }) => name)])

  for (const custom of file.models) {
    const { id, line, upstream } = custom
    if (upstream !== undefined && !upstreams.has(upstream)) {
      return yield* invalid(line, `model ${id}: upstream: Expected a key of upstreams, or ${[...operated].join(", ")}`)
    }
    const known = drafts.get(id)
    const draft = known === undefined ? added(custom) : Result.succeed(overridden(known, custom))
    if (Result.isFailure(draft)) {
      return yield* invalid(line, `model ${id}: ${draft.failure}: This key is required for a new model`)
    }
    const backed = withFallbacks(draft.success, custom.fallbacks ?? [], upstreams)
    if (Result.isFailure(backed)) {
      return yield* invalid(backed.failure.line, `model ${id}: fallbacks: ${backed.failure.problem}`)
    }
    drafts.set(id, backed.success)
  }

  for (const pattern of file.hide) {
    const hidden = [...drafts.keys()].filter((id) => matches(pattern, id))
    if (hidden.length === 0) yield* Effect.logWarning("Nothing to hide in the catalogue.", { file: file.file, pattern })
    for (const id of hidden) drafts.delete(id)
  }
})

/** A model that is not packaged, or the key that it lacks. */
const added = ({ fields, id, upstream, upstreamModel = id }: CustomModel): Result.Result<Draft, string> => {
  const { max_input_tokens } = fields
  if (upstream === undefined) return Result.fail("upstream")
  if (max_input_tokens === undefined) return Result.fail("max_input_tokens")
  return Result.succeed({
    id,
    provider: undefined,
    fields: {
      name: id,
      max_output_tokens: 4096,
      input: ["text"],
      output: ["text"],
      reasoning: false,
      tools: true,
      ...fields,
      max_input_tokens
    },
    routes: [{ method: "service", upstream, upstreamModel }]
  })
}

/** Another upstream is the operator's own: it takes over the access method `service`, other methods stay. */
const overridden = (draft: Draft, { fields, id, upstream, upstreamModel }: CustomModel): Draft => ({
  ...draft,
  fields: { ...draft.fields, ...fields },
  routes:
    upstream === undefined
      ? Array.map(draft.routes, (route) => ({ ...route, upstreamModel: upstreamModel ?? route.upstreamModel }))
      : [
          { method: "service", upstream, upstreamModel: upstreamModel ?? id },
          ...draft.routes.filter(({ method }) => method !== "service")
        ]
})

/** The draft with the places that stand in for its upstream, or what is wrong with one of them. */
const withFallbacks = (
  draft: Draft,
  fallbacks: ReadonlyArray<CustomFallback>,
  upstreams: ReadonlySet<string>
): Result.Result<Draft, { readonly line: number; readonly problem: string }> => {
  const service = draft.routes.find(isService)
  const places: Array<Place> = []
  for (const { line, upstream, upstreamModel = draft.id } of fallbacks) {
    const isKnown = [...places, ...draft.routes.filter(isService)].some(
      (place) => place.upstream === upstream && place.upstreamModel === upstreamModel
    )
    const problem = !upstreams.has(upstream)
      ? `Expected a key of upstreams, or a provider that has a key, not ${upstream}`
      : service === undefined
        ? "This model has no upstream with a key of yours that could fail"
        : isKnown
          ? "Expected another upstream or upstream_model than before"
          : undefined
    if (problem !== undefined) return Result.fail({ line, problem })
    places.push({ upstream, upstreamModel })
  }
  return Result.succeed(
    places.length === 0
      ? draft
      : {
          ...draft,
          routes: Array.map(draft.routes, (route) => (isService(route) ? { ...route, fallbacks: places } : route))
        }
  )
}

/** Whether an id is what a pattern says, `*` standing for any characters. */
const matches = (pattern: string, id: string): boolean => {
  const [head = "", ...parts] = pattern.split("*")
  const tail = parts.pop()
  if (tail === undefined) return id === head
  if (!id.startsWith(head)) return false
  let at = head.length
  for (const part of parts) {
    const found = id.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return id.length >= at + tail.length && id.endsWith(tail)
}

const echoUpstream = "echo"

const echo: Draft = {
  id: "echo",
  provider: undefined,
  fields: {
    name: "Echo",
    description:
      "Repeats the prompt, the same answer every time. Needs no network and no key: it exists so that a " +
      "first request works before any provider is configured.",
    max_input_tokens: 128_000,
    max_output_tokens: 16_384,
    input: ["text", "image", "file", "audio"],
    output: ["text"],
    reasoning: false,
    tools: true,
    pricing: { input: 0, output: 0, cache_read: 0, cache_write: 0, reasoning: 0 }
  },
  routes: [{ method: "service", upstream: echoUpstream, upstreamModel: "echo" }]
}
