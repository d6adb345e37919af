import { Result, Schema } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { anthropic } from "../../../src/adapters/vendors/drivers/Anthropic.ts"
import { anthropicMessages } from "../../../src/adapters/vendors/protocols/AnthropicMessages.ts"
import { ChatRequest } from "../../../src/domain/completion/ChatRequest.ts"
import { attach } from "../../../src/domain/completion/Continuation.ts"
import type { Issue } from "../../../src/domain/shared/Issue.ts"
import { chatRequests, fieldNames } from "../../domain/completion/ChatRequests.ts"
import { isObject, type Json, type JsonObject, write } from "../../domain/completion/Rules.ts"
import { check } from "../../fixtures/anthropic/RequestRules.ts"
import { sign } from "../../fixtures/anthropic/Signature.ts"

const decode = Schema.decodeUnknownSync(ChatRequest, { onExcessProperty: "error" })

/** A model of the newest kind, and the last one before. */
const newest = "claude-opus-5-5"
const older = "claude-sonnet-4-5-20250929"

const hi = [{ role: "user", content: "Hi" }]

const lowered = (
  fields: JsonObject,
  model = newest,
  outputLimit = 4096
): Result.Result<JsonObject, ReadonlyArray<Issue>> =>
  Result.mapBoth(
    anthropicMessages.write(
      {
        route: { method: "service", upstream: "anthropic", upstreamModel: model },
        request: decode({ model: "m", messages: hi, ...fields }),
        outputCap: undefined,
        outputLimit
      },
      anthropic.dialect
    ),
    {
      onFailure: ({ issues }) => issues,
      onSuccess: (body) => {
        const value: Json = JSON.parse(JSON.stringify(body))
        return isObject(value) ? value : expect.fail("what is sent is no object")
      }
    }
  )

const sent = (fields: JsonObject, model?: string, outputLimit?: number): JsonObject =>
  Result.getOrThrowWith(
    lowered(fields, model, outputLimit),
    (issues) => new Error(`refused: ${JSON.stringify(issues)}`)
  )

/** The fields that a refusal names. */
const refused = (fields: JsonObject, model?: string, outputLimit?: number): ReadonlyArray<string> => {
  const result = lowered(fields, model, outputLimit)
  return Result.isFailure(result) ? result.failure.map(({ path }) => path) : []
}

const messagesSent = (messages: ReadonlyArray<Json>, model?: string) => {
  const { messages: written, system } = sent({ messages }, model)
  return { system, messages: written }
}

const text = (text: string) => ({ type: "text", text })

const call = (id: string, json = "{}", name = "look") => ({
  id,
  type: "function",
  function: { name, arguments: json }
})

const weather = { type: "function", function: { name: "weather" } }

describe("the driver", () => {
  test("reaches the vendor as its reference says", () => {
    expect(anthropic).toMatchObject({
      id: "anthropic",
      auth: "x-api-key",
      baseUrl: "https://api.anthropic.com",
      keyVariable: "ANTHROPIC_API_KEY",
      baseUrlVariable: "ANTHROPIC_BASE_URL",
      modelPrefix: ""
    })
    expect(anthropicMessages).toMatchObject({ path: "/v1/messages", headers: { "anthropic-version": "2023-06-01" } })
  })
})

