import type { Driver } from "../Driver.ts"
import { compatibleDriver } from "./Compatible.ts"

/** Any server that speaks OpenAI's chat completions: it is where an agent says, which every call to it has to say too. */
export const openAiCompatible: Driver = compatibleDriver("openai-compatible", "http://openai-compatible.invalid/v1")
