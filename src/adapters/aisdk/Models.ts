import type { Model } from "./Sdk.ts"

/** How a provider of the SDK is made. */
export interface Settings {
  readonly model: string
  /** Empty of a server that wants none. Never left out: the SDK would take one from the environment, the operator's. */
  readonly apiKey: string
  /** As the in-built router has it. */
  readonly baseUrl: string
  readonly fetch: typeof globalThis.fetch
}

export interface Library {
  /** Loads the library on its first use: a service whose agents do not use it never does. */
  readonly model: (settings: Settings) => Promise<Model>
  /** What its calls say beside the request, by the names that the libraries have for themselves. */
  readonly options?: { readonly [name: string]: { readonly [option: string]: boolean } }
  /** Whether its wire has to say how many tokens of output there may be. */
  readonly wantsLimit?: true
  /** Whether it takes what was thought in earlier answers as plain text. */
  readonly takesThoughts?: true
}

/** The providers that the SDK has a library for; every other one speaks OpenAI's chat completions. */
const libraries: ReadonlyMap<string, Library> = new Map<string, Library>([
  [
    "openai",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createOpenAI } = await import("@ai-sdk/openai")
        return createOpenAI({ apiKey, baseURL: baseUrl, fetch }).responses(model)
      },
      // Everything is in the request: nothing is stored at the vendor.
      options: { openai: { store: false } }
    }
  ],
  [
    "anthropic",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createAnthropic } = await import("@ai-sdk/anthropic")
        return createAnthropic({ apiKey, baseURL: `${trimmed(baseUrl)}/v1`, fetch }).languageModel(model)
      },
      // Calls are read as a whole: asking for their pieces would say nothing more.
      options: { anthropic: { toolStreaming: false } },
      wantsLimit: true
    }
  ],
  [
    "google",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createGoogle } = await import("@ai-sdk/google")
        // Its own wire lives beside the one in OpenAI's form.
        return createGoogle({ apiKey, baseURL: trimmed(baseUrl).replace(/\/openai$/, ""), fetch }).languageModel(model)
      }
    }
  ],
  [
    "groq",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createGroq } = await import("@ai-sdk/groq")
        return createGroq({ apiKey, baseURL: baseUrl, fetch }).languageModel(model)
      }
    }
  ],
  [
    "mistral",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createMistral } = await import("@ai-sdk/mistral")
        return createMistral({ apiKey, baseURL: baseUrl, fetch }).languageModel(model)
      }
    }
  ],
  [
    "xai",
    {
      model: async ({ apiKey, baseUrl, fetch, model }) => {
        const { createXai } = await import("@ai-sdk/xai")
        return createXai({ apiKey, baseURL: baseUrl, fetch }).responses(model)
      },
      options: { xai: { store: false } }
    }
  ]
])

/** The library for a provider. */
export const libraryOf = (provider: string): Library =>
  libraries.get(provider) ?? {
    model: async ({ apiKey, baseUrl, fetch, model }) => {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible")
      return createOpenAICompatible({
        name: provider,
        ...(apiKey === "" ? {} : { apiKey }),
        baseURL: baseUrl,
        includeUsage: true,
        supportsStructuredOutputs: true,
        fetch
      }).languageModel(model)
    },
    takesThoughts: true
  }

const trimmed = (baseUrl: string): string => baseUrl.replace(/\/+$/, "")
