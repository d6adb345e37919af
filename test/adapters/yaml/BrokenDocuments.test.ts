import { describe, expect, test } from "vitest"
import type { ConfigErrorCode } from "../../../src/domain/agent/ConfigIssue.ts"
import { least, yaml } from "./Reader.ts"

type Broken = readonly [
  what: string,
  text: string,
  line: number,
  column: number,
  path: string,
  code: ConfigErrorCode,
  message?: RegExp
]

const errorsOf = (text: string) => yaml.read(text, new Map()).errors

/** The values of one alias repeat, and those of the next repeat these. */
const bomb = [
  "a: &a [x, x, x, x, x, x, x, x, x, x]",
  ..."bcdef".split("").map((name, at) => `${name}: &${name} [${Array(10).fill(`*${"abcde"[at]}`).join(", ")}]`)
].join("\n")

const deep = (levels: number) => `storage: ${"[".repeat(levels)}1${"]".repeat(levels)}\n`

const noText: ReadonlyArray<Broken> = [
  ["a tab as indentation", "llm:\n\tprovider: openai\n", 2, 1, "", "yaml_syntax", /Tabs/],
  ["a quote that is not closed", 'greeting: "Hi\nllm: {}\n', 3, 1, "", "yaml_syntax"],
  ["a bracket that is not closed", "internalTools: [ask_user\n", 2, 1, "", "yaml_syntax"],
  ["two values on a line", "greeting: a: b\n", 1, 11, "", "yaml_syntax"],
  ["a key without a value among others", "llm:\n  provider\n  model: m\n", 2, 3, "", "yaml_syntax"],
  ["bad indentation", "llm:\n    provider: a\n  model: m\n", 3, 1, "", "yaml_syntax"],
  ["a second document", `${least}---\n${least}`, 5, 1, "", "yaml_syntax", /second document/],
  ["a key twice", `${least}greeting: a\ngreeting: b\n`, 6, 1, "greeting", "yaml_syntax", /"greeting" stands above/],
  ["a key twice, deep", "llm:\n  model: a\n  model: b\n", 3, 3, "llm.model", "yaml_syntax"],
  ["a key twice, once in quotes", 'storage:\n  a: 1\n  "a": 2\n', 3, 3, "storage.a", "yaml_syntax"],
  ["a list as a key", "storage:\n  ? [a, b]\n  : 1\n", 2, 5, "", "yaml_syntax", /plain text/],
  ["an unknown tag", "greeting: !run rm\n", 1, 11, "", "yaml_syntax", /tag/],
  ["bytes by a tag", "greeting: !!binary aGk=\n", 1, 20, "greeting", "yaml_syntax"],
  ["a set by a tag of YAML 1.1", "%YAML 1.1\n---\nstorage: !!set {a, b}\n", 3, 16, "storage", "yaml_syntax"],
  ["a date of YAML 1.1", "%YAML 1.1\n---\ngreeting: 2001-12-14\n", 3, 11, "greeting", "yaml_syntax"],
  ["an alias of nothing", "greeting: *hi\n", 1, 11, "greeting", "yaml_syntax", /no &hi/],
  ["an alias before its anchor", "a: *x\nb: &x 1\n", 1, 4, "a", "yaml_syntax"],
  ["a cycle", "storage: &s\n  cache:\n    - *s\n", 3, 7, "storage.cache[0]", "yaml_syntax", /contains itself/],
  ["an alias bomb", bomb, 4, 36, "d[7]", "too_big", /repeat too much/],
  ["nesting", `${least}${deep(65)}`, 5, 74, "", "yaml_syntax", /deeper than 64/],
  ["hostile nesting", `storage: ${"[".repeat(60_000)}`, 1, 74, "", "yaml_syntax", /deeper/],
  ["hostile nesting of maps", `storage: ${"{a: ".repeat(15_000)}`, 1, 266, "", "yaml_syntax", /deeper/],
  ["NUL", `${least}greeting: "a\0b"\n`, 5, 13, "", "yaml_syntax", /U\+0000/],
  ["an escape sequence of a terminal", `greeting: \u001b[31mred\n`, 1, 11, "", "yaml_syntax", /U\+001B/],
  ["what is left of bytes that are no UTF-8", "# ok\ngreeting: caf\ufffd\n", 2, 14, "", "yaml_syntax", /not UTF-8/],
  ["a byte order mark inside", "greeting: a\n\ufeffllm: b\n", 2, 1, "", "yaml_syntax", /U\+FEFF/],
  ["half a surrogate pair", "greeting: \ud83d\n", 1, 11, "", "yaml_syntax", /U\+D83D/],
  ["more than 64 KB", `${least}# ${"x".repeat(65_536)}`, 1, 1, "", "too_big", /64 KB/],
  ["more than 64 KB of characters of three bytes", `${least}# ${"€".repeat(21_900)}`, 1, 1, "", "too_big"]
]

const llm = "llm:\n  provider: service\n  model: echo\n"

