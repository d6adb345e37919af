import { Option, Schema } from "effect"
import type { Protocol } from "../Protocol.ts"
import type { Form } from "./responses/Form.ts"
import { writeRequest } from "./responses/Request.ts"
import { readResponse } from "./responses/Response.ts"
import { ResponseReader } from "./responses/ResponseReader.ts"

const responses = (form: Form): Protocol => ({
  path: "/responses",
  write: (call) => writeRequest(call, form),
  read: (body) => readResponse(body, form),
  reader: () => new ResponseReader(form),
  errorText: (body) =>
    Option.getOrUndefined(Option.map(decodeError(body), (said) => ("error" in said ? said.error.message : said.detail)))
})

/** OpenAI's Responses API, as the platform has it. Everything is in the request: nothing is stored at the vendor. */
export const openAiResponses: Protocol = responses("platform")

/**
 * The same wire as chat subscriptions have it, behind the open-source Codex command line. Undocumented: it is stricter
 * than the platform, answers by streams only, and wants to know which program calls.
 */
export const subscriptionResponses: Protocol = {
  ...responses("subscription"),
  streamsOnly: true,
  headers: { "openai-beta": "responses=experimental", originator: "model-gateway" }
}

/** The subscription's server says `detail` where the platform has its error object. */
const decodeError = Schema.decodeUnknownOption(
  Schema.Union([
    Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }),
    Schema.Struct({ detail: Schema.String })
  ])
)
