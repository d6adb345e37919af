import { describe, expect, test } from "vitest"
import { least, yaml } from "./Reader.ts"

const read = (text: string, variables: Readonly<Record<string, string>> = {}) =>
  yaml.read(text, new Map(Object.entries(variables)))

const valid = (text: string, variables?: Readonly<Record<string, string>>) => {
  const { errors, valid } = read(text, variables)
  expect(errors).toEqual([])
  if (valid === undefined) throw new Error("neither errors nor valid")
  return valid
}

/** Everything that a configuration may say (decisions 4). */
const whole = `
agentCard:
  name: Helper
  description: Helps.
  url: https://example.com/agent
  version: 1.0.0
  provider: {organization: Example, url: https://example.com}
  capabilities: {streaming: true}
  skills: [{id: help, name: Help, description: Helps., tags: [a]}]
greeting: "Hi! 👋"
systemPrompt:
  contributors:
    - {id: memories, type: memory, priority: 40, enabled: true, options: {includeTags: true, limit: 10}}
    - id: primary
      type: static
      priority: 0
      content: |
        Costs $5, in $lower or $Mixed, and \${{agents.agent_dir}} stands for itself.
    - {id: dateTime, type: dynamic, priority: 10, source: dateTime}
    - {id: off, type: dynamic, priority: 5, source: resources, enabled: false}
    - id: docs
      type: file
      priority: 20
      files: ["\${{agents.agent_dir}}/docs/a.md"]
      options: {includeFilenames: true, errorHandling: skip}
mcpServers:
  files:
    type: stdio
    command: npx
    args: ["-y", "server", .]
    env: {FILES_TOKEN: $FILES_TOKEN}
    timeout: 60000
    connectionMode: strict
  old: {type: sse, url: "\${OLD_BASE_URL}/sse"}
  new: {type: http, url: "http://127.0.0.1:1/mcp", headers: {Authorization: "Bearer $FILES_TOKEN"}}
internalTools: [ask_user, search_history, bash_exec]
llm:
  provider: openai
  model: gpt-5-mini
  apiKey: $OPENAI_API_KEY
  maxIterations: 10
  router: external-sdk
  maxInputTokens: 900
  maxOutputTokens: 100
  temperature: 0.5
  allowedMediaTypes: ["image/*"]
storage:
  cache: {type: in-memory}
  database: {type: sqlite, path: ./data.db}
  blob: {type: local, maxBlobSize: 52428800, cleanupAfterDays: 30}
sessions: {maxSessions: 5, sessionTTL: 60000}
toolConfirmation:
  mode: auto-approve
  timeout: 30000
  allowedToolsStorage: memory
  toolPolicies: {alwaysAllow: [internal--ask_user], alwaysDeny: [mcp--files--delete]}
internalResources:
  enabled: true
  resources:
    - {type: filesystem, paths: ["."], maxFiles: 50, maxDepth: 10, includeHidden: true, includeExtensions: [.md]}
    - type: blob
starterPrompts:
  - {id: later, title: Later, description: d, prompt: "Do it", category: c, priority: 1}
  - {id: first, prompt: "Do this", priority: 9}
telemetry: {serviceName: agent, enabled: true, export: {type: otlp, protocol: http}}
`