describe("the fields of a request", () => {
  test("are no more than the model, the limit and the messages, when no other is given", () => {
    expect(sent({})).toEqual({
      model: newest,
      max_tokens: 4096,
      messages: [{ role: "user", content: [text("Hi")] }]
    })
  })

  test.each<[name: string, fields: JsonObject, wire: JsonObject]>([
    ["max_tokens", { max_tokens: 7 }, { max_tokens: 7 }],
    ["max_completion_tokens", { max_completion_tokens: 8 }, { max_tokens: 8 }],
    ["stream", { stream: true, stream_options: { include_usage: true } }, { stream: true }],
    ["no stream", { stream: false, access_method: "service", usage: { include: true } }, {}],
    ["temperature", { temperature: 0.5 }, { temperature: 0.5 }],
    ["top_p", { top_p: 0.9 }, { top_p: 0.9 }],
    ["stop", { stop: "END" }, { stop_sequences: ["END"] }],
    ["stops", { stop: ["A", "B"] }, { stop_sequences: ["A", "B"] }],
    ["user", { user: "u-1" }, { metadata: { user_id: "u-1" } }],
    ["tier auto", { service_tier: "auto" }, { service_tier: "auto" }],
    ["tier default", { service_tier: "default" }, { service_tier: "standard_only" }],
    ["tier priority", { service_tier: "priority" }, { service_tier: "auto" }],
    ["tier fast", { service_tier: "fast" }, { service_tier: "auto" }],
    ["prompt_cache_key", { prompt_cache_key: "k" }, { cache_control: { type: "ephemeral" } }],
    ["penalties of 0", { frequency_penalty: 0, presence_penalty: 0 }, {}],
    ["format text", { response_format: { type: "text" } }, {}],
    ["no tools", { tools: [], tool_choice: "auto", parallel_tool_calls: false }, {}]
  ])("reach the vendor under its names: %s", (_, fields, wire) => {
    expect(sent(fields)).toEqual({ ...sent({}), ...wire })
  })

  test.each<[path: string, fields: JsonObject]>([
    ["seed", { seed: 1 }],
    ["frequency_penalty", { frequency_penalty: 0.1 }],
    ["presence_penalty", { presence_penalty: -1 }],
    ["verbosity", { verbosity: "low" }],
    ["temperature", { temperature: 1.1 }],
    ["temperature", { temperature: -0.1 }],
    ["usage.limit", { usage: { include: true, limit: 3 } }],
    ["response_format", { response_format: { type: "json_object" } }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tool_choice: { type: "function", function: { name: "f" } } }],
    ["reasoning_effort", { reasoning_effort: "extreme" }],
    ["reasoning.effort", { reasoning: { effort: "low" }, reasoning_effort: "high" }],
    ["reasoning.effort", { reasoning: { effort: 3 } }],
    ["reasoning.depth", { reasoning: { depth: 3 } }],
    ["reasoning.max_tokens", { reasoning: { max_tokens: 1023 } }],
    ["reasoning.max_tokens", { reasoning: { max_tokens: 2048, effort: "low" } }],
    ["reasoning.max_tokens", { reasoning: { max_tokens: 2048 } }],
    ["reasoning.enabled", { reasoning: { enabled: false, effort: "low" } }],
    ["messages", { messages: [{ role: "system", content: "Be brief." }] }]
  ])("are refused by name where the vendor has no place for them: %s", (path, fields) => {
    expect(refused(fields)).toEqual([path])
  })

  test("are all of them refused at once", () => {
    expect(refused({ seed: 1, verbosity: "high", temperature: 2 })).toEqual(["seed", "verbosity", "temperature"])
  })

  test("ask for an answer of a schema", () => {
    const schema = { type: "object", properties: { city: { type: "string" } } }
    const formatOf = (json_schema: JsonObject) => sent({ response_format: { type: "json_schema", json_schema } })
    expect(formatOf({ name: "place", schema, strict: true })["output_config"]).toEqual({
      format: { type: "json_schema", schema: { title: "place", ...schema } }
    })
    expect(
      formatOf({ name: "place", description: "A place.", schema: { ...schema, description: "On Earth." } })
    ).toMatchObject({ output_config: { format: { schema: { description: "A place.\n\nOn Earth." } } } })
  })

  test("describe the tools, and a schema for each", () => {
    const parameters = { properties: { city: { type: "string" } } }
    const described = { type: "function", function: { name: "go", description: "Goes.", parameters } }
    expect(sent({ tools: [weather, described] })).toMatchObject({
      tools: [
        { name: "weather", input_schema: { type: "object" } },
        { name: "go", description: "Goes.", input_schema: { type: "object", ...parameters } }
      ]
    })
  })

  test.each<[name: string, fields: JsonObject, choice: JsonObject | undefined]>([
    ["nothing said", {}, undefined],
    ["auto", { tool_choice: "auto" }, { type: "auto" }],
    ["none", { tool_choice: "none", parallel_tool_calls: false }, { type: "none" }],
    ["required", { tool_choice: "required" }, { type: "any" }],
    [
      "a function, one call",
      { tool_choice: { type: "function", function: { name: "weather" } }, parallel_tool_calls: false },
      { type: "tool", name: "weather", disable_parallel_tool_use: true }
    ],
    ["one call", { parallel_tool_calls: false }, { type: "auto", disable_parallel_tool_use: true }],
    ["several calls", { parallel_tool_calls: true }, undefined]
  ])("choose among the tools: %s", (_, fields, choice) => {
    expect(sent({ tools: [weather], ...fields })["tool_choice"]).toEqual(choice)
  })

  test.each<[name: string, fields: JsonObject, isCached: boolean]>([
    ["one question", {}, false],
    ["a key", { prompt_cache_key: "" }, true],
    ["tools", { tools: [weather] }, true],
    ["a conversation", { messages: [...hi, { role: "assistant", content: "Hello." }, ...hi] }, true]
  ])("cache a prompt that comes back: %s", (_, fields, isCached) => {
    expect("cache_control" in sent(fields)).toBe(isCached)
  })

  test("are refused by the names of fields that the request has, whatever it is", () => {
    let refusals = 0
    fc.assert(
      fc.property(chatRequests, (given) => {
        const request: Json = JSON.parse(write(given))
        const result = lowered(isObject(request) ? request : {})
        if (Result.isSuccess(result)) return
        refusals++
        for (const { path } of result.failure) {
          const keys = path.split(/[.[\]]+/u).filter((key) => key !== "")
          expect(fieldNames).toContain(keys[0])
          if (keys[0] !== "reasoning" && keys[0] !== "usage") {
            expect(
              keys.reduce<unknown>((value, key) => Object(value)[key], request),
              path
            ).toBeDefined()
          }
        }
      }),
      { numRuns: 300 }
    )
    expect(refusals).toBeGreaterThan(20)
  })
})

