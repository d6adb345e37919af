import { Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { parse } from "yaml"
import { type Api, messageError, type Reply, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"
import { readWorkspaceFile, writeWorkspaceFile } from "../../fixtures/Workspaces.ts"

/** The agent's configuration (section 4.2). */

const isoDate = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u)

/** The issues of section 7.2, each with what is given, and nothing else. */
const issues = (...each: ReadonlyArray<object>) => ({
  ok: false,
  issues: each.map((one) => ({ message: expect.stringMatching(/\S/u), severity: "error", ...one }))
})

const plain = (greeting: string) => `# ${greeting}
systemPrompt: Help. # briefly
greeting: ${greeting}
llm:
  provider: service
  model: echo
`

/** A server that is needed for the agent to start, and cannot be. */
const strict = `${plain("Strict")}mcpServers:
  gone: {type: stdio, command: no-such-command-anywhere, connectionMode: strict}
`

const Record = Schema.Struct({ yaml: Schema.String, path: Schema.String, lastModified: Schema.String })
const configOf = async (api: Api) => Schema.decodeUnknownSync(Record)((await api("GET", "/api/agent/config")).body)

const save = (api: Api, yaml: string) => api("POST", "/api/agent/config", { yaml })

const validate = (api: Api, yaml: string) => api("POST", "/api/agent/validate", { yaml })

describe.each(stores)("the configuration of the agent, on $store", ({ options }) => {
  let runtime: RuntimeService
  let mine: Api
  beforeAll(async () => {
    runtime = await startRuntime(await options())
    mine = runtime.mine
  }, 120_000)
  afterAll(() => runtime.service.remove())

  describe("GET /api/agent/path", () => {
    test("GET /api/agent/path: 200 where the file of a new workspace's agent is", async () => {
      const { body, status } = await mine("GET", "/api/agent/path")
      expect([status, body]).toEqual([
        200,
        {
          path: expect.stringMatching(/^\/.*\/agents\/default-agent\/default-agent\.yml$/u),
          relativePath: "agents/default-agent/default-agent.yml",
          name: "default-agent",
          isDefault: true
        }
      ])
    })
  })

  describe("GET /api/agent/config", () => {
    test("GET /api/agent/config: 200 the file as it is written", async () => {
      const written = `${plain("Raw")}  apiKey: $RAW_API_KEY\nmcpServers: {}\n`
      expect((await save(mine, written)).status).toBe(200)
      const { body, status } = await mine("GET", "/api/agent/config")
      expect([status, body]).toEqual([
        200,
        {
          yaml: written,
          path: expect.stringMatching(/^\/.*\.yml$/u),
          relativePath: "agents/default-agent/default-agent.yml",
          lastModified: isoDate,
          warnings: [
            { path: "llm.apiKey", code: "undefined_variable", message: expect.stringContaining("RAW_API_KEY") }
          ]
        }
      ])
      expect(Math.abs(Date.now() - Date.parse((await configOf(mine)).lastModified))).toBeLessThan(60_000)
    })
  })

  describe("POST /api/agent/config", () => {
    test("POST /api/agent/config: 200 with the changed keys, and the file byte for byte", async () => {
      const before = plain("Before")
      await save(mine, before)
      const after = `${before.replace("echo", '"echo"').replace("Before\nllm", "After\nllm")}sessions: {maxSessions: 7}\n# ümläut 🎉\n`
      const { body, status } = await save(mine, after)
      expect([status, body]).toEqual([
        200,
        {
          ok: true,
          path: expect.stringMatching(/^\/.*\/default-agent\.yml$/u),
          reloaded: true,
          restarted: true,
          changesApplied: ["greeting", "sessions"],
          message: expect.stringContaining("greeting, sessions")
        }
      ])
      expect((await configOf(mine)).yaml).toBe(after)
    })

    test("POST /api/agent/config: 200 without a restart for what the agent only reads", async () => {
      await save(mine, plain("One"))
      expect((await save(mine, plain("Two"))).body).toMatchObject({
        reloaded: true,
        restarted: false,
        changesApplied: ["greeting"]
      })
    })

    test("POST /api/agent/config: 200 for what says the same", async () => {
      await save(mine, plain("Same"))
      const nothing = { ok: true, reloaded: false, restarted: false, changesApplied: [] }
      expect((await save(mine, plain("Same"))).body).toMatchObject(nothing)
      const commented = `${plain("Same")}# one more comment\n`
      expect((await save(mine, commented)).body).toMatchObject(nothing)
      expect((await configOf(mine)).yaml).toBe(commented)
    })

    test("POST /api/agent/config: 400 with every mistake, and the file stays", async () => {
      await save(mine, plain("Sound"))
      const { body, status } = await save(mine, `${plain("Unsound")}  temperature: 5\nplugins: {}\n`)
      const code = "agent_invalid_config"
      expect([status, body]).toEqual([
        400,
        issues(
          {
            code,
            path: ["llm", "temperature"],
            context: { code: "too_big", line: 7, column: 16, path: "llm.temperature" }
          },
          { code, path: ["plugins"], context: { code: "unknown_key", line: 8, column: 1, path: "plugins" } }
        )
      ])
      expect((await configOf(mine)).yaml).toBe(plain("Sound"))
    })

    test("POST /api/agent/config: 400 for a configuration that the agent cannot start with, and the one before is back", async () => {
      await save(mine, plain("Runs"))
      const { body, status } = await save(mine, strict)
      expect([status, body]).toEqual([
        400,
        issues({ code: "agent_invalid_config", path: [], message: expect.stringContaining("gone") })
      ])
      expect((await configOf(mine)).yaml).toBe(plain("Runs"))
      expect((await save(mine, plain("Runs again"))).status).toBe(200)
    })

    test.each([
      ["no yaml", {}, "yaml"],
      ["yaml that is no text", { yaml: 5 }, "yaml"],
      ["a NUL", { yaml: "a\0b" }, "yaml"]
    ])("POST /api/agent/config: 400 for a body with %s", async (_what, body, path) => {
      const reply = await mine("POST", "/api/agent/config", body)
      expect([reply.status, reply.body]).toEqual([400, issues({ code: "schema_validation", path: [path] })])
    })

    test("POST /api/agent/config: 400 for half of a surrogate pair, bytes that are no UTF-8, and no JSON", async () => {
      for (const body of ['{"yaml": "\\ud800"}', new Uint8Array([0x22, 0xff, 0x22]), "greeting: Hi"]) {
        const { body: answer, status } = await mine("POST", "/api/agent/config", body)
        expect([status, answer]).toEqual([400, issues({ code: "schema_validation", path: expect.any(Array) })])
      }
    })

    test("POST /api/agent/config: 404 when no agent is active", async () => {
      const { body, status } = await without((api) => save(api, plain("Nobody")))
      expect([status, body]).toEqual([404, issues({ code: "agent_not_found", path: [] })])
    })

    test("POST /api/agent/config: 409 for one of two at once", async () => {
      await save(mine, plain("Start"))
      const collisions: Array<ReadonlyArray<number>> = []
      for (let round = 0; round < 30 && !collisions.some((one) => one.includes(409)); round++) {
        const texts = [plain(`a${round}`), plain(`b${round}`)]
        const replies = await Promise.all(texts.map((text) => save(mine, text)))
        collisions.push(replies.map(({ status }) => status).toSorted((a, b) => a - b))
        const lost = replies.find(({ status }) => status === 409)
        if (lost === undefined) continue
        expect(lost.body).toEqual(issues({ code: "workspace_conflict", path: [] }))
        const won = replies.findIndex(({ status }) => status === 200)
        expect((await configOf(mine)).yaml).toBe(texts[won])
      }
      expect(collisions.at(-1)).toEqual([200, 409])
    })

    test("POST /api/agent/config: 413 for more than 1 MiB", async () => {
      const { body, status } = await save(mine, "#".repeat(1024 * 1024))
      expect([status, body]).toEqual([413, issues({ code: "schema_validation", path: [] })])
    })

    test("a document of 64 KB is taken, one byte more is not", async () => {
      const text = plain("Big")
      const full = `${text}#${"x".repeat(65_536 - text.length - 2)}\n`
      expect((await save(mine, full)).status).toBe(200)
      expect((await save(mine, `${full}\n`)).body).toMatchObject({ issues: [{ context: { code: "too_big" } }] })
    })

    test("nobody else sees or changes it", async () => {
      await save(mine, plain("Mine"))
      expect((await configOf(runtime.foreign)).yaml).not.toContain("Mine")
      await save(runtime.foreign, plain("Theirs"))
      expect((await configOf(mine)).yaml).toBe(plain("Mine"))
      expect((await configOf(runtime.foreign)).path).not.toBe((await configOf(mine)).path)
    })
  })

  describe("POST /api/agent/validate", () => {
    test("POST /api/agent/validate: 200 valid, with warnings", async () => {
      const { body, status } = await validate(
        mine,
        "systemPrompt: a\nllm: {provider: openai, model: any, baseURL: 'http://127.0.0.1:1/v1'}\n"
      )
      expect([status, body]).toEqual([
        200,
        {
          valid: true,
          errors: [],
          warnings: [
            { path: "llm.apiKey", code: "missing_api_key", message: expect.stringContaining("OPENAI_API_KEY") }
          ]
        }
      ])
    })

    test("POST /api/agent/validate: 200 not valid, with the place of every error", async () => {
      const { body, status } = await validate(
        mine,
        "systemPrompt: a\nllm:\n  provider: acme\n  model: m\n  router: magic\n"
      )
      expect([status, body]).toEqual([
        200,
        {
          valid: false,
          errors: [
            {
              line: 5,
              column: 11,
              path: "llm.router",
              code: "invalid_enum",
              message: expect.stringContaining('"in-built" | "external-sdk"')
            }
          ],
          warnings: []
        }
      ])
      const syntax = await validate(mine, "llm:\n\tprovider: openai\n")
      expect(syntax.body).toMatchObject({ valid: false, errors: [{ line: 2, column: 1, code: "yaml_syntax" }] })
      const provider = await validate(mine, "systemPrompt: a\nllm:\n  provider: acme\n  model: m\n")
      expect(provider.body).toMatchObject({
        errors: [{ line: 3, column: 13, path: "llm.provider", code: "invalid_enum" }]
      })
      const model = await validate(mine, "systemPrompt: a\nllm:\n  provider: openai\n  model: m\n")
      expect(model.body).toMatchObject({ errors: [{ line: 4, path: "llm.model", code: "unsupported_model" }] })
    })

    test("POST /api/agent/validate: 400 for a body without yaml", async () => {
      for (const body of [{}, { yaml: ["a"] }, "nonsense"]) {
        const reply = await mine("POST", "/api/agent/validate", body)
        expect([reply.status, reply.body]).toEqual([400, messageError])
      }
    })

    test("POST /api/agent/validate: 413 for more than 1 MiB", async () => {
      const { body, status } = await validate(mine, "#".repeat(1024 * 1024))
      expect([status, body]).toEqual([413, messageError])
    })

    test("nothing is written", async () => {
      await save(mine, plain("Stays"))
      const before = await configOf(mine)
      await validate(mine, plain("Another"))
      await validate(mine, "broken: [")
      expect(await configOf(mine)).toEqual(before)
    })
  })

  describe("GET /api/agent/config/export", () => {
    test("GET /api/agent/config/export: 200 what is in force, without secrets", async () => {
      const canary = "canary-4711-value"
      const envVar = "OPENAI_API_KEY"
      expect((await mine("POST", "/api/llm/key", { provider: "openai", apiKey: canary })).body).toMatchObject({
        envVar
      })
      await save(
        mine,
        `systemPrompt: "Use $${envVar} and https://user:${canary}2@host/"
llm: {provider: openai-compatible, model: mine, apiKey: ${canary}1, baseURL: 'https://user:${canary}3@llm.example.com/v1?key=${canary}4'}
agentCard: {name: A, authentication: {credentials: ${canary}5}}
mcpServers:
  a: {type: stdio, command: "true", args: [--token, ${canary}6, "--api-key=${canary}7", $${envVar}], env: {X: ${canary}8}}
  b: {type: http, url: "http://127.0.0.1:9/?token=${canary}9", headers: {Authorization: "Bearer ${canary}a"}}
storage: {database: {type: postgres, connectionString: ${canary}b, password: ${canary}c}}
telemetry: {export: {type: otlp, headers: {X-Team: ${canary}d}}}
`
      )
      const { headers, status, text } = await mine("GET", "/api/agent/config/export")
      expect(status).toBe(200)
      expect(headers.get("content-type")).toMatch(/^application\/x-yaml/u)
      expect(text).not.toContain("canary")
      expect(parse(text)).toMatchObject({
        agentCard: { name: "A", authentication: { credentials: "[REDACTED]" } },
        systemPrompt: { contributors: [{ type: "static", content: "Use [REDACTED] and https://[REDACTED]@host/" }] },
        llm: {
          provider: "openai-compatible",
          model: "mine",
          apiKey: "[REDACTED]",
          maxIterations: 50,
          router: "in-built"
        },
        mcpServers: {
          a: {
            args: ["--token", "[REDACTED]", "--api-key=[REDACTED]", "[REDACTED]"],
            env: { X: "[REDACTED]" },
            timeout: 30_000,
            connectionMode: "lenient"
          },
          b: { headers: { Authorization: "[REDACTED]" } }
        },
        sessions: { maxSessions: 100, sessionTTL: 3_600_000 },
        storage: { database: { type: "postgres", connectionString: "[REDACTED]", password: "[REDACTED]" } },
        toolConfirmation: { mode: "event-based", timeout: 120_000 }
      })
      const { stderr, stdout } = runtime.service.logs()
      expect(`${stdout}${stderr}`).not.toContain("canary")
      await save(mine, plain("Clean"))
    })

    test("what is exported can be saved again", async () => {
      await save(mine, plain("Round"))
      const { text } = await mine("GET", "/api/agent/config/export")
      expect((await save(mine, text)).status).toBe(200)
      expect(parse((await mine("GET", "/api/agent/config/export")).text)).toEqual(parse(text))
    })

    test("GET /api/agent/config/export: 200 with a session's own choice of a model", async () => {
      await save(mine, plain("Session"))
      const sessionId = "mine-alone"
      const choice = { provider: "openai", apiKey: "canary-of-the-session", sessionId }
      expect((await mine("POST", "/api/llm/switch", choice)).body).toMatchObject({ ok: true })
      const exported = async (query: string) => (await mine("GET", `/api/agent/config/export${query}`)).text
      expect(parse(await exported("")).llm).toMatchObject({ provider: "service", model: "echo" })
      expect(parse(await exported("?sessionId=another")).llm).toMatchObject({ provider: "service", model: "echo" })
      const own = await exported(`?sessionId=${sessionId}`)
      expect(parse(own).llm).toMatchObject({ provider: "openai", apiKey: "[REDACTED]" })
      expect(own).not.toContain("canary")
    })

    test("GET /api/agent/config/export: 400 for a session that cannot be one", async () => {
      const { body, status } = await mine("GET", "/api/agent/config/export?sessionId=a%20b")
      expect([status, body]).toEqual([400, messageError])
    })
  })

  describe("without an agent", () => {
    test("GET /api/agent/path: 404 when no agent is active", async () => {
      const { body, status } = await without((api) => api("GET", "/api/agent/path"))
      expect([status, body]).toEqual([404, messageError])
    })

    test("GET /api/agent/config: 404 when no agent is active", async () => {
      const { body, status } = await without((api) => api("GET", "/api/agent/config"))
      expect([status, body]).toEqual([404, messageError])
    })

    test("GET /api/agent/config/export: 404 when no agent is active", async () => {
      const { body, status } = await without((api) => api("GET", "/api/agent/config/export"))
      expect([status, body]).toEqual([404, messageError])
    })
  })

  test("a file that does not load at the next start gives way to its newest backup that does", async () => {
    await save(mine, plain("Older"))
    await save(mine, plain("Newer"))
    await save(mine, plain("Newest"))
    await runtime.service.terminate()
    const file = "agents/default-agent/default-agent.yml"
    await writeWorkspaceFile(runtime.service, "mine", file, "llm: [")
    await runtime.service.start()
    expect((await configOf(mine)).yaml).toBe(plain("Newer"))
    expect(await readWorkspaceFile(runtime.service, "mine", file)).toBe(plain("Newer"))
  })

  /** What a workspace answers that has no active agent. */
  const without = async (ask: (api: Api) => Promise<Reply>): Promise<Reply> => {
    const api = runtime.foreign
    const id = "default-agent"
    await api("GET", "/api/agents/current")
    expect((await api("POST", "/api/agents/uninstall", { id, force: true })).status).toBe(200)
    const reply = await ask(api)
    expect((await api("POST", "/api/agents/install", { id })).status).toBe(201)
    expect((await api("POST", "/api/agents/switch", { id })).status).toBe(200)
    return reply
  }
})
