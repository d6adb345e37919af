import type { Protocol } from "../Protocol.ts"
import { readAnswer } from "./anthropic/Answer.ts"
import { errorText } from "./anthropic/Errors.ts"
import { Reader } from "./anthropic/Reader.ts"
import { writeRequest } from "./anthropic/Request.ts"

/**
 * Anthropic's Messages. Requests are rewritten as a whole: hardly a field of theirs is called as the contract's is. In the
 * version of the wire that still takes `temperature` and `top_p`, on the models that do; the later one refuses both.
 */
export const anthropicMessages: Protocol = {
  path: "/v1/messages",
  modelsPath: "/v1/models",
  headers: { "anthropic-version": "2023-06-01" },
  write: writeRequest,
  read: readAnswer,
  reader: () => new Reader(),
  errorText
}