describe("the configuration that a document means", () => {
  test("everything that may be said is taken over", () => {
    const { config } = valid(whole, { OPENAI_API_KEY: "k", FILES_TOKEN: "t", OLD_BASE_URL: "http://old" })
    expect(config.contributors.map(({ id }) => id)).toEqual(["primary", "dateTime", "docs", "memories"])
    expect(config.contributors[0]).toMatchObject({
      content: "Costs $5, in $lower or $Mixed, and . stands for itself.\n"
    })
    expect(config.contributors[2]).toMatchObject({ files: ["./docs/a.md"] })
    expect([...config.mcpServers]).toEqual([
      [
        "files",
        {
          type: "stdio",
          command: "npx",
          args: ["-y", "server", "."],
          env: { FILES_TOKEN: "t" },
          timeout: 60_000,
          connectionMode: "strict"
        }
      ],
      ["old", { type: "sse", url: "http://old/sse", timeout: 30_000, connectionMode: "lenient" }],
      [
        "new",
        {
          type: "http",
          url: "http://127.0.0.1:1/mcp",
          headers: { Authorization: "Bearer t" },
          timeout: 30_000,
          connectionMode: "lenient"
        }
      ]
    ])
    expect(config.llm).toEqual({
      provider: "openai",
      model: "gpt-5-mini",
      apiKey: "k",
      maxIterations: 10,
      router: "external-sdk",
      baseURL: undefined,
      maxInputTokens: 900,
      maxOutputTokens: 100,
      temperature: 0.5,
      allowedMediaTypes: ["image/*"]
    })
    expect(config.filesystemResources).toEqual([
      { paths: ["."], maxFiles: 50, maxDepth: 10, includeHidden: true, includeExtensions: [".md"] }
    ])
    expect(config.blobResources).toBe(true)
    expect(config.starterPrompts.map(({ id }) => id)).toEqual(["first", "later"])
    expect(config).toMatchObject({
      greeting: "Hi! 👋",
      sessions: { maxSessions: 5, sessionTTL: 60_000 },
      storage: { database: { path: "./data.db" } },
      telemetry: { export: { type: "otlp" } },
      toolConfirmation: { mode: "auto-approve", timeout: 30_000, allowedToolsStorage: "memory" }
    })
  })

  test("the document is what is written, its variables not expanded", () => {
    expect(valid(whole, { OPENAI_API_KEY: "secret" }).document.llm.apiKey).toBe("$OPENAI_API_KEY")
  })

  test("what is not said has its default", () => {
    const { config } = valid(least)
    expect(config).toMatchObject({
      greeting: undefined,
      contributors: [{ type: "static", priority: 0, content: "Help." }],
      internalTools: [],
      llm: { apiKey: "", maxIterations: 50, router: "in-built", baseURL: undefined, temperature: undefined },
      sessions: { maxSessions: 100, sessionTTL: 3_600_000 },
      toolConfirmation: {
        mode: "event-based",
        timeout: 120_000,
        toolPolicies: { alwaysAllow: [], alwaysDeny: [] }
      },
      filesystemResources: [],
      blobResources: false,
      starterPrompts: []
    })
    expect(config.mcpServers.size).toBe(0)
    const [resource] = valid(`${least}internalResources: [{type: filesystem, paths: [a]}]\n`).config.filesystemResources
    expect(resource).toEqual({
      paths: ["a"],
      maxDepth: 3,
      maxFiles: 1_000,
      includeHidden: false,
      includeExtensions: undefined
    })
  })

  test("resources that are not enabled are none", () => {
    const { config } = valid(`${least}internalResources: {enabled: false, resources: [{type: blob}]}\n`)
    expect(config.blobResources).toBe(false)
  })

  test("__proto__ and constructor are names like any other where names are free", () => {
    const text = `${least}storage:\n  __proto__: {polluted: yes}\n  constructor: 1\nmcpServers:\n  __proto__: {type: stdio, command: x}\n`
    const { config } = valid(text)
    expect([...config.mcpServers.keys()]).toEqual(["__proto__"])
    expect(Object.keys(config.storage ?? {})).toEqual(["__proto__", "constructor"])
    expect("polluted" in {}).toBe(false)
    expect(Object.getPrototypeOf(config.storage)).toBe(Object.prototype)
  })
})

describe("variables", () => {
  test.for<[text: string, value: string, unset: ReadonlyArray<string>]>([
    ["$A_TOKEN", "one", []],
    ["${A_TOKEN}", "one", []],
    ["a${A_TOKEN}b$B_TOKEN/c", "aonebtwo/c", []],
    ["$A_TOKEN$B_TOKEN", "onetwo", []],
    ["$C_TOKEN", "", ["C_TOKEN"]],
    ["x${C_TOKEN}y$D_TOKEN", "xy", ["C_TOKEN", "D_TOKEN"]],
    ["$A_TOKENs", "$A_TOKENs", []],
    ["$", "$", []],
    ["$5 and $$ and ${} and ${a}", "$5 and $$ and ${} and ${a}", []],
    ["a b", "a b", []]
  ])("%s is %s", ([text, value, unset]) => {
    const { valid, warnings } = read(`${least}greeting: ${JSON.stringify(text)}\n`, { A_TOKEN: "one", B_TOKEN: "two" })
    expect(valid?.config.greeting).toBe(value)
    expect(warnings).toEqual(
      unset.map((name) => ({ path: "greeting", code: "undefined_variable", message: expect.stringContaining(name) }))
    )
  })

  test("a value is not expanded again, and neither are keys", () => {
    const { config } = valid(`${least}greeting: $A_TOKEN\nstorage: {$A_TOKEN: 1}\n`, { A_TOKEN: "$B_TOKEN $& $1" })
    expect(config.greeting).toBe("$B_TOKEN $& $1")
    expect(config.storage).toEqual({ $A_TOKEN: 1 })
  })

  test("a required text whose variable is not set is a warning, and empty", () => {
    const { valid, warnings } = read(`${least}mcpServers:\n  a: {type: http, url: $A_BASE_URL}\n`)
    expect(valid?.config.mcpServers.get("a")).toMatchObject({ url: "" })
    expect(warnings).toMatchObject([{ path: "mcpServers.a.url", code: "undefined_variable" }])
  })

  test("the environment of the service is none of the workspace's", () => {
    process.env["LEAKED_TOKEN"] = "leak"
    try {
      expect(valid(`${least}greeting: a$LEAKED_TOKEN\n`).config.greeting).toBe("a")
    } finally {
      delete process.env["LEAKED_TOKEN"]
    }
  })
})