const noConfiguration: ReadonlyArray<Broken> = [
  ["nothing", "", 1, 1, "systemPrompt", "missing_required"],
  ["a list", "- a\n- b\n", 1, 1, "", "invalid_type"],
  ["a text", "hello\n", 1, 1, "", "invalid_type"],
  ["no llm", "# my agent\nsystemPrompt: Help.\n", 2, 1, "llm", "missing_required", /"llm" is missing/],
  ["no model", "systemPrompt: Help.\nllm:\n  provider: openai\n", 3, 3, "llm.model", "missing_required"],
  ["an unknown section", `${least}plugins: {}\n`, 5, 1, "plugins", "unknown_key", /"plugins"/],
  ["an unknown key", `${least}  modle: x\n`, 5, 3, "llm.modle", "unknown_key", /"modle"/],
  ["a prototype as a key", `${least}__proto__:\n  admin: true\n`, 5, 1, "__proto__", "unknown_key"],
  ["a constructor as a key", `${least}constructor: {}\n`, 5, 1, "constructor", "unknown_key"],
  [
    "a merge key",
    `systemPrompt: Help.\nllm:\n  <<: {model: a}\n  provider: service\n  model: echo\n`,
    3,
    3,
    "llm.<<",
    "unknown_key"
  ],
  ["a section without a value", "systemPrompt: Help.\nllm:\n", 2, 5, "llm", "invalid_type"],
  ["a number for a text", `${least}greeting: 5\n`, 5, 11, "greeting", "invalid_type", /Expected string/],
  ["a text for a number", `${least}  maxIterations: many\n`, 5, 18, "llm.maxIterations", "invalid_type"],
  ["a fraction for a whole number", `${least}  maxIterations: 1.5\n`, 5, 18, "llm.maxIterations", "invalid_type"],
  ["a number too small", `${least}  maxIterations: 0\n`, 5, 18, "llm.maxIterations", "too_small"],
  ["a temperature too high", `${least}  temperature: 1.2\n`, 5, 16, "llm.temperature", "too_big", /1/],
  ["a temperature too low", `${least}  temperature: -1\n`, 5, 16, "llm.temperature", "too_small"],
  ["an infinite temperature", `${least}  temperature: .inf\n`, 5, 16, "llm.temperature", "invalid_value"],
  [
    "a router that does not exist",
    `${least}  router: magic\n`,
    5,
    11,
    "llm.router",
    "invalid_enum",
    /"in-built" \| "external-sdk"/
  ],
  ["a long greeting", `${least}greeting: ${"x".repeat(501)}\n`, 5, 11, "greeting", "too_big", /500/],
  [
    "a provider that does not exist",
    "systemPrompt: Help.\nllm:\n  provider: acme\n  model: m\n",
    3,
    13,
    "llm.provider",
    "invalid_enum",
    /openai, anthropic/
  ],
  [
    "a model that its provider does not have",
    "systemPrompt: Help.\nllm:\n  provider: openai\n  model: gpt-99\n",
    4,
    10,
    "llm.model",
    "unsupported_model"
  ],
  [
    "a limit above the model's",
    "systemPrompt: Help.\nllm: {provider: openai, model: gpt-5-mini, maxInputTokens: 1001}\n",
    2,
    60,
    "llm.maxInputTokens",
    "too_big",
    /1000/
  ],
  [
    "no type of a contributor",
    `${llm}systemPrompt:\n  contributors:\n    - id: a\n      priority: 1\n`,
    6,
    7,
    "systemPrompt.contributors[0].type",
    "missing_required"
  ],
  [
    "a wrong type of a contributor",
    `${llm}systemPrompt:\n  contributors:\n    - {id: a, priority: 1, type: statik}\n`,
    6,
    34,
    "systemPrompt.contributors[0].type",
    "invalid_enum",
    /"static" \| "dynamic" \| "file" \| "memory"/
  ],
  [
    "no content of a static contributor",
    `${llm}systemPrompt:\n  contributors:\n    - id: a\n      type: static\n      priority: 1\n`,
    6,
    7,
    "systemPrompt.contributors[0].content",
    "missing_required"
  ],
  [
    "a source that does not exist",
    `${llm}systemPrompt:\n  contributors:\n    - id: a\n      type: dynamic\n      priority: 1\n      source: weather\n`,
    9,
    15,
    "systemPrompt.contributors[0].source",
    "invalid_enum",
    /dateTime/
  ],
  [
    "a content of a dynamic contributor",
    `${llm}systemPrompt:\n  contributors:\n    - id: a\n      type: dynamic\n      priority: 1\n      source: dateTime\n      content: x\n`,
    10,
    7,
    "systemPrompt.contributors[0].content",
    "unknown_key"
  ],
  [
    "no contributor at all",
    `${llm}systemPrompt:\n  contributors: []\n`,
    5,
    17,
    "systemPrompt.contributors",
    "too_small"
  ],
  ["a system prompt that is a number", `${llm}systemPrompt: 5\n`, 4, 15, "systemPrompt", "invalid_type"],
  [
    "a server that is a text",
    `${least}mcpServers:\n  files: npx\n`,
    6,
    10,
    "mcpServers.files",
    "invalid_type",
    /object/
  ],
  [
    "a type of server that does not exist",
    `${least}mcpServers:\n  files:\n    type: pipe\n    command: x\n`,
    7,
    11,
    "mcpServers.files.type",
    "invalid_enum",
    /"stdio" \| "sse" \| "http"/
  ],
  [
    "a server of one type with the keys of another",
    `${least}mcpServers:\n  files:\n    type: http\n    url: http://x\n    command: x\n`,
    9,
    5,
    "mcpServers.files.command",
    "unknown_key"
  ],
  [
    "a server without a command",
    `${least}mcpServers:\n  files:\n    type: stdio\n`,
    7,
    5,
    "mcpServers.files.command",
    "missing_required"
  ],
  [
    "a number in the environment of a server",
    `${least}mcpServers:\n  files:\n    type: stdio\n    command: x\n    env:\n      PORT: 80\n`,
    10,
    13,
    "mcpServers.files.env.PORT",
    "invalid_type"
  ],
  [
    "a mistake behind an alias",
    `${least}mcpServers:\n  a: &a\n    type: http\n    url: 5\n  b: *a\n`,
    8,
    10,
    "mcpServers.a.url",
    "invalid_type"
  ],
  ["a tool that is no text", `${least}internalTools: [ask_user, 5]\n`, 5, 27, "internalTools[1]", "invalid_type"],
  [
    "a mode of confirmation that does not exist",
    `${least}toolConfirmation:\n  mode: maybe\n`,
    6,
    9,
    "toolConfirmation.mode",
    "invalid_enum",
    /event-based/
  ],
  [
    "a resource of an unknown type",
    `${least}internalResources:\n  resources:\n    - type: ftp\n`,
    7,
    13,
    "internalResources.resources[0].type",
    "invalid_enum",
    /"filesystem" \| "blob"/
  ],
  ["a negative time to live", `${least}sessions: {sessionTTL: -1}\n`, 5, 24, "sessions.sessionTTL", "too_small"],
  [
    "a starter prompt without a text",
    `${least}starterPrompts:\n  - id: a\n`,
    6,
    5,
    "starterPrompts[0].prompt",
    "missing_required"
  ]
]