describe("reasoning", () => {
  const thought = (fields: JsonObject, model?: string, limit?: number) => {
    const { output_config, thinking } = sent(fields, model, limit)
    return { thinking, effort: isObject(output_config) ? output_config["effort"] : undefined }
  }
  const summarized = { type: "adaptive", display: "summarized" }

  test.each<[name: string, fields: JsonObject, expected: JsonObject]>([
    ["an effort", { reasoning_effort: "high" }, { thinking: summarized, effort: "high" }],
    [
      "the same twice",
      { reasoning_effort: "low", reasoning: { effort: "low" } },
      { thinking: summarized, effort: "low" }
    ],
    ["the least effort", { reasoning: { effort: "minimal" } }, { thinking: summarized, effort: "low" }],
    ["the most effort", { reasoning: { effort: "max" } }, { thinking: summarized, effort: "max" }],
    ["on", { reasoning: { enabled: true } }, { thinking: summarized }],
    ["shown", { include_reasoning: true }, { thinking: summarized }],
    ["hidden", { include_reasoning: false }, {}],
    [
      "done but hidden",
      { reasoning_effort: "low", include_reasoning: false },
      { thinking: { type: "adaptive", display: "omitted" }, effort: "low" }
    ],
    [
      "excluded",
      { reasoning: { effort: "low", exclude: true } },
      { thinking: { type: "adaptive", display: "omitted" }, effort: "low" }
    ],
    ["none", { reasoning_effort: "none" }, { thinking: { type: "disabled" } }],
    ["off", { reasoning: { enabled: false } }, { thinking: { type: "disabled" } }]
  ])("of models that decide how much they think: %s", (_, fields, expected) => {
    expect(thought(fields)).toEqual({ thinking: undefined, effort: undefined, ...expected })
  })

  test.each<[name: string, fields: JsonObject, budget: number]>([
    ["minimal", { reasoning_effort: "minimal" }, 1024],
    ["low", { reasoning_effort: "low" }, 2000],
    ["medium", { reasoning_effort: "medium" }, 5000],
    ["high", { reasoning_effort: "high" }, 8000],
    ["max", { reasoning_effort: "max" }, 9500],
    ["on", { reasoning: { enabled: true } }, 5000],
    ["a budget", { reasoning: { max_tokens: 3000 } }, 3000]
  ])("of models that want a budget, as a part of the output: %s", (_, fields, budget_tokens) => {
    expect(thought(fields, older, 10_001)).toEqual({ thinking: { type: "enabled", budget_tokens }, effort: undefined })
  })

  test("stays within the output, and is refused where there is no room for it", () => {
    const effort = { reasoning_effort: "high" }
    expect(thought(effort, older, 1025).thinking).toEqual({ type: "enabled", budget_tokens: 1024 })
    expect(refused(effort, older, 1024)).toEqual(["reasoning_effort"])
    expect(refused({ reasoning: { max_tokens: 5000 }, max_tokens: 5000 }, older)).toEqual(["reasoning.max_tokens"])
    expect(refused({ reasoning: { enabled: true }, max_tokens: 100 }, older)).toEqual(["reasoning.enabled"])
  })

  test.each<[model: string, fields: JsonObject, expected: JsonObject]>([
    ["claude-3-7-sonnet-20250219", { reasoning_effort: "low" }, { thinking: { type: "enabled", budget_tokens: 1024 } }],
    ["claude-opus-4-20250514", { include_reasoning: true }, {}],
    ["claude-haiku-4-5", { reasoning_effort: "none" }, { thinking: { type: "disabled" } }],
    [
      "claude-opus-4-5",
      { reasoning_effort: "high", include_reasoning: false },
      { thinking: { type: "enabled", budget_tokens: 3276, display: "omitted" }, effort: "high" }
    ],
    ["claude-opus-4-6", { reasoning_effort: "high" }, { thinking: summarized, effort: "high" }],
    ["claude-opus-4-8", { include_reasoning: true }, {}],
    ["claude-sonnet-5", { include_reasoning: true }, { thinking: summarized }],
    ["claude-sonnet-5", { reasoning_effort: "none" }, { thinking: { type: "disabled" } }],
    ["claude-sonnet-5-5", { reasoning_effort: "none" }, { thinking: { type: "between_tools" } }],
    ["claude-fable-5-2", { reasoning_effort: "xhigh" }, { thinking: summarized, effort: "xhigh" }],
    ["the-house-model", { reasoning_effort: "low" }, { thinking: summarized, effort: "low" }]
  ])("is said as %s wants it: %j", (model, fields, expected) => {
    expect(thought(fields, model)).toEqual({ thinking: undefined, effort: undefined, ...expected })
  })
})

