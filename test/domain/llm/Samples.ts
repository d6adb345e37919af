import type { Llm } from "../../../src/domain/llm/Llm.ts"
import type { Provider, ProviderModel } from "../../../src/domain/llm/Provider.ts"

export const model = (name: string, fields: Partial<ProviderModel> = {}): ProviderModel => ({
  name,
  displayName: `The ${name}`,
  isDefault: false,
  maxInputTokens: 1_000,
  maxOutputTokens: 500,
  supportsToolCall: true,
  fileTypes: [],
  ...fields
})

const vendor = (id: string, fields: Partial<Provider> = {}): Provider => ({
  id,
  name: id.toUpperCase(),
  keyVariable: `${id.toUpperCase()}_API_KEY`,
  needsKey: true,
  routers: ["in-built", "external-sdk"],
  takesBaseURL: false,
  baseUrlVariable: `${id.toUpperCase()}_BASE_URL`,
  takesAnyModel: false,
  reads: { pdf: "none", audio: "none" },
  models: [],
  ...fields
})

/** Two vendors that share the name of a model, one for any model, one at any address, and the gateway itself. */
export const providers: ReadonlyArray<Provider> = [
  vendor("alpha", {
    models: [model("large", { isDefault: true }), model("small", { maxInputTokens: 100 }), model("both")]
  }),
  vendor("beta", { models: [model("tiny", { isDefault: true, maxInputTokens: 10 }), model("both")] }),
  vendor("broker", { takesAnyModel: true, models: [model("listed", { isDefault: true })] }),
  vendor("anywhere", { needsKey: false, takesBaseURL: true, takesAnyModel: true }),
  {
    ...vendor("service", {
      routers: ["in-built"],
      needsKey: false,
      models: [model("tiny", { isDefault: true }), model("echo")]
    }),
    keyVariable: undefined,
    baseUrlVariable: undefined
  }
]

export const llm = (fields: Partial<Llm> = {}): Llm => ({
  provider: "alpha",
  model: "large",
  apiKey: "the key of alpha",
  maxIterations: 50,
  router: "in-built",
  baseURL: undefined,
  maxInputTokens: undefined,
  maxOutputTokens: undefined,
  temperature: undefined,
  allowedMediaTypes: undefined,
  ...fields
})

/** A `.env`. */
export const variables = (values: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(values))
