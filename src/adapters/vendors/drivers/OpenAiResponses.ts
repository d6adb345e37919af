import type { Driver } from "../Driver.ts"
import { openAiResponses } from "../protocols/OpenAiResponses.ts"

/** OpenAI itself by its newer wire, on which a model goes on where it thought before its calls. */
export const openAiByResponses: Driver = {
  id: "openai-responses",
  auth: "bearer",
  protocol: openAiResponses,
  dialect: { outputLimit: "max_completion_tokens", extensions: false },
  baseUrl: "https://api.openai.com/v1",
  keyVariable: "OPENAI_API_KEY",
  baseUrlVariable: "OPENAI_BASE_URL",
  modelPrefix: ""
}
