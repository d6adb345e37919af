import { Effect, Layer } from "effect"
import { KnownModels, type KnownProvider } from "../../application/ports/vendor/KnownModels.ts"
import { Providers } from "../../application/ports/vendor/Providers.ts"
import { fileTypesOf, type Provider, serviceProvider } from "../../domain/llm/Provider.ts"
import * as PackagedModels from "./PackagedModels.ts"
import { type ListedProvider, listedProviders } from "./ProviderList.ts"

/** The vendors with their packaged models, and any server that speaks OpenAI's chat completions. */
const providers = Layer.effect(
  Providers,
  Effect.gen(function* () {
    const packaged = yield* Effect.forEach(listedProviders, withModels)
    return Providers.of({ vendors: [...packaged, compatible] })
  })
)

/**
 * What agents' files may name. What this gateway serves depends on its operator, and no file may become wrong by that:
 * such a model is looked for when it is chosen and used.
 */
const known = Layer.effect(
  KnownModels,
  Effect.gen(function* () {
    const { vendors } = yield* Providers
    return KnownModels.of({
      providers: new Map<string, KnownProvider>([
        ...vendors.map((vendor): [string, KnownProvider] => [vendor.id, knownOf(vendor)]),
        [serviceProvider, { keyVariable: undefined, models: undefined }]
      ])
    })
  })
)

export const layer = Layer.provideMerge(known, providers)

/** Each is reached by its driver and, all of them being known to it or compatible, by the Vercel AI SDK. */
const routers = ["in-built", "external-sdk"] as const

const withModels = Effect.fnUntraced(function* (listed: ListedProvider) {
  const { defaultModel, id, keyVariable, name, takesAnyModel = false } = listed
  const reads = { pdf: "none", audio: "none", ...listed.reads } as const
  const { models } = yield* PackagedModels.load(id)
  return {
    id,
    name,
    keyVariable,
    needsKey: true,
    routers,
    takesBaseURL: false,
    baseUrlVariable: keyVariable.replace(/_API_KEY$/, "_BASE_URL"),
    takesAnyModel,
    reads,
    models: models.map((model) => ({
      name: model.id,
      displayName: model.name,
      isDefault: model.id === defaultModel,
      maxInputTokens: model.max_input_tokens,
      maxOutputTokens: model.max_output_tokens,
      supportsToolCall: model.tools,
      fileTypes: fileTypesOf(model.input, reads)
    }))
  } satisfies Provider
})

/** A server at an address of the agent's choice, such as one for local models, which want no key. */
const compatible: Provider = {
  id: "openai-compatible",
  name: "OpenAI-compatible",
  keyVariable: "OPENAI_COMPATIBLE_API_KEY",
  needsKey: false,
  routers,
  takesBaseURL: true,
  baseUrlVariable: "OPENAI_COMPATIBLE_BASE_URL",
  takesAnyModel: true,
  reads: { pdf: "none", audio: "none" },
  models: []
}

const knownOf = ({ keyVariable, models, needsKey, takesAnyModel }: Provider): KnownProvider => ({
  keyVariable: needsKey ? keyVariable : undefined,
  models: takesAnyModel ? undefined : new Map(models.map(({ maxInputTokens, name }) => [name, { maxInputTokens }]))
})