describe("instructions", () => {
  const system = (content: Json) => ({ role: "system", content })
  const developer = (content: Json) => ({ role: "developer", content })

  test("at the beginning are the prompt", () => {
    const begin = [system("Be brief."), developer([text("Be kind."), text(" "), text("Be right.")]), ...hi]
    for (const model of [newest, older]) {
      expect(messagesSent(begin, model)).toEqual({
        system: [text("Be brief."), text("Be kind."), text("Be right.")],
        messages: [{ role: "user", content: [text("Hi")] }]
      })
    }
  })

  const later = [
    ...hi,
    { role: "assistant", content: "Hello." },
    system("It is late."),
    { role: "user", content: "Bye" },
    developer("Say good night.")
  ]

  test("in between stay there, behind what the user says next", () => {
    expect(messagesSent(later)).toEqual({
      system: undefined,
      messages: [
        { role: "user", content: [text("Hi")] },
        { role: "assistant", content: [text("Hello.")] },
        { role: "user", content: [text("Bye")] },
        { role: "system", content: [text("It is late."), text("Say good night.")] }
      ]
    })
  })

  test("in between join the prompt of models that take them only there, or where they could not stand", () => {
    expect(messagesSent(later, older).system).toEqual([text("It is late."), text("Say good night.")])
    expect(messagesSent(later.slice(0, 3))).toMatchObject({ system: [text("It is late.")], messages: [{}, {}] })
  })
})

