import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { redactConfig, redactionMark } from "../../../src/domain/agent/ConfigRedaction.ts"
import { documentOf } from "../../../src/domain/agent/EffectiveConfig.ts"
import { yaml } from "../../adapters/yaml/Reader.ts"

const redacted = (document: Readonly<Record<string, unknown>>, ...known: ReadonlyArray<string>) =>
  redactConfig(document, known)

const textOf = (text: string) => redacted({ text })["text"]

describe("texts", () => {
  test.for([
    ["postgres://me:secret@db.example.com/x", `postgres://${redactionMark}@db.example.com/x`],
    ["see https://token@host/path and http://host", `see https://${redactionMark}@host/path and http://host`],
    ["https://h/?q=a&api_key=abc&b=1#token=x", `https://h/?q=a&api_key=${redactionMark}&b=1#token=${redactionMark}`],
    ["Use sk-proj-abcdefgh12345678 now", `Use ${redactionMark} now`],
    ["Authorization: Bearer abcdefgh.ijkl", `Authorization: ${redactionMark}`],
    ["AIzaSyA1234567890abcdefghijk", redactionMark],
    ["ghp_0123456789abcdefABCDEF", redactionMark],
    ["AKIAIOSFODNN7EXAMPLE", redactionMark],
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", redactionMark],
    ["-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", redactionMark]
  ])("%s", ([text, shown]) => {
    expect(textOf(text ?? "")).toBe(shown)
  })

  test.for([
    "Mail me@example.com, see https://example.com/a@b?page=2#part.",
    "key-takeaways of the monkey-business, and the task-oriented tokens",
    "The bearer of this and Basic things",
    "npx @scope/server-filesystem@1.2.3"
  ])("as they are: %s", (text) => {
    expect(textOf(text)).toBe(text)
  })
})

describe("names", () => {
  test("values of what is called a secret", () => {
    const secrets = ["apiKey", "api_key", "accessToken", "password", "dbPassword", "clientSecret", "credentials"]
    const more = ["Authorization", "cookie", "privateKey", "connectionString", "token", "key"]
    for (const name of [...secrets, ...more]) {
      expect(redacted({ storage: { [name]: "v", deep: { [name]: { a: ["v"] } } } })).toEqual({
        storage: { [name]: redactionMark, deep: { [name]: redactionMark } }
      })
    }
  })

  test("and nothing of what only sounds like it", () => {
    const document = {
      llm: { maxInputTokens: 5, maxOutputTokens: 6 },
      toolConfirmation: { allowedToolsStorage: "memory" },
      agentCard: { author: "A", authentication: { schemes: ["a"] }, keywords: ["k"] },
      mcpServers: { "token-server": { type: "http", url: "http://x", timeout: 5 } }
    }
    expect(redacted(document)).toEqual(document)
  })

  test("what is empty is shown as it is", () => {
    expect(redacted({ llm: { apiKey: "" } })).toEqual({ llm: { apiKey: "" } })
  })

  test("arguments of commands", () => {
    const args = ["--api-key", "v", "--token=v", "API_KEY=v", "-p", "8080", "--secret", "--verbose", "file"]
    expect(redacted({ mcpServers: { a: { args } } })).toEqual({
      mcpServers: {
        a: {
          args: [
            "--api-key",
            redactionMark,
            `--token=${redactionMark}`,
            `API_KEY=${redactionMark}`,
            "-p",
            "8080",
            "--secret",
            redactionMark,
            "file"
          ]
        }
      }
    })
  })
})

test("what is known to be a secret is found wherever it stands, in keys as well, the longer one first", () => {
  const document = { a: "x-value-1-y", b: ["value-1234"], "value-1": 5 }
  expect(redacted(document, "value-1", "value-1234")).toEqual({
    a: `x-${redactionMark}-y`,
    b: [redactionMark],
    [redactionMark]: 5
  })
})

/** Where a configuration may have a secret: each makes a document with one. */
const fields: ReadonlyArray<readonly [string, (secret: string) => string]> = [
  ["llm.apiKey", (secret) => `llm: {provider: service, model: m, apiKey: ${secret}}`],
  ["the user of an address", (secret) => `llm: {provider: service, model: m, baseURL: 'https://u:${secret}@h/v1'}`],
  ["a query", (secret) => `llm: {provider: service, model: m, baseURL: 'https://h/v1?api-key=${secret}'}`],
  ["env", (secret) => `mcpServers: {a: {type: stdio, command: x, env: {ANY: ${secret}}}}`],
  ["headers", (secret) => `mcpServers: {a: {type: http, url: 'http://x', headers: {X-Any: ${secret}}}}`],
  ["the url of a server", (secret) => `mcpServers: {a: {type: sse, url: 'http://${secret}@x/sse?token=${secret}'}}`],
  ["an argument", (secret) => `mcpServers: {a: {type: stdio, command: x, args: [--token, ${secret}]}}`],
  ["an argument with =", (secret) => `mcpServers: {a: {type: stdio, command: x, args: ["--api-key=${secret}"]}}`],
  ["storage", (secret) => `storage: {database: {type: postgres, password: ${secret}, url: 'pg://a:${secret}@b/c'}}`],
  ["telemetry", (secret) => `telemetry: {export: {type: otlp, headers: {Authorization: ${secret}}}}`],
  ["agentCard", (secret) => `agentCard: {name: a, authentication: {schemes: [], credentials: ${secret}}}`],
  [
    "options",
    (secret) => `systemPrompt: {contributors: [{id: a, type: memory, priority: 1, options: {token: ${secret}}}]}`
  ],
  ["a variable in a prompt", (secret) => `systemPrompt: Use ${secret} here\n# ${secret}`],
  ["a variable in a resource", (secret) => `internalResources: [{type: filesystem, paths: ['/x/${secret}']}]`],
  ["a variable in a name", (secret) => `storage: {${secret}: 1}`]
]

test("a secret of any form, in any field that takes one, is not in what is shown", () => {
  const secret = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{7,40}$/)
  fc.assert(
    fc.property(secret, fc.subarray([...fields], { minLength: 1 }), (canary, chosen) => {
      for (const [, make] of chosen) {
        const own = make(canary)
        const rest = [
          ...(own.startsWith("llm") ? [] : ["llm: {provider: service, model: m}"]),
          ...(own.startsWith("systemPrompt") ? [] : ["systemPrompt: Help."])
        ]
        const { valid } = yaml.read([own, ...rest].join("\n"), new Map())
        if (valid === undefined) throw new Error(`not valid: ${own}`)
        const isVariable = own.startsWith("systemPrompt: Use") || own.includes("paths") || own.includes(": 1}")
        const shown = yaml.write(redactConfig(documentOf(valid.config), isVariable ? [canary] : []))
        expect(shown).not.toContain(canary)
      }
    }),
    { numRuns: 200 }
  )
})