describe("a text that is no YAML of one document: only what is wrong first is told", () => {
  test.for(noText)("%s", ([, text, line, column, path, code, message = /./]) => {
    const { errors, valid } = yaml.read(text, new Map())
    expect(errors).toEqual([{ line, column, path, code, message: expect.stringMatching(message) }])
    expect(valid).toBeUndefined()
    expect(yaml.parse(text)).toBeUndefined()
  })
})

describe("a document that is no configuration", () => {
  test.for(noConfiguration)("%s", ([, text, line, column, path, code, message = /./]) => {
    expect(errorsOf(text)).toContainEqual({ line, column, path, code, message: expect.stringMatching(message) })
    expect(yaml.read(text, new Map()).valid).toBeUndefined()
  })

  test("every mistake is told, from the top of the document to its end", () => {
    const errors = errorsOf("greeting: 5\nllm:\n  provider: openai\n  modle: x\nsessions: {maxSessions: 0}\nextra: 1\n")
    expect(errors.map(({ code, line, path }) => [line, path, code])).toEqual([
      [1, "systemPrompt", "missing_required"],
      [1, "greeting", "invalid_type"],
      [3, "llm.model", "missing_required"],
      [4, "llm.modle", "unknown_key"],
      [5, "sessions.maxSessions", "too_small"],
      [6, "extra", "unknown_key"]
    ])
  })

  test("of thousands of mistakes the first fifty are told, and keys are cut short", () => {
    const text = `${least}${Array.from({ length: 3_000 }, (_, at) => `key${at}: 1\n`).join("")}`
    expect(errorsOf(text)).toHaveLength(50)
    const [error] = errorsOf(`${least}${"k".repeat(1_000)}: 1\n`)
    expect(error?.message.length).toBeLessThan(150)
    expect(error?.path.length).toBeLessThan(150)
  })

  test("no message quotes a value, which may be a key in the wrong place", () => {
    const canary = "sk-canary-4711"
    const text = `systemPrompt: [${canary}]\ngreeting: [${canary}]\nllm:\n  provider: ${canary}\n  model: {a: ${canary}}\n  apiKey: [${canary}]\n  router: ${canary}\n`
    expect(JSON.stringify(errorsOf(text))).not.toContain("4711")
    const wrong = `systemPrompt: a\nllm: {provider: openai, model: ${canary}}\n`
    expect(JSON.stringify(errorsOf(wrong))).not.toContain("4711")
  })
})

describe("line breaks and marks of other systems", () => {
  test("positions are the same with CRLF", () => {
    expect(errorsOf("systemPrompt: a\r\nllm:\r\n  provider: openai\r\n  model: gpt-99\r\n")).toMatchObject([
      { line: 4, column: 10, code: "unsupported_model" }
    ])
  })

  test("a byte order mark at the start is none of the document", () => {
    expect(yaml.read(`\ufeff${least}`, new Map()).errors).toEqual([])
    expect(errorsOf(`\ufeffgreeting: 5\n${least}`)).toMatchObject([{ line: 1, column: 11 }])
  })
})