describe("what a user says", () => {
  const partsSent = (...content: ReadonlyArray<Json>) => {
    const { messages } = messagesSent([{ role: "user", content }])
    return Array.isArray(messages) && isObject(messages[0]) ? messages[0]["content"] : expect.fail("no message")
  }
  const pathsOf = (...content: ReadonlyArray<Json>) => refused({ messages: [...hi, { role: "user", content }] })
  const imageUrl = (url: string) => ({ type: "image_url", image_url: { url } })
  const file = (file_data: string, filename?: string) => ({
    type: "file",
    file: { file_data, ...(filename === undefined ? {} : { filename }) }
  })
  const base64 = (text: string) => Buffer.from(text).toString("base64")
  const pdf = base64("%PDF-1.7 …")

  test("in several messages is one turn", () => {
    expect(messagesSent([...hi, { role: "user", content: [text("a"), text("\n"), text("b")] }]).messages).toEqual([
      { role: "user", content: [text("Hi"), text("a"), text("b")] }
    ])
  })

  test.each<[name: string, part: JsonObject, block: JsonObject]>([
    ["text", text("a"), text("a")],
    [
      "an image by its address",
      imageUrl("https://example.org/a.png"),
      { type: "image", source: { type: "url", url: "https://example.org/a.png" } }
    ],
    [
      "an image",
      imageUrl("data:image/png;base64,AAAA"),
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }
    ],
    [
      "an image of another spelling",
      imageUrl("DATA:image/JPG;name=a;base64,-_8%3D"),
      { type: "image", source: { type: "base64", media_type: "image/jpeg", data: "+/8=" } }
    ],
    [
      "a PDF",
      file(`data:application/pdf;base64,${pdf}`, "a.pdf"),
      {
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: pdf },
        title: "a.pdf"
      }
    ],
    [
      "a PDF as bare base64",
      file(pdf),
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf } }
    ],
    [
      "a PDF by its address",
      file("https://example.org/a.pdf", ""),
      { type: "document", source: { type: "url", url: "https://example.org/a.pdf" } }
    ],
    [
      "a text",
      file(`data:text/plain;charset=utf-8;base64,${base64("grüezi")}`),
      { type: "document", source: { type: "text", media_type: "text/plain", data: "grüezi" } }
    ],
    [
      "a text without base64",
      file("data:text/csv,a%2Cb"),
      { type: "document", source: { type: "text", media_type: "text/plain", data: "a,b" } }
    ],
    [
      "a text as bare base64",
      file(base64("plain"), "notes.txt"),
      {
        type: "document",
        source: { type: "text", media_type: "text/plain", data: "plain" },
        title: "notes.txt"
      }
    ]
  ])("reaches the vendor in its blocks: %s", (_, part, block) => {
    expect(partsSent(part)).toEqual([block])
  })

  test.each<[name: string, part: JsonObject, path: string]>([
    ["audio", { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }, ""],
    ["an insecure address", imageUrl("http://example.org/a.png"), ".image_url.url"],
    ["a local file", imageUrl("file:///etc/passwd"), ".image_url.url"],
    ["another kind of image", imageUrl("data:image/svg+xml;base64,AAAA"), ".image_url.url"],
    ["a data URI without data", imageUrl("data:image/png;base64"), ".image_url.url"],
    ["broken percents", file("data:text/plain,%E0%A4%A"), ".file.file_data"],
    ["an image as a file", file("data:image/png;base64,AAAA"), ".file.file_data"],
    ["an archive", file("data:application/zip;base64,AAAA"), ".file.file_data"],
    ["bytes that are no text", file(Buffer.from([0xff, 0xfe, 0xfd]).toString("base64")), ".file.file_data"],
    ["an address of another scheme", file("s3://bucket/a.pdf"), ".file.file_data"]
  ])("is refused by its place where the vendor has no block for it: %s", (_, part, path) => {
    expect(pathsOf(text("Look:"), part)).toEqual([`messages[1].content[1]${path}`])
    expect(pathsOf(part)).toEqual([`messages[1].content[0]${path}`])
  })

  test("is refused where it says nothing", () => {
    expect(refused({ messages: [{ role: "user", content: " \n" }] })).toEqual(["messages[0].content"])
  })

  test("is refused with the first twenty issues", () => {
    const audio = { type: "input_audio", input_audio: { data: "", format: "wav" } }
    expect(pathsOf(...Array(50).fill(audio))).toHaveLength(20)
  })
})

