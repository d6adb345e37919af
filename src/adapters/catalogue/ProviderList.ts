import type { Readers } from "../../domain/llm/Provider.ts"

/** A vendor that agents can use: what its packaged models do not say. */
export interface ListedProvider {
  /** Its id, in the packaged data set too. */
  readonly id: string
  readonly name: string
  readonly keyVariable: string
  /** The packaged model that an agent gets when it is switched to the provider. */
  readonly defaultModel: string
  /** Whether it serves more models than any list has. */
  readonly takesAnyModel?: true
  /** What its models read, by the vendor's reference and on the wire by which it is spoken to; if not given, neither. */
  readonly reads?: { readonly pdf?: Readers; readonly audio?: Readers }
}

/**
 * The vendors in the order of the catalogue, kept by hand: each has a driver of the same id and variable. The default
 * is a recent model for agents at a middling price.
 *
 * The data set has no modalities but text and image. OpenAI and Anthropic read PDFs with every model that sees images,
 * OpenRouter turns them into text for the others. Google's models hear, but its wire in OpenAI's form has no PDFs.
 */
export const listedProviders: ReadonlyArray<ListedProvider> = [
  {
    id: "openai",
    name: "OpenAI",
    keyVariable: "OPENAI_API_KEY",
    defaultModel: "gpt-6.1-terra",
    reads: { pdf: "seeing" }
  },
  {
    id: "anthropic",
    name: "Anthropic",
    keyVariable: "ANTHROPIC_API_KEY",
    defaultModel: "claude-sonnet-5-5",
    reads: { pdf: "seeing" }
  },
  {
    id: "google",
    name: "Google",
    keyVariable: "GOOGLE_API_KEY",
    defaultModel: "gemini-3.8-flash",
    reads: { audio: "seeing" }
  },
  { id: "groq", name: "Groq", keyVariable: "GROQ_API_KEY", defaultModel: "openai/gpt-oss-120b" },
  { id: "xai", name: "xAI", keyVariable: "XAI_API_KEY", defaultModel: "grok-4.7" },
  { id: "mistral", name: "Mistral", keyVariable: "MISTRAL_API_KEY", defaultModel: "mistral-medium-latest" },
  {
    id: "openrouter",
    name: "OpenRouter",
    keyVariable: "OPENROUTER_API_KEY",
    defaultModel: "anthropic/claude-sonnet-5.5",
    takesAnyModel: true,
    reads: { pdf: "all" }
  },
  { id: "deepseek", name: "DeepSeek", keyVariable: "DEEPSEEK_API_KEY", defaultModel: "deepseek-v4-pro" },
  { id: "together", name: "Together AI", keyVariable: "TOGETHER_API_KEY", defaultModel: "zai-org/GLM-5.3" },
  {
    id: "fireworks",
    name: "Fireworks AI",
    keyVariable: "FIREWORKS_API_KEY",
    defaultModel: "accounts/fireworks/models/glm-5p3"
  },
  { id: "cerebras", name: "Cerebras", keyVariable: "CEREBRAS_API_KEY", defaultModel: "gpt-oss-120b" },
  { id: "moonshotai", name: "Moonshot AI", keyVariable: "MOONSHOT_API_KEY", defaultModel: "kimi-k3.1-pro" },
  { id: "minimax", name: "MiniMax", keyVariable: "MINIMAX_API_KEY", defaultModel: "MiniMax-M3" },
  { id: "zai", name: "Z.ai", keyVariable: "ZAI_API_KEY", defaultModel: "glm-5.3" }
]
