import type { Driver } from "../Driver.ts"
import { anthropicMessages } from "../protocols/AnthropicMessages.ts"

/** Anthropic itself. Its wire has one dialect. The base URL is without version, as in the vendor's own tools. */
export const anthropic: Driver = {
  id: "anthropic",
  auth: "x-api-key",
  protocol: anthropicMessages,
  dialect: { outputLimit: "max_tokens", extensions: false },
  baseUrl: "https://api.anthropic.com",
  keyVariable: "ANTHROPIC_API_KEY",
  baseUrlVariable: "ANTHROPIC_BASE_URL",
  modelPrefix: ""
}