describe("what an assistant said", () => {
  const assistantSent = (...messages: ReadonlyArray<JsonObject>) =>
    messagesSent([...hi, ...messages.map((message) => ({ role: "assistant", ...message })), ...hi]).messages

  test.each<[name: string, message: JsonObject, content: ReadonlyArray<JsonObject>]>([
    ["text", { content: "Hello." }, [text("Hello.")]],
    [
      "parts",
      { content: [text("No."), text(""), { type: "refusal", refusal: "I must not." }] },
      [text("No."), text("I must not.")]
    ],
    ["unsigned reasoning", { content: "Hello.", reasoning: "Hm.", reasoning_content: "Hm." }, [text("Hello.")]],
    [
      "calls",
      { content: "Let me look.", tool_calls: [call("a", `{"x":[1]}`), call("b", " ")] },
      [
        text("Let me look."),
        { type: "tool_use", id: "a", name: "look", input: { x: [1] } },
        { type: "tool_use", id: "b", name: "look", input: {} }
      ]
    ],
    [
      "calls alone",
      { content: null, tool_calls: [call("functions.look:0")] },
      [{ type: "tool_use", id: "functions-2e-look-3a-0", name: "look", input: {} }]
    ]
  ])("reaches the vendor: %s", (_, message, content) => {
    expect(assistantSent(message)).toEqual([
      { role: "user", content: [text("Hi")] },
      { role: "assistant", content },
      { role: "user", content: [text("Hi")] }
    ])
  })

  test("in several messages is one turn, and nothing when it is nothing", () => {
    expect(assistantSent({ content: "a" }, { content: [] }, { tool_calls: [] }, { content: "b" })).toMatchObject([
      {},
      { role: "assistant", content: [text("a"), text("b")] },
      {}
    ])
    expect(assistantSent({ content: " " })).toEqual([{ role: "user", content: [text("Hi"), text("Hi")] }])
  })

  test.each([`[1]`, `"x"`, `{`, `null`, `7`])("is refused with arguments that are no object: %s", (json) => {
    const tool_calls = [call("a"), call("b", json)]
    expect(refused({ messages: [...hi, { role: "assistant", tool_calls }] })).toEqual([
      "messages[1].tool_calls[1].function.arguments"
    ])
  })
})

describe("what a tool answered", () => {
  const answersSent = (...answers: ReadonlyArray<JsonObject>) => {
    const tool_calls = answers.map((_, index) => call(`call_${index}`))
    const { messages } = messagesSent([
      ...hi,
      { role: "assistant", tool_calls },
      ...answers.map((answer, index) => ({ role: "tool", tool_call_id: `call_${index}`, ...answer }))
    ])
    return Array.isArray(messages) ? messages.slice(2) : expect.fail("no messages")
  }
  const png = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }
  const pdf = { type: "document", source: { type: "base64", media_type: "application/pdf", data: "AAAA" } }

  test("stands in one message with the other answers, before what the user adds", () => {
    const tool_calls = [call("a"), call("b")]
    expect(
      messagesSent([
        ...hi,
        { role: "assistant", tool_calls },
        { role: "tool", tool_call_id: "a", name: "look", content: "1" },
        { role: "user", content: "Quick!" },
        { role: "tool", tool_call_id: "b", content: "" }
      ]).messages
    ).toMatchObject([
      {},
      {},
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: [text("1")] },
          { type: "tool_result", tool_use_id: "b" },
          text("Quick!")
        ]
      }
    ])
  })

  test.each<[name: string, part: JsonObject, block: JsonObject]>([
    ["text", text("a"), text("a")],
    ["an image", { type: "image", image: "AAAA" }, png],
    [
      "an image with its type",
      { type: "image", image: "AAAA", mimeType: "image/webp" },
      { type: "image", source: { type: "base64", media_type: "image/webp", data: "AAAA" } }
    ],
    ["an image as data URI", { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }, png],
    ["an image as medium", { type: "media", data: "AAAA", mediaType: "image/png" }, png],
    ["an image as file", { type: "file", data: "AAAA", mimeType: "image/png" }, png],
    [
      "an image by its address",
      { type: "media", data: "https://example.org/a", mediaType: "image/png" },
      { type: "image", source: { type: "url", url: "https://example.org/a" } }
    ],
    ["a PDF", { type: "file", data: "AAAA", mimeType: "application/pdf" }, pdf],
    [
      "JSON",
      { type: "media", data: Buffer.from("{}").toString("base64"), mediaType: "application/json" },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "{}" } }
    ]
  ])("reaches the vendor in its blocks: %s", (_, part, block) => {
    expect(answersSent({ content: [text("Here:"), part] })).toEqual([
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content: [text("Here:"), block] }] }
    ])
  })

  test("is refused by its place where the vendor has no block for it", () => {
    const content = [
      { type: "media", data: "AAAA", mediaType: "audio/wav" },
      { type: "image", image: "AAAA", mimeType: "image/tiff" },
      { type: "file", data: "ftp://example.org/a", mimeType: "application/pdf" }
    ]
    expect(refused({ messages: [...hi, { role: "tool", tool_call_id: "a", content }] })).toEqual([
      "messages[1].content[0]",
      "messages[1].content[1].image",
      "messages[1].content[2]"
    ])
  })
})