describe("warnings of keys", () => {
  const codes = (provider: string, apiKey: string | undefined, variables: Readonly<Record<string, string>> = {}) => {
    const key = apiKey === undefined ? "" : `, apiKey: ${JSON.stringify(apiKey)}`
    const model = provider === "openai" ? "gpt-5-mini" : "m"
    const { warnings } = read(`systemPrompt: a\nllm: {provider: ${provider}, model: ${model}${key}}\n`, variables)
    return warnings.map(({ code, path }) => `${path} ${code}`)
  }

  test("missing_api_key: neither in the file nor in the provider's variable", () => {
    expect(codes("openai", undefined)).toEqual(["llm.apiKey missing_api_key"])
    expect(codes("openai", "")).toEqual(["llm.apiKey missing_api_key"])
    expect(codes("openai", "$OPENAI_API_KEY")).toEqual(["llm.apiKey undefined_variable", "llm.apiKey missing_api_key"])
    expect(codes("openai", undefined, { OPENAI_API_KEY: "" })).toEqual(["llm.apiKey missing_api_key"])
    expect(codes("openai", undefined, { OPENAI_API_KEY: "k" })).toEqual([])
    expect(codes("openai", "$OPENAI_API_KEY", { OPENAI_API_KEY: "k" })).toEqual([])
    expect(codes("service", undefined)).toEqual([])
  })

  test("raw_api_key: in the file as it is", () => {
    expect(codes("openai", "sk-0123456789")).toEqual(["llm.apiKey raw_api_key"])
    expect(codes("openai-compatible", "anything")).toEqual(["llm.apiKey raw_api_key"])
  })
})

test("a model behind an address of one's own, or of a provider that takes any, is not looked up", () => {
  valid("systemPrompt: a\nllm: {provider: openai, model: mine, baseURL: 'http://127.0.0.1:1/v1'}\n")
  valid("systemPrompt: a\nllm: {provider: openai-compatible, model: mine}\n")
})

test("plain data of any YAML", () => {
  expect(yaml.parse("a: [1, true, null, x]\n")).toEqual({ a: [1, true, null, "x"] })
  expect(yaml.parse("# nothing\n")).toBeNull()
  expect(yaml.parse("a: [")).toBeUndefined()
  expect(yaml.parse(yaml.write({ a: "x\ny\n", b: { c: ["-", "$A"] } }))).toEqual({ a: "x\ny\n", b: { c: ["-", "$A"] } })
})

/**
 * How long it takes: what is measured on a quiet machine stands in the note of the issue; here only that nobody makes it
 * ten times slower.
 */
test("a prompt of 64 KB is read in milliseconds", () => {
  const prompt = "  You are an agent that does things with care, and says what it did.\n".repeat(920)
  const text = whole.replace(/systemPrompt:[^]*?mcpServers:/, `systemPrompt: |\n${prompt}mcpServers:`)
  expect(text.length).toBeGreaterThan(63_000)
  const times = Array.from({ length: 60 }, () => {
    const start = performance.now()
    valid(text)
    return performance.now() - start
  })
  const [median = Infinity] = times.toSorted((a, b) => a - b).slice(30)
  expect(median).toBeLessThan(50)
})
