import type { Driver } from "../Driver.ts"
import { anthropic } from "./Anthropic.ts"
import { compatibleDriver, strict } from "./Compatible.ts"
import { openAi } from "./OpenAi.ts"

/**
 * The built-in vendors, in the order in which they win an id. To add one: a line here, or a file beside this one when it
 * needs more than an address; its models come from the packaged catalogue; its two variables go into README.md.
 */
export const drivers: ReadonlyArray<Driver> = [
  openAi,
  anthropic,
  compatibleDriver("deepseek", "https://api.deepseek.com/v1"),
  compatibleDriver("groq", "https://api.groq.com/openai/v1", { dialect: strict }),
  compatibleDriver("mistral", "https://api.mistral.ai/v1", { dialect: strict }),
  compatibleDriver("openrouter", "https://openrouter.ai/api/v1"),
  compatibleDriver("xai", "https://api.x.ai/v1", { dialect: strict })
]