describe("the thinking before a tool call", () => {
  const first = { type: "thinking", thinking: "Hm.", signature: "s1" }
  const second = { type: "thinking", thinking: "", signature: "s2" }
  const secret = { type: "redacted_thinking", data: "xx" }
  const kept = (id: string, index: number, ...before: ReadonlyArray<JsonObject | number>) =>
    attach(id, { anthropic: { call: index, before } })
  const use = (id: string) => ({ type: "tool_use", id, name: "look", input: {} })
  const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "1" })

  const a = kept("a", 0, first, 4, secret)
  const b = kept("b", 1, 3, second)
  const asked = { role: "assistant", content: "One.Two…", tool_calls: [call(a), call(b)] }
  const effort = { reasoning_effort: "high" }

  test("goes back in its place, and the ids are the vendor's own", () => {
    const messages = [...hi, { ...asked, reasoning: "Hm." }, result(a), result(b)]
    for (const model of [newest, older]) {
      expect(messagesSent(messages, model).messages).toMatchObject([
        {},
        {
          role: "assistant",
          content: [first, text("One."), secret, use("a"), text("Two"), second, use("b"), text("…")]
        },
        { role: "user", content: [{ tool_use_id: "a" }, { tool_use_id: "b" }] }
      ])
    }
    expect(sent({ messages, ...effort }, older)["thinking"]).toMatchObject({ type: "enabled" })
  })

  test("goes back at every step of the turn, and no more after it", () => {
    const c = kept("c", 0, second)
    const loop = [...hi, asked, result(a), result(b), { role: "assistant", tool_calls: [call(c)] }, result(c)]
    expect(messagesSent(loop).messages).toMatchObject([
      {},
      { content: { length: 8 } },
      {},
      { content: [second, use("c")] },
      {}
    ])
    const after = messagesSent([...loop, { role: "assistant", content: "Done." }, ...hi]).messages
    expect(after).toMatchObject([
      {},
      { content: [text("One."), use("a"), text("Two"), use("b"), text("…")] },
      {},
      { content: [use("c")] },
      {},
      { content: [text("Done.")] },
      {}
    ])
  })

  test.each<[name: string, message: JsonObject]>([
    ["there is none", { tool_calls: [call("a")] }],
    ["the text is shorter", { content: "One", tool_calls: [call(a), call(b)] }],
    ["a call is missing", { content: "One.Two…", tool_calls: [call(b)] }],
    ["the calls are in another order", { content: "One.Two…", tool_calls: [call(b), call(a)] }],
    ["it is of another wire", { tool_calls: [call(attach("a", { openai: { call: 0, before: [first] } }))] }],
    [
      "it has another form",
      { tool_calls: [call(attach("a", { anthropic: { call: 0, before: [{ type: "text" }] } }))] }
    ],
    ["it is no payload", { tool_calls: [call("a~r1~%%%")] }]
  ])("stays out when %s, and so does a budget for more", (_, message) => {
    const messages = [...hi, { role: "assistant", ...message }, result("a")]
    const body = JSON.stringify(sent({ messages, ...effort }, older))
    expect(body).not.toContain("thinking")
    expect(body).not.toContain("~r1~")
    // Models that decide themselves need not begin with it.
    expect(sent({ messages, ...effort })).toMatchObject({ thinking: { type: "adaptive" } })
  })

  test("does not bar a turn that begins anew", () => {
    const loop = [...hi, { role: "assistant", tool_calls: [call("a")] }, result("a")]
    const anew = [...loop, { role: "assistant", content: "Done." }, ...hi]
    expect(sent({ messages: anew, ...effort }, older)["thinking"]).toMatchObject({ type: "enabled" })
    // What the user adds to the answers of tools is no new turn to the vendor.
    expect(sent({ messages: [...loop, ...hi], ...effort }, older)).not.toHaveProperty("thinking")
    const added = messagesSent([...hi, asked, result(a), result(b), ...hi]).messages
    expect(added).toMatchObject([{}, { content: { 0: first } }, {}])
  })
})

