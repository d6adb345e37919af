import { request } from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { registryPath } from "../../../src/domain/agent/AgentRegistry.ts"
import { type Api, messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"
import { readWorkspaceFile, writeWorkspaceFile } from "../../fixtures/Workspaces.ts"

/** LLM configuration (section 4.6), with the agent that a new workspace has: at the gateway itself. */

const agentFile = "agents/default-agent/default-agent.yml"

type Expected = ReadonlyArray<readonly [code: string, path: string]>

/** `{ok: false, issues}` of section 7.2, of these codes and paths. */
const issues = (...expected: Expected) => ({
  ok: false,
  issues: expected.map(([code, path]) =>
    expect.objectContaining({
      code,
      message: expect.stringMatching(/\S/u),
      severity: "error",
      path: path === "" ? [] : [path]
    })
  )
})

const home = { provider: "service", model: "echo" }

describe.each(stores)("LLM configuration, on $store", ({ options }) => {
  let runtime: RuntimeService
  let mine: Api
  let foreign: Api
  beforeAll(async () => {
    runtime = await startRuntime({ ...(await options()), env: { ALLOW_PRIVATE_UPSTREAMS: "false" } })
    mine = runtime.mine
    foreign = runtime.foreign
  }, 120_000)
  afterAll(() => runtime.service.remove())

  const current = async (api: Api, session?: string) =>
    (await api("GET", `/api/llm/current${session === undefined ? "" : `?sessionId=${session}`}`)).body

  const goHome = async (api: Api = mine) => expect((await api("POST", "/api/llm/switch", home)).status).toBe(200)

  const saveKey = async (provider: string, apiKey: string, api: Api = mine) =>
    expect((await api("POST", "/api/llm/key", { provider, apiKey })).status).toBe(200)

  const providersOf = async (
    query: string,
    api: Api = mine
  ): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>> => {
    const { body, status } = await api("GET", `/api/llm/catalog${query}`)
    expect(status).toBe(200)
    expect(body).toEqual({ providers: expect.any(Object) })
    return (body as { readonly providers: Record<string, Record<string, unknown>> }).providers
  }

  test("GET /api/llm/current: 200 with provider, model and display name", async () => {
    const { body, status } = await mine("GET", "/api/llm/current")
    expect(status).toBe(200)
    expect(body).toEqual({ config: { ...home, displayName: "Echo" } })
  })

  test("GET /api/llm/current: 400 for a session that is no name of one", async () => {
    const { body, status } = await mine("GET", "/api/llm/current?sessionId=")
    expect([status, body]).toEqual([400, issues(["schema_validation", "sessionId"])])
  })

  test("GET /api/llm/catalog: 200 grouped, every provider with its fields", async () => {
    const providers = await providersOf("")
    expect(Object.keys(providers)).toEqual(
      expect.arrayContaining(["openai", "anthropic", "openai-compatible", "service"])
    )
    for (const entry of Object.values(providers)) {
      expect(entry).toEqual({
        name: expect.stringMatching(/\S/u),
        hasApiKey: expect.any(Boolean),
        primaryEnvVar: expect.any(String),
        supportedRouters: expect.arrayContaining(["in-built"]),
        supportsBaseURL: expect.any(Boolean),
        models: expect.any(Array)
      })
      for (const model of entry["models"] as ReadonlyArray<unknown>) {
        expect(model).toEqual({
          name: expect.stringMatching(/\S/u),
          displayName: expect.stringMatching(/\S/u),
          default: expect.any(Boolean),
          maxInputTokens: expect.any(Number),
          supportedFileTypes: expect.any(Array)
        })
      }
    }
    expect(providers["openai"]).toMatchObject({
      hasApiKey: false,
      primaryEnvVar: "OPENAI_API_KEY",
      supportedRouters: ["in-built", "external-sdk"],
      supportsBaseURL: false
    })
    expect(providers["openai-compatible"]).toMatchObject({ supportsBaseURL: true, models: [] })
    expect(providers["service"]).toMatchObject({
      hasApiKey: true,
      primaryEnvVar: "",
      supportedRouters: ["in-built"],
      models: [{ name: "echo", displayName: "Echo", default: true, supportedFileTypes: ["pdf", "audio", "image"] }]
    })
    expect(await providersOf("?mode=grouped")).toEqual(providers)
  })

  test("GET /api/llm/catalog: 200 flat, every model with its provider", async () => {
    const providers = await providersOf("")
    const { body, status } = await mine("GET", "/api/llm/catalog?mode=flat")
    expect(status).toBe(200)
    expect(body).toEqual({
      models: Object.entries(providers).flatMap(([provider, { models, supportedRouters }]) =>
        (models as ReadonlyArray<object>).map((model) => ({ ...model, provider, supportedRouters }))
      )
    })
  })

  test("the catalogue is filtered by provider, key, router, file type and default, and by all of them", async () => {
    await saveKey("mistral", "mistral-key")
    const ids = async (query: string) => Object.keys(await providersOf(query))
    expect(await ids("?provider=openai,%20google,nobody")).toEqual(["openai", "google"])
    expect(await ids("?provider=nobody")).toEqual([])
    const keyed = await ids("?hasKey=true")
    const keyless = await ids("?hasKey=false")
    expect(keyed).toEqual(["mistral", "openai-compatible", "service"])
    expect(keyless).not.toContain("mistral")
    expect([...keyed, ...keyless].sort()).toEqual((await ids("")).sort())
    expect(await ids("?router=external-sdk")).not.toContain("service")
    expect(await ids("?router=in-built")).toContain("service")
    expect(await ids("?fileType=audio")).toEqual(["google", "service"])
    expect(await ids("?fileType=pdf&provider=openai,groq")).toEqual(["openai"])
    const defaults = await providersOf("?defaultOnly=true")
    expect(Object.keys(defaults)).not.toContain("openai-compatible")
    for (const { models } of Object.values(defaults))
      expect(models).toEqual([expect.objectContaining({ default: true })])
    expect(await providersOf("?defaultOnly=false&provider=openai")).toEqual(await providersOf("?provider=openai"))
    expect(await ids("?hasKey=true&router=in-built&fileType=audio&defaultOnly=true&provider=service,google")).toEqual([
      "service"
    ])
    const flat = await mine("GET", "/api/llm/catalog?mode=flat&defaultOnly=true&hasKey=true&router=external-sdk")
    expect(flat.body).toEqual({ models: [expect.objectContaining({ provider: "mistral", default: true })] })
    expect(Object.keys(await providersOf("?hasKey=true", foreign))).toEqual(["openai-compatible", "service"])
  })

  test("GET /api/llm/catalog: 400 for values that a filter does not have", async () => {
    for (const [name, value] of [
      ["hasKey", "yes"],
      ["router", "other"],
      ["fileType", "video"],
      ["defaultOnly", "1"],
      ["mode", "tree"]
    ]) {
      const { body, status } = await mine("GET", `/api/llm/catalog?${name}=${value}`)
      expect([status, body]).toEqual([400, issues(["schema_validation", name ?? ""])])
    }
  })

  test("POST /api/llm/key: 200 and the key is there at once, for its workspace only", async () => {
    const { body, status } = await mine("POST", "/api/llm/key", {
      provider: "moonshotai",
      apiKey: "a'key\"with#signs`$"
    })
    expect([status, body]).toEqual([200, { ok: true, provider: "moonshotai", envVar: "MOONSHOT_API_KEY" }])
    expect((await providersOf("?provider=moonshotai"))["moonshotai"]).toMatchObject({ hasApiKey: true })
    expect((await providersOf("?provider=moonshotai", foreign))["moonshotai"]).toMatchObject({ hasApiKey: false })
  })

  test("a saved key opens the gateway's models that take it", async () => {
    const models = async () => (await foreign("GET", "/v1/models")).text
    expect(await models()).not.toContain("claude-sonnet-4-5")
    await saveKey("anthropic", "key-of-foreign", foreign)
    expect(await models()).toContain("claude-sonnet-4-5")
    expect((await providersOf("?provider=service", foreign))["service"]?.["models"]).toContainEqual(
      expect.objectContaining({ name: "claude-sonnet-4-5", supportedFileTypes: ["pdf", "image"] })
    )
  })

  test("POST /api/llm/key: 400 for a provider that takes no key, and for what is no key", async () => {
    for (const provider of ["nobody", "service", "__proto__"]) {
      const { body, status } = await mine("POST", "/api/llm/key", { provider, apiKey: "sk-canary-refused" })
      expect([status, body]).toEqual([400, issues(["unknown_provider", "provider"])])
    }
    for (const apiKey of ["", "sk-canary\nrefused", "sk-canary refused", "sk-canary-ü", 7, ["sk-canary"], null]) {
      const reply = await mine("POST", "/api/llm/key", { provider: "openai", apiKey })
      expect([reply.status, reply.body]).toEqual([400, issues(["schema_validation", "apiKey"])])
      expect(reply.text).not.toContain("sk-canary")
    }
    const nul = await mine("POST", "/api/llm/key", { provider: "openai", apiKey: "a\u0000b" })
    expect([nul.status, nul.body]).toEqual([400, issues(["schema_validation", "apiKey"])])
    const none = await mine("POST", "/api/llm/key", {})
    expect([none.status, none.body]).toEqual([
      400,
      issues(["schema_validation", "provider"], ["schema_validation", "apiKey"])
    ])
    expect((await providersOf("?provider=openai"))["openai"]).toMatchObject({ hasApiKey: false })
  })

  /** A body of so many bytes; without a length it comes in chunks. */
  const sendKey = (length: number, withLength: boolean) =>
    new Promise<{ readonly status: number | undefined; readonly body: unknown }>((resolve, reject) => {
      const empty = JSON.stringify({ provider: "xai", apiKey: "" })
      const text = JSON.stringify({ provider: "xai", apiKey: "k".repeat(length - empty.length) })
      const sent = request(`${runtime.service.baseUrl}/api/llm/key`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${runtime.keys.mine}`,
          "content-type": "application/json",
          ...(withLength ? { "content-length": text.length } : { "transfer-encoding": "chunked" })
        }
      })
      sent.on("error", reject).on("response", (response) => {
        let answer = ""
        response.setEncoding("utf8").on("data", (part: string) => void (answer += part))
        response.on("end", () => resolve({ status: response.statusCode, body: JSON.parse(answer) }))
      })
      sent.end(text)
    })

  test.each([true, false])("POST /api/llm/key: 413 for more than 4 KB, with content-length: %s", async (withLength) => {
    expect(await sendKey(4096, withLength)).toMatchObject({ status: 200 })
    expect(await sendKey(4097, withLength)).toEqual({ status: 413, body: issues(["schema_validation", ""]) })
  })

  test("POST /api/llm/switch: 200 for a provider alone, with its default model, and the file refers to the key", async () => {
    await saveKey("groq", "gsk-canary-stored")
    const { body, status } = await mine("POST", "/api/llm/switch", { provider: "groq" })
    expect([status, body]).toEqual([
      200,
      { ok: true, data: { provider: "groq", model: "openai/gpt-oss-120b", router: "in-built" }, issues: [] }
    ])
    expect(await current(mine)).toEqual({
      config: { provider: "groq", model: "openai/gpt-oss-120b", displayName: "GPT OSS 120B" }
    })
    const file = await readWorkspaceFile(runtime.service, "mine", agentFile)
    expect(file).toMatch(/^ {2}provider: groq$/mu)
    expect(file).toMatch(/^ {2}apiKey: "?\$GROQ_API_KEY"?$/mu)
    expect(file).not.toContain("gsk-canary-stored")
    expect(file).toContain("#")
    expect(await current(foreign)).toEqual({ config: { ...home, displayName: "Echo" } })
    await goHome()
    expect(await readWorkspaceFile(runtime.service, "mine", agentFile)).not.toContain("GROQ")
  })

  test("a model, a router, a limit and a key can be switched alone, and another provider by its model", async () => {
    const to = async (request: object) => {
      const { body, status } = await mine("POST", "/api/llm/switch", request)
      expect([status, body]).toEqual([200, { ok: true, data: expect.any(Object), issues: [] }])
      return (body as { readonly data: object }).data
    }
    await saveKey("xai", "key-of-xai")
    expect(await to({ model: "grok-4.7" })).toEqual({ provider: "xai", model: "grok-4.7", router: "in-built" })
    await saveKey("openai", "key-of-openai")
    expect(await to({ provider: "openai", model: "gpt-4o" })).toMatchObject({ provider: "openai", model: "gpt-4o" })
    expect(await to({ model: "gpt-4.1" })).toEqual({ provider: "openai", model: "gpt-4.1", router: "in-built" })
    expect(await to({ router: "external-sdk" })).toEqual({
      provider: "openai",
      model: "gpt-4.1",
      router: "external-sdk"
    })
    expect(await to({ maxInputTokens: 1_000_000 })).toMatchObject({ model: "gpt-4.1" })
    expect(await to({ apiKey: "another-key" })).toMatchObject({ model: "gpt-4.1" })
    const file = await readWorkspaceFile(runtime.service, "mine", agentFile)
    expect(file).toMatch(/^ {2}maxInputTokens: 1000000$/mu)
    expect(file).not.toContain("another-key")
    const smaller = await mine("POST", "/api/llm/switch", { model: "gpt-4" })
    expect(smaller.body).toMatchObject({
      ok: true,
      data: { model: "gpt-4" },
      issues: [{ code: "max_input_tokens_exceeded", severity: "warning", path: ["maxInputTokens"] }]
    })
    expect(await readWorkspaceFile(runtime.service, "mine", agentFile)).not.toContain("maxInputTokens")
    await goHome()
  })

  test("POST /api/llm/switch: 400 with every issue at once, and nothing changed", async () => {
    const before = await readWorkspaceFile(runtime.service, "mine", agentFile)
    const refused = async (request: object | string, ...expected: Expected) => {
      const { body, status } = await mine("POST", "/api/llm/switch", request)
      expect([status, body]).toEqual([400, issues(...expected)])
    }
    await refused({ provider: "nobody" }, ["unknown_provider", "provider"])
    await refused({ model: "nothing" }, ["unknown_model", "model"])
    await refused({ router: "external-sdk" }, ["router_not_supported", "router"])
    await refused({ provider: "cerebras" }, ["missing_api_key", "apiKey"])
    await refused({ baseURL: "https://models.example.com/v1" }, ["base_url_not_supported", "baseURL"])
    await refused({ provider: "openai-compatible", model: "llama" }, ["base_url_required", "baseURL"])
    await refused({ maxInputTokens: 128_001 }, ["max_input_tokens_exceeded", "maxInputTokens"])
    await refused(
      { provider: "cerebras", model: "gpt-4o", baseURL: "https://models.example.com" },
      ["unknown_model", "model"],
      ["base_url_not_supported", "baseURL"],
      ["missing_api_key", "apiKey"]
    )
    await refused({ sessionId: "s", provider: "cerebras" }, ["missing_api_key", "apiKey"])
    await refused({}, ["schema_validation", ""])
    await refused({ sessionId: "s" }, ["schema_validation", ""])
    await refused(
      { provider: "", router: "other", maxInputTokens: 0.5, sessionId: "a b" },
      ["schema_validation", "provider"],
      ["schema_validation", "router"],
      ["schema_validation", "maxInputTokens"],
      ["schema_validation", "sessionId"]
    )
    for (const number of ["-1", "0", '"7"', "1e400", "null"]) {
      await refused(`{"maxInputTokens": ${number}}`, ["schema_validation", "maxInputTokens"])
    }
    const { body, status, text } = await mine("POST", "/api/llm/switch", { apiKey: "sk-canary refused" })
    expect([status, body]).toEqual([400, issues(["schema_validation", "apiKey"])])
    expect(text).not.toContain("sk-canary")
    expect(await readWorkspaceFile(runtime.service, "mine", agentFile)).toBe(before)
  })

  test("an address of this machine or its network is refused, in any form of writing", async () => {
    for (const host of [
      "127.0.0.1:11434",
      "localhost",
      "2130706433",
      "0x7f.1",
      "[::ffff:127.0.0.1]",
      "169.254.169.254"
    ]) {
      const request = { provider: "openai-compatible", model: "llama", baseURL: `http://${host}/v1` }
      const { body, status } = await mine("POST", "/api/llm/switch", request)
      expect([host, status, body]).toEqual([host, 400, issues(["base_url_not_supported", "baseURL"])])
    }
  })

  test("a stored key stays with the host that it was given for", async () => {
    const at = (host: string, more: object = {}) =>
      mine("POST", "/api/llm/switch", {
        provider: "openai-compatible",
        model: "llama",
        baseURL: `https://${host}/v1`,
        ...more
      })
    expect((await at("192.0.32.7")).status).toBe(200)
    expect((await at("192.0.32.8", { apiKey: "sk-canary-first" })).status).toBe(200)
    expect((await at("192.0.32.8", { model: "other" })).status).toBe(200)
    expect((await at("192.0.32.9")).body).toEqual(issues(["missing_api_key", "apiKey"]))
    await goHome()
    expect((await at("192.0.32.9")).body).toEqual(issues(["missing_api_key", "apiKey"]))
    const back = await mine("POST", "/api/llm/switch", { provider: "openai-compatible", model: "llama" })
    expect(back.body).toMatchObject({ ok: true, data: { provider: "openai-compatible" } })
    const file = await readWorkspaceFile(runtime.service, "mine", agentFile)
    expect(file).toContain("https://192.0.32.8/v1")
    expect(file).not.toContain("sk-canary-first")
    expect((await at("192.0.32.9", { apiKey: "sk-canary-second" })).status).toBe(200)
    await goHome()
  })

  test("a session's choice is its own, kept, and of one workspace", async () => {
    await saveKey("openai", "key-of-openai")
    const before = await readWorkspaceFile(runtime.service, "mine", agentFile)
    const chosen = { provider: "openai", model: "gpt-4o", sessionId: "tea-time" }
    expect((await mine("POST", "/api/llm/switch", chosen)).body).toEqual({
      ok: true,
      data: { provider: "openai", model: "gpt-4o", router: "in-built" },
      issues: []
    })
    expect(await current(mine, "tea-time")).toEqual({
      config: { provider: "openai", model: "gpt-4o", displayName: "GPT-4o" }
    })
    expect(await current(mine)).toEqual({ config: { ...home, displayName: "Echo" } })
    expect(await current(mine, "another")).toEqual({ config: { ...home, displayName: "Echo" } })
    expect(await current(foreign, "tea-time")).toEqual({ config: { ...home, displayName: "Echo" } })
    expect(await readWorkspaceFile(runtime.service, "mine", agentFile)).toBe(before)

    const further = await mine("POST", "/api/llm/switch", { model: "gpt-4.1", sessionId: "tea-time" })
    expect(further.body).toMatchObject({ data: { provider: "openai", model: "gpt-4.1" } })
    await runtime.service.terminate()
    await runtime.service.start()
    expect(await current(mine, "tea-time")).toMatchObject({ config: { model: "gpt-4.1" } })
  }, 60_000)

  test("POST /api/llm/switch: 409 for all but one of those that change the agent at the same time", async () => {
    await saveKey("openai", "key-of-openai")
    const models = ["gpt-4o", "gpt-4.1", "gpt-4", "gpt-5"]
    const seen = new Set<number>()
    for (let round = 0; round < 20 && !seen.has(409); round++) {
      const replies = await Promise.all(
        models.map((model) => mine("POST", "/api/llm/switch", { provider: "openai", model }))
      )
      for (const { body, status } of replies) {
        seen.add(status)
        if (status !== 200) expect([status, body]).toEqual([409, issues(["workspace_conflict", ""])])
      }
      expect(replies.some(({ status }) => status === 200)).toBe(true)
      const { config } = (await current(mine)) as { readonly config: { readonly model: string } }
      expect(models).toContain(config.model)
      await goHome()
    }
    expect(seen).toContain(409)
  })

  test("POST /api/llm/switch: 413 for more than 1 MiB", async () => {
    const { body, status } = await mine("POST", "/api/llm/switch", { provider: "p".repeat(1024 * 1024) })
    expect([status, body]).toEqual([413, issues(["schema_validation", ""])])
  })

  test("no key that was ever given is in an answer, a file or a log", async () => {
    const { stderr, stdout } = runtime.service.logs()
    const answers = await Promise.all(
      ["/api/llm/current", "/api/llm/catalog", "/api/llm/catalog?mode=flat"].map((path) => mine("GET", path))
    )
    const said = [stdout, stderr, ...answers.map(({ text }) => text)].join("\n")
    expect(said).not.toMatch(/canary|key-of-|mistral-key|another-key/u)
  })

  describe("an agent that cannot be used", () => {
    const file = async (path: string, text: string) => {
      await writeWorkspaceFile(runtime.service, "foreign", path, text)
      // Seen within a second.
      await sleep(1_200)
    }
    let registry = ""
    let agent = ""
    beforeAll(async () => {
      await foreign("GET", "/api/llm/current")
      registry = await readWorkspaceFile(runtime.service, "foreign", registryPath)
      agent = await readWorkspaceFile(runtime.service, "foreign", agentFile)
    })
    afterAll(async () => {
      await file(registryPath, registry)
      await file(agentFile, agent)
    })

    test("GET /api/llm/current: 404 without an active agent", async () => {
      await file(registryPath, JSON.stringify({ ...JSON.parse(registry), current: null }))
      const { body, status } = await foreign("GET", "/api/llm/current")
      expect([status, body]).toEqual([404, issues(["agent_not_found", ""])])
    })

    test("POST /api/llm/switch: 404 without an active agent", async () => {
      const { body, status } = await foreign("POST", "/api/llm/switch", home)
      expect([status, body]).toEqual([404, issues(["agent_not_found", ""])])
      await file(registryPath, registry)
    })

    test("a file with mistakes: 400 that names them, for reading and switching", async () => {
      await file(agentFile, "llm: {provider: service")
      for (const reply of [await foreign("GET", "/api/llm/current"), await foreign("POST", "/api/llm/switch", home)]) {
        expect([reply.status, reply.body]).toEqual([400, issues(["agent_invalid_config", ""])])
        expect(reply.text).toContain("line 1")
      }
    })
  })
})

describe("a server without SECRETS_KEY", () => {
  let runtime: RuntimeService
  const [, postgres] = stores
  beforeAll(async () => {
    runtime = await startRuntime({ ...(await postgres?.options()), env: { SECRETS_KEY: "" } })
  }, 120_000)
  afterAll(() => runtime.service.remove())

  test("POST /api/llm/key: 503 that says what the operator has to set", async () => {
    const { body, status } = await runtime.mine("POST", "/api/llm/key", { provider: "openai", apiKey: "sk-canary" })
    expect([status, body]).toEqual([503, messageError])
    expect(JSON.stringify(body)).toContain("SECRETS_KEY")
  })

  test("POST /api/llm/switch: 503 with a key, and the agent is as it was", async () => {
    const before = (await runtime.mine("GET", "/api/llm/current")).body
    const request = { provider: "openai", model: "gpt-4o", apiKey: "sk-canary" }
    const { body, status } = await runtime.mine("POST", "/api/llm/switch", request)
    expect([status, body]).toEqual([503, messageError])
    expect((await runtime.mine("GET", "/api/llm/current")).body).toEqual(before)
  })
})
