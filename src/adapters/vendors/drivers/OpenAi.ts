import type { Driver } from "../Driver.ts"
import { openAiChat } from "../protocols/OpenAiChat.ts"

/** OpenAI itself. It refuses fields that its reference does not have. */
export const openAi: Driver = {
  id: "openai",
  auth: "bearer",
  protocol: openAiChat,
  dialect: { outputLimit: "max_completion_tokens", extensions: false },
  baseUrl: "https://api.openai.com/v1",
  keyVariable: "OPENAI_API_KEY",
  baseUrlVariable: "OPENAI_BASE_URL",
  modelPrefix: ""
}
