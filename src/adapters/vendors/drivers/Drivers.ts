import type { Driver } from "../Driver.ts"
import { anthropic } from "./Anthropic.ts"
import { compatibleDriver } from "./Compatible.ts"
import { openAi } from "./OpenAi.ts"

/**
 * The built-in vendors, in the order in which they win an id. To add one: a line here, or a file beside this one when it
 * needs more than an address; its models come from the packaged catalogue; its two variables go into README.md.
 *
 * Z.ai's address is the one that is paid by use; its coding plans have another, for `ZAI_BASE_URL`.
 */
export const drivers: ReadonlyArray<Driver> = [
  openAi,
  anthropic,
  compatibleDriver("cerebras", "https://api.cerebras.ai/v1", {
    dialect: {
      outputLimit: "max_completion_tokens",
      extensions: false,
      systemOnly: true,
      thoughts: "reasoning",
      lacks: ["verbosity"]
    }
  }),
  compatibleDriver("deepseek", "https://api.deepseek.com/v1", {
    dialect: { systemOnly: true, thoughts: "reasoning_content" }
  }),
  compatibleDriver("fireworks", "https://api.fireworks.ai/inference/v1", {
    dialect: { systemOnly: true, thoughts: "reasoning_content" }
  }),
  compatibleDriver("google", "https://generativelanguage.googleapis.com/v1beta/openai", {
    dialect: {
      extensions: false,
      systemOnly: true,
      signsCalls: true,
      lacks: ["frequency_penalty", "presence_penalty", "seed"]
    }
  }),
  compatibleDriver("groq", "https://api.groq.com/openai/v1", {
    dialect: {
      outputLimit: "max_completion_tokens",
      extensions: false,
      thoughts: "reasoning",
      lacks: ["prompt_cache_key", "verbosity"]
    }
  }),
  compatibleDriver("minimax", "https://api.minimax.io/v1", {
    dialect: { outputLimit: "max_completion_tokens", systemOnly: true }
  }),
  compatibleDriver("mistral", "https://api.mistral.ai/v1", {
    dialect: {
      extensions: false,
      systemOnly: true,
      usageUnasked: true,
      seed: "random_seed",
      thoughts: "parts",
      lacks: ["service_tier", "user", "verbosity"]
    }
  }),
  compatibleDriver("moonshotai", "https://api.moonshot.ai/v1", {
    variable: "MOONSHOT",
    dialect: { outputLimit: "max_completion_tokens", systemOnly: true, thoughts: "reasoning_content" }
  }),
  compatibleDriver("openrouter", "https://openrouter.ai/api/v1"),
  compatibleDriver("together", "https://api.together.ai/v1", { dialect: { systemOnly: true, thoughts: "reasoning" } }),
  compatibleDriver("xai", "https://api.x.ai/v1", {
    dialect: { outputLimit: "max_completion_tokens", extensions: false }
  }),
  compatibleDriver("zai", "https://api.z.ai/api/paas/v4", {
    dialect: { systemOnly: true, thoughts: "reasoning_content" }
  })
]
