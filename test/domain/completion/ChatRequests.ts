import fc from "fast-check"
import {
  alwaysTrue,
  type Broken,
  either,
  flag,
  formatted,
  freeForm,
  integer,
  type Json,
  type JsonObject,
  isObject,
  kinds,
  list,
  number,
  object,
  oneOf,
  orList,
  orNull,
  orObject,
  orText,
  type Rule,
  text
} from "./Rules.ts"

/**
 * Section 4.1 of the contract once more, as a generator: what a chat request may be, and every way for it to be wrong.
 * Written from the contract and not from the service's schema, so that each checks the other.
 */
const uri = formatted(
  fc.oneof(
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc.base64String({ minLength: 4 }).map((data) => `data:image/png;base64,${data}`),
    fc.constantFrom("gs://bucket/image.png", "file:///a", "HTTPS://EXAMPLE.ORG/ä.png")
  ),
  "",
  "no scheme",
  "https"
)

const uriOrBase64 = formatted(
  fc.oneof(
    uri.allowed.map(String),
    fc.base64String({ minLength: 1 }).filter((data) => data !== "")
  ),
  "",
  "no base64!"
)

const textPart = { required: { text: text() } }
const imageUrlPart = { required: { image_url: object({ required: { url: uri } }) } }

const instruction = either(orText(text()), orList(list(kinds("type", { text: textPart }), { min: 1 })))

const message = kinds("role", {
  system: { required: { content: instruction } },
  developer: { required: { content: instruction } },
  user: {
    required: {
      content: either(
        orText(text()),
        orList(
          list(
            kinds("type", {
              text: textPart,
              image_url: imageUrlPart,
              file: {
                required: { file: object({ required: { file_data: uriOrBase64 }, optional: { filename: text() } }) }
              },
              input_audio: {
                required: {
                  input_audio: object({
                    required: {
                      data: text(),
                      format: oneOf("aac", "aiff", "flac", "m4a", "mp3", "ogg", "pcm16", "pcm24", "wav")
                    }
                  })
                }
              }
            }),
            { min: 1 }
          )
        )
      )
    }
  },
  assistant: {
    optional: {
      content: either(
        orText(text()),
        orNull,
        orList(list(kinds("type", { text: textPart, refusal: { required: { refusal: text() } } })))
      ),
      reasoning: text(),
      reasoning_content: text(),
      tool_calls: list(
        object({
          required: {
            id: text({ min: 1 }),
            type: oneOf("function"),
            function: object({ required: { name: text({ min: 1 }), arguments: text() } })
          }
        })
      )
    }
  },
  tool: {
    required: {
      content: either(
        orText(text()),
        orList(
          list(
            kinds("type", {
              text: textPart,
              media: { required: { data: text(), mediaType: text() } },
              image: { required: { image: text() }, optional: { mimeType: text() } },
              file: { required: { data: text(), mimeType: text() } },
              image_url: imageUrlPart
            })
          )
        )
      ),
      tool_call_id: text({ min: 1 })
    },
    optional: { name: text({ min: 1 }) }
  }
})

const fields = {
  required: { model: text({ min: 1 }), messages: list(message, { min: 1 }) },
  optional: {
    access_method: oneOf("vendor-a-api-key", "service", "vendor-b-api-key", "vendor-b-chat"),
    stream: flag,
    stream_options: object({ optional: { include_usage: flag } }),
    temperature: number,
    top_p: number,
    frequency_penalty: number,
    presence_penalty: number,
    max_tokens: integer({ min: 1 }),
    max_completion_tokens: integer({ min: 1 }),
    seed: integer(),
    stop: either(orText(text({ min: 1 })), orList(list(text({ min: 1 }), { min: 1 }))),
    service_tier: oneOf("auto", "default", "fast", "priority"),
    verbosity: oneOf("low", "medium", "high"),
    include_reasoning: flag,
    reasoning: freeForm,
    reasoning_effort: text({ min: 1 }),
    usage: freeForm,
    prompt_cache_key: text(),
    user: text(),
    parallel_tool_calls: flag,
    tools: list(
      object({
        required: {
          type: oneOf("function"),
          function: object({
            required: { name: text({ min: 1 }) },
            optional: { description: text(), parameters: freeForm }
          })
        }
      })
    ),
    tool_choice: either(
      orText(oneOf("auto", "none", "required")),
      orObject(
        object({
          required: { type: oneOf("function"), function: object({ required: { name: text({ min: 1 }) } }) }
        })
      )
    ),
    response_format: kinds("type", {
      text: {},
      json_object: {},
      json_schema: {
        required: {
          json_schema: object({
            required: { name: text({ min: 1 }), schema: freeForm },
            optional: { description: text(), strict: alwaysTrue }
          })
        }
      }
    })
  }
} satisfies { readonly required: Readonly<Record<string, Rule>>; readonly optional: Readonly<Record<string, Rule>> }

/** The names of all fields that a request may have. */
export const fieldNames = [...Object.keys(fields.required), ...Object.keys(fields.optional)]

const request = object(fields)

/** Requests as the contract allows them. Given both, the two names of the output limit agree (decisions 2). */
export const chatRequests: fc.Arbitrary<JsonObject> = request.allowed.filter(isObject).map((value) => {
  const { max_completion_tokens, max_tokens } = value
  return max_completion_tokens === undefined || max_tokens === undefined
    ? value
    : { ...value, max_completion_tokens: max_tokens }
})

/** Every way to break one field of a request. */
export const brokenRequests = (value: JsonObject): ReadonlyArray<Broken> => [
  ...request.broken(value),
  {
    path: ["max_completion_tokens"],
    value: { ...value, max_tokens: 5, max_completion_tokens: 6 } satisfies JsonObject as Json,
    wrong: "two output limits"
  }
]