describe("a conversation that the vendor can express", () => {
  const said = fc.string({ minLength: 1 }).filter((text) => text.trim() !== "")
  const part = fc.oneof(
    fc.string().map(text),
    said.map((data) => ({
      type: "file",
      file: { file_data: `data:text/plain;base64,${Buffer.from(data.toWellFormed()).toString("base64")}` }
    })),
    fc.constantFrom(
      { type: "image_url", image_url: { url: "data:image/png;base64,AA-_" } },
      { type: "image_url", image_url: { url: "https://example.org/a.png" } },
      { type: "file", file: { file_data: "JVBERi0=", filename: "a.pdf" } }
    )
  )
  const user = fc.record({
    role: fc.constant("user"),
    content: fc.oneof(
      said,
      fc.tuple(said, fc.array(part)).map(([first, rest]) => [text(first), ...rest])
    )
  })
  const instruction = fc.record({ role: fc.constantFrom("system", "developer"), content: fc.string() })
  const assistant = fc.record({
    role: fc.constant("assistant"),
    content: fc.oneof(
      fc.string(),
      fc.constant(null),
      said.map((refusal) => [{ type: "refusal", refusal }])
    ),
    reasoning: said
  })
  const thought = fc.option(said, { nil: undefined })
  const round = fc
    .record({
      ids: fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }),
      said: fc.string(),
      thought,
      between: fc.array(instruction, { maxLength: 1 }),
      results: fc.array(fc.oneof(fc.string().map(text), fc.constant({ type: "image", image: "AAAA" })), {
        maxLength: 2
      })
    })
    .map(({ between, ids, results, said, thought }) => {
      const first = { type: "thinking", thinking: thought ?? "", signature: sign(thought ?? "") }
      const before = [first, ...(said === "" ? [] : [said.length])]
      const sentIds = ids.map((id, index) =>
        index === 0 && thought !== undefined ? attach(id, { anthropic: { call: 0, before } }) : id
      )
      return [
        { role: "assistant", content: said, tool_calls: sentIds.map((id) => call(id, `{"id":1}`)) },
        ...between,
        ...sentIds.toReversed().map((id) => ({ role: "tool", tool_call_id: id, content: results }))
      ]
    })
  const messages = fc
    .tuple(
      user,
      fc.array(fc.oneof(user.map(one), instruction.map(one), assistant.map(one), round), { maxLength: 6 }),
      fc.oneof(user.map(one), round)
    )
    .map(([first, middle, last]) => [first, ...middle.flat(), ...last])

  const fields = fc.record(
    {
      tool_choice: fc.constantFrom("auto", "none"),
      parallel_tool_calls: fc.boolean(),
      reasoning_effort: fc.constantFrom("low", "high"),
      stop: fc.constant("END"),
      user: fc.constant("u"),
      service_tier: fc.constantFrom("auto", "default", "fast", "priority"),
      max_tokens: fc.integer({ min: 1025, max: 5000 }),
      stream: fc.boolean()
    },
    { requiredKeys: [] }
  )

  test("passes the vendor's checks, and all that was said arrives", () => {
    fc.assert(
      fc.property(messages, fields, fc.constantFrom(newest, older, "claude-haiku-5-5"), (messages, fields, model) => {
        const request: Json = JSON.parse(JSON.stringify({ messages, tools: [weather], ...fields }))
        const body = JSON.stringify(sent(isObject(request) ? request : {}, model))
        expect(check(body, { samples: true })).toHaveProperty("body")
        for (const { content } of messages) {
          const texts =
            typeof content === "string" ? [content] : (content ?? []).map((one) => Object(one)["text"] ?? "")
          for (const one of texts) expect(body).toContain(JSON.stringify(one.trim()).slice(1, -1))
        }
      }),
      { numRuns: 300 }
    )
  })
})

const one = <A>(value: A) => [value]
