import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { NewPrompt, Prompt } from "../../../domain/prompt/Prompt.ts"
import { ArgumentsFromJson } from "../../../domain/prompt/Resolve.ts"
import { BodyLimit } from "./envelopes/Envelope.ts"
import { messageError } from "./envelopes/MessageEnvelope.ts"

/** Section 8, in bytes: the resource of a prompt comes with it. */
const largestPrompt = 10 * 1024 * 1024

const Name = { name: Schema.String }

const unknownPrompt = messageError(404, "No prompt has this name.")

/** Prompts (section 4.7). */
export const PromptApi = HttpApiGroup.make("prompts").add(
  HttpApiEndpoint.get("listPrompts", "/api/prompts", {
    success: Schema.Struct({ prompts: Schema.Array(Prompt) })
  }).annotateMerge(
    OpenApi.annotations({
      identifier: "listPrompts",
      summary: "list prompts",
      description:
        "The workspace's own prompts (`custom`), those packaged with the service (`builtin`), the starter prompts of " +
        "the current agent (`starter`) and those of its MCP servers (`mcp`, named `server--prompt`)."
    })
  ),
  HttpApiEndpoint.get("getPrompt", "/api/prompts/:name", {
    params: Name,
    success: Schema.Struct({ definition: Prompt }),
    error: [unknownPrompt]
  }).annotateMerge(OpenApi.annotations({ identifier: "getPrompt", summary: "one prompt" })),
  HttpApiEndpoint.get("resolvePrompt", "/api/prompts/:name/resolve", {
    params: Name,
    query: {
      context: Schema.optionalKey(
        Schema.String.pipe(
          Schema.annotateKey({ description: "Added as a paragraph, or put where the text has `{{context}}`." })
        )
      ),
      args: Schema.optionalKey(
        ArgumentsFromJson.pipe(Schema.annotateKey({ description: 'The arguments as JSON: `{"name": "value"}`.' }))
      )
    },
    success: Schema.Struct({ text: Schema.String, resources: Schema.Array(Schema.String) }),
    error: [
      messageError(
        400,
        "A required argument is missing, or `args` is no JSON object of plain values, or the prompt's server refused."
      ),
      unknownPrompt,
      messageError(502, "The MCP server that has the prompt failed.")
    ]
  }).annotateMerge(
    OpenApi.annotations({ identifier: "resolvePrompt", summary: "a prompt with its arguments in place" })
  ),
  HttpApiEndpoint.post("createPrompt", "/api/prompts/custom", {
    payload: NewPrompt,
    success: Schema.Struct({ prompt: Prompt }).pipe(HttpApiSchema.status(201)),
    error: [
      messageError(400, "A field is wrong, or there is a prompt of this name."),
      messageError(413, "The body is larger than 10 MB (10 × 1,048,576 bytes).")
    ]
  })
    .annotateMerge(OpenApi.annotations({ identifier: "createPrompt", summary: "create a custom prompt" }))
    .annotate(BodyLimit, largestPrompt),
  HttpApiEndpoint.delete("deletePrompt", "/api/prompts/custom/:name", {
    params: Name,
    success: HttpApiSchema.NoContent,
    error: [messageError(400, "The prompt is not a custom one."), unknownPrompt]
  }).annotateMerge(OpenApi.annotations({ identifier: "deletePrompt", summary: "delete a custom prompt" }))
)
