import type { Driver } from "../Driver.ts"
import type { Dialect } from "../Protocol.ts"
import { openAiChat } from "../protocols/OpenAiChat.ts"

/** The dialect of servers that pass over fields they do not know. */
export const compatible: Dialect = { outputLimit: "max_tokens", extensions: true }

/** Strict about fields like OpenAI, but with the older name of the output limit. */
export const strict: Dialect = { outputLimit: "max_tokens", extensions: false }

/** A vendor that speaks OpenAI's chat completions: address, variables, prefix. */
export const compatibleDriver = (
  id: string,
  baseUrl: string,
  options: {
    /** What it differs in from `compatible`. */
    readonly dialect?: Partial<Dialect>
    /** What its variables begin with, if not with the id. */
    readonly variable?: string
  } = {}
): Driver => {
  const variable = options.variable ?? id.toUpperCase().replaceAll("-", "_")
  return {
    id,
    auth: "bearer",
    protocol: openAiChat,
    dialect: { ...compatible, ...options.dialect },
    baseUrl,
    keyVariable: `${variable}_API_KEY`,
    baseUrlVariable: `${variable}_BASE_URL`,
    modelPrefix: `${id}/`
  }
}
