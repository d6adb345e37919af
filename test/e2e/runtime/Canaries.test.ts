import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { readdir, readFile, stat } from "node:fs/promises"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join, relative } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type Api, apiOf, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

/**
 * Secrets go into every field that takes one, also into requests that fail, and servers that were given one say it back.
 * Then they are looked for in all that the service ever said. Letters and digits only, so that no form of escaping
 * hides one, and without the look of a key, so that none is taken out for its looks.
 */
const canaries = new Map<string, string>()

const plant = (field: string): string => {
  const canary = `canary${randomBytes(8).toString("hex")}`
  canaries.set(canary, field)
  return canary
}

/** In plain, and as credentials of an address are sent. */
const formsOf = (canary: string) => [
  canary,
  ...["", ":", "u:", "us:", "user:"].map((before) =>
    Buffer.from(before + canary)
      .toString("base64")
      .slice(Math.ceil((before.length * 4) / 3) + 1, -4)
  )
]

/** Which fields' secrets stand in a text. */
const fieldsIn = (text: string): ReadonlyArray<string> =>
  [...canaries].filter(([canary]) => formsOf(canary).some((form) => text.includes(form))).map(([, field]) => field)

interface Helper {
  readonly url: string
  readonly heard: () => string
  readonly stop: () => void
}

/** A server that keeps all that is sent to it. */
const helper = async (answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Helper> => {
  const heard: Array<string> = []
  const server: Server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => void parts.push(part))
    request.on("end", () => {
      heard.push(`${request.url} ${JSON.stringify(request.headers)} ${Buffer.concat(parts).toString()}`)
      answer(request, response)
    })
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    heard: () => heard.join("\n"),
    stop: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}

/** The command lines of a process and of all that came from it. Needs /proc. */
const commandLines = async (root: number): Promise<ReadonlyMap<number, string>> => {
  const parents = new Map<number, number>()
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/u.test(entry)) continue
    const text = await readFile(`/proc/${entry}/stat`, "utf8").catch(() => "")
    const [, parent] = /^\d+ \(.*\) \S (\d+) /su.exec(text) ?? []
    if (parent !== undefined) parents.set(Number(entry), Number(parent))
  }
  const isOurs = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === root || isOurs(parents.get(pid)))
  const found = new Map<number, string>()
  for (const pid of parents.keys()) {
    if (isOurs(pid)) found.set(pid, await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""))
  }
  return found
}

const environmentOf = (pid: number) => readFile(`/proc/${pid}/environ`, "utf8").catch(() => "")

const filesBelow = async (directory: string): Promise<ReadonlyArray<string>> =>
  (await readdir(directory, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const program = (script: string, env: Readonly<Record<string, string>>) => ({
  type: "stdio",
  command: process.execPath,
  args: ["-e", script],
  env
})

/** Says all that it was given, where logs and messages are made of it, and ends. */
const tells =
  "console.error(JSON.stringify(process.env)); console.log(JSON.stringify(process.env)); setTimeout(() => process.exit(3), 300)"

/** Answers each request with an error that names all that it was given. */
const refuses =
  "require('readline').createInterface({input: process.stdin}).on('line', (line) => { const {id} = JSON.parse(line); " +
  "if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, error: {code: -32603, message: JSON.stringify(process.env)}})) })"

/** A server without anything to offer, which stays. */
const stays =
  "require('readline').createInterface({input: process.stdin}).on('line', (line) => { const {id, params} = JSON.parse(line); " +
  "if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, result: params.protocolVersion ? {protocolVersion: " +
  "params.protocolVersion, capabilities: {}, serverInfo: {name: 's', version: '1'}} : {}})) })"

describe.each(stores)("canary secrets, on $store", ({ options, store }) => {
  let runtime: RuntimeService
  let mine: Api
  let collector: Helper
  /** Says in each answer what it was sent: as a vendor with status 400, 401, 403 and 500 in turn. */
  let echo: Helper
  let elsewhere: Helper
  /** All answers, and to which request each was. */
  const answers: Array<readonly [request: string, text: string]> = []
  const children = new Map<number, string>()
  const operatorKey = plant("OPENAI_API_KEY of the operator")
  const secretsKey = randomBytes(32).toString("base64")

  const recorded =
    (api: Api): Api =>
    async (method, path, body, init) => {
      const reply = await api(method, path, body, init)
      answers.push([`${method} ${path}`, `${reply.text}\n${JSON.stringify([...reply.headers])}`])
      return reply
    }

  /** What runs now: programs come and go. */
  const look = async () => {
    for (const [pid, line] of await commandLines(runtime.service.pid())) children.set(pid, line)
  }

  beforeAll(async () => {
    canaries.set(secretsKey, "SECRETS_KEY")
    collector = await helper((_, response) => response.end("{}"))
    let turn = 0
    echo = await helper((request, response) => {
      const status = request.url?.startsWith("/mcp") === true ? 500 : ([400, 401, 403, 500][turn++ % 4] ?? 500)
      const said = JSON.stringify(request.headers)
      response.writeHead(status, { "content-type": "application/json", "request-id": "r" })
      response.end(JSON.stringify({ type: "error", error: { type: "invalid_request_error", message: said } }))
    })
    elsewhere = await helper((_, response) => response.writeHead(404).end())
    runtime = await startRuntime({
      ...(await options()),
      env: {
        ALLOW_PRIVATE_UPSTREAMS: "true",
        ANTHROPIC_BASE_URL: echo.url,
        LOG_LEVEL: "Trace",
        MCP_STDIO: "allowed",
        OPENAI_API_KEY: operatorKey,
        OPENAI_BASE_URL: `${echo.url}/v1`,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        SECRETS_KEY: secretsKey,
        UPSTREAM_TOTAL_TIMEOUT: "10s"
      }
    })
    mine = recorded(runtime.mine)
    canaries.set(runtime.keys.mine, "a key of the service")
    canaries.set(runtime.keys.foreign, "another organization's key of the service")
  }, 120_000)

  afterAll(async () => {
    await runtime.service.remove()
    for (const { stop } of [collector, echo, elsewhere]) stop()
  })

  test("keys of providers are taken, also in requests that fail", async () => {
    const saved = { provider: "anthropic", apiKey: plant("apiKey of /api/llm/key") }
    expect((await mine("POST", "/api/llm/key", saved)).status).toBe(200)
    expect(
      (await mine("POST", "/api/llm/key", { ...saved, apiKey: `"'\`#$ ${plant("apiKey with a space")}` })).status
    ).toBe(400)
    expect(
      (await mine("POST", "/api/llm/key", { provider: "groq", apiKey: `"'\`#$${plant("apiKey with quotes")}` })).status
    ).toBe(200)
    for (const body of [
      { provider: "nobody", apiKey: plant("apiKey of an unknown provider") },
      { provider: "openai", apiKey: [plant("apiKey in a list")] },
      { provider: { [plant("provider's key in an object")]: 1 }, apiKey: plant("apiKey beside a wrong provider") },
      { provider: "openai", apiKey: `${plant("apiKey with a line break")}\n` },
      `{"provider": "openai", "apiKey": "${plant("apiKey in what is no JSON")}"`,
      `{"provider": "openai", "apiKey": "${plant("apiKey before what is no JSON")}"x}`,
      { provider: "openai", apiKey: `${plant("apiKey of more than 4 KB")}${"k".repeat(5_000)}` }
    ]) {
      expect((await mine("POST", "/api/llm/key", body)).status).toBeGreaterThanOrEqual(400)
    }

    const openai = { provider: "openai", model: "gpt-4o" }
    for (const body of [
      { ...openai, apiKey: plant("apiKey of /api/llm/switch") },
      { ...openai, apiKey: plant("apiKey of a session"), sessionId: "tea-time" },
      {
        provider: "openai-compatible",
        model: "llama",
        baseURL: "https://192.0.32.7/v1",
        apiKey: plant("apiKey of a baseURL")
      }
    ]) {
      const { body: answer, status } = await mine("POST", "/api/llm/switch", body)
      expect([status, answer]).toEqual([200, expect.anything()])
    }
    for (const body of [
      { ...openai, model: "nothing", apiKey: plant("apiKey of an unknown model") },
      { ...openai, router: "nothing", apiKey: plant("apiKey beside a wrong router") },
      { provider: "cerebras", baseURL: "https://192.0.32.7", apiKey: plant("apiKey of a refused baseURL") },
      {
        provider: "openai-compatible",
        model: "m",
        baseURL: `https://user:${plant("userinfo of baseURL")}@192.0.32.7/v1`
      },
      { provider: "openai-compatible", model: "m", baseURL: `ftp://${plant("baseURL that is none")}/` }
    ]) {
      expect((await mine("POST", "/api/llm/switch", body)).status).toBe(400)
    }

    const draft = { name: "Mine", description: "An agent.", systemPrompt: "Help." }
    const llm = { provider: "anthropic", model: "claude-sonnet-4-5" }
    for (const [id, fields, status] of [
      ["first", { llm: { ...llm, apiKey: plant("apiKey of a custom agent") } }, 201],
      ["first", { llm: { ...llm, apiKey: plant("apiKey of an agent that exists") } }, 409],
      ["Bad Id", { llm: { ...llm, apiKey: plant("apiKey beside a malformed id") } }, 400],
      [
        "second",
        { llm: { ...llm, provider: "nobody", apiKey: plant("apiKey of a custom agent's unknown provider") } },
        400
      ],
      ["third", { llm: { ...llm, apiKey: { is: plant("apiKey in an object") } } }, 400]
    ] as const) {
      const reply = await mine("POST", "/api/agents/custom/create", { ...draft, id, ...fields })
      expect([id, reply.status < 300]).toEqual([id, status < 300])
    }
    expect((await mine("POST", "/api/agents/switch", { id: "first" })).status).toBe(200)
    expect((await mine("GET", "/api/agent/config")).status).toBe(200)
    const wrong = recorded(apiOf(runtime.service.baseUrl, `sk-gw-${plant("a wrong key of the service")}`))
    expect((await wrong("GET", "/api/llm/current")).status).toBe(401)
  })

  test("vendors that say a key back, with every status", async () => {
    const complete = (model: string, access_method: string) =>
      mine("POST", "/v1/chat/completions", { model, access_method, messages: [{ role: "user", content: "Hello" }] })
    for (let round = 0; round < 4; round++) {
      expect((await complete("claude-sonnet-4-5", "vendor-a-api-key")).status).toBeGreaterThanOrEqual(400)
      expect((await complete("gpt-4o", "service")).status).toBeGreaterThanOrEqual(400)
      expect((await complete("gpt-4o", "vendor-b-api-key")).status).toBeGreaterThanOrEqual(400)
    }
    const said = fieldsIn(echo.heard())
    expect(said).toContain("OPENAI_API_KEY of the operator")
    expect(said.length).toBeGreaterThanOrEqual(3)
  }, 60_000)

  test("MCP servers get their secrets, and say them back", async () => {
    const connect = async (name: string, config: object, more: object = {}) => {
      const reply = await mine("POST", "/api/mcp/servers", { name, config, ...more })
      await look()
      return reply
    }
    const quiet = program(stays, { SOME_TOKEN: plant("env of an MCP server") })
    expect((await connect("quiet", quiet)).status).toBe(200)
    expect([...children.keys()].length).toBeGreaterThan(1)
    for (const [name, config] of [
      ["telling", program(tells, { SOME_TOKEN: plant("env of a program that tells it") })],
      ["refusing", program(refuses, { SOME_TOKEN: plant("env of a program that refuses with it") })],
      [
        "missing",
        { type: "stdio", command: "/no/such/program", env: { T: plant("env of a program that is missing") } }
      ],
      [
        "echo",
        {
          type: "http",
          url: `${echo.url}/mcp`,
          headers: {
            Authorization: `Bearer ${plant("header of an MCP server")}`,
            "X-Custom": plant("custom header of an MCP server")
          }
        }
      ],
      ["events", { type: "sse", url: `${echo.url}/mcp`, headers: { "X-Custom": plant("custom header over SSE") } }],
      [
        "nobody",
        { type: "http", url: "http://127.0.0.1:9/", headers: { "X-Custom": plant("header to a closed port") } }
      ],
      ["query", { type: "http", url: `${echo.url}/mcp?token=${plant("query of an MCP server's url")}` }],
      ["userinfo", { type: "http", url: `http://user:${plant("userinfo of an MCP server's url")}@127.0.0.1:9/` }],
      ["user", { type: "sse", url: `http://${plant("user of an MCP server's url")}@127.0.0.1:9/` }],
      ["unusual", { type: "http", url: `ftp://user:${plant("userinfo of what is no http address")}@127.0.0.1/` }],
      ["broken", { type: "http", url: echo.url, headers: { "X-Custom": `${plant("header with a line break")}\n` } }],
      ["number", { type: "stdio", command: "true", env: { T: [plant("env that is a list")] } }],
      ["typeless", { type: plant("type of an MCP server"), env: { T: plant("env of no type") } }],
      ["a b", { ...quiet, env: { T: plant("env beside a malformed name") } }]
    ] as const) {
      const { status } = await connect(name, { ...config, timeout: 5_000 })
      expect([name, status]).toEqual([name, expect.toSatisfy((it: number) => it === 400 || it === 502)])
    }
    expect(fieldsIn(echo.heard())).toContain("custom header of an MCP server")
    for (const path of ["quiet/tools", "quiet/resources", "quiet/resources/x/content", "quiet/restart"]) {
      await mine(path.endsWith("restart") ? "POST" : "GET", `/api/mcp/servers/${path}`)
    }
    await look()
  }, 60_000)

  test("a redirect takes no header of an MCP server to another host", async () => {
    const mover = await helper((_, response) =>
      response.writeHead(307, { location: elsewhere.url.replace("127.0.0.1", "localhost") }).end()
    )
    for (const type of ["http", "sse"]) {
      const headers = {
        Authorization: `Bearer ${plant("header before a redirect")}`,
        "X-Api-Key": plant("custom header before a redirect")
      }
      const body = { name: "moved", config: { type, url: mover.url, headers, timeout: 5_000 } }
      expect((await mine("POST", "/api/mcp/servers", body)).status).toBe(502)
    }
    mover.stop()
    expect(fieldsIn(elsewhere.heard())).toEqual([])
  })

  test("a configuration of the user's own that has secrets in every place for one", async () => {
    const yaml = `systemPrompt: You help.
llm: {provider: anthropic, model: claude-sonnet-4-5, apiKey: ${plant("apiKey in YAML")}}
mcpServers:
  a: {type: stdio, command: ${process.execPath}, args: ["-e", "${tells}"], env: {TOKEN: ${plant("env in YAML")}}}
  b: {type: http, url: "${echo.url}/mcp", headers: {X-Custom: ${plant("header in YAML")}}}
  c: {type: sse, url: "http://user:${plant("userinfo in YAML")}@127.0.0.1:9/"}
`
    expect((await mine("POST", "/api/agent/validate", { yaml })).status).toBe(200)
    const { body, status } = await mine("POST", "/api/agent/config", { yaml })
    expect([status, body]).toEqual([200, expect.objectContaining({ ok: true })])
    expect((await mine("POST", "/api/agent/config", { yaml: `${yaml}plugin: {}` })).status).toBe(400)
    const quiet = program(stays, { TOKEN: plant("env of an MCP server that is kept") })
    expect((await mine("POST", "/api/mcp/servers", { name: "kept", config: quiet, persistToAgent: true })).status).toBe(
      200
    )
    // Its own answer, and no other one, has the file as it is (section 2.5).
    expect(fieldsIn((await runtime.mine("GET", "/api/agent/config")).text)).toContain("apiKey in YAML")
    for (const session of ["", "?sessionId=tea-time"]) {
      expect((await mine("GET", `/api/agent/config/export${session}`)).status).toBe(200)
    }
    await look()
  }, 60_000)

  test("what users write to prompts and look for is in no log or trace", async () => {
    const word = plant("what a user wrote")
    const resolve = `/api/prompts/summarize/resolve?context=${word}&args=${encodeURIComponent(`{"text": "${word}"}`)}`
    // These answers have it, as they should.
    for (const path of [resolve, `/api/memory?tags=${word}`, `/api/search/messages?q=${word}`]) {
      expect((await runtime.mine("GET", path)).status).toBe(200)
    }
    const memory = { content: word, tags: [word], metadata: { note: word } }
    expect((await runtime.mine("POST", "/api/memory", memory)).status).toBe(201)
    expect((await runtime.mine("POST", "/api/prompts/custom", { name: "p", content: word })).status).toBe(201)
  })

  test("no answer has any", async () => {
    const foreign = recorded(runtime.foreign)
    const nobody = recorded(runtime.nobody)
    const { body } = await mine("GET", "/openapi.json")
    const { paths } = body as { readonly paths: Readonly<Record<string, object>> }
    const readable = Object.keys(paths).filter((path) => "get" in (paths[path] ?? {}) && !path.includes("{"))
    expect(readable.length).toBeGreaterThan(12)
    for (const path of [
      ...readable,
      "/api/llm/current?sessionId=tea-time",
      "/api/llm/catalog?mode=flat",
      "/api/agent/config/export?sessionId=tea-time",
      "/api/mcp/servers/kept/tools"
    ]) {
      if (path !== "/api/agent/config") await mine("GET", path)
      await foreign("GET", path)
      await nobody("GET", path)
    }
    // What the service may show of its files must not be the one with the keys.
    for (const uri of ["fs:///workspaces/mine/.env", `fs://${runtime.service.env["DATA_DIR"]}/workspaces/mine/.env`]) {
      expect((await mine("GET", `/api/resources/${encodeURIComponent(uri)}/content`)).status).toBe(404)
    }
    const written = new Set(["what a user wrote"])
    const seen = answers.flatMap(([request, text]) =>
      fieldsIn(text)
        .filter((field) => !written.has(field))
        .map((field) => `${request}: ${field}`)
    )
    expect(seen).toEqual([])
  }, 60_000)

  test("no command line has any, and no program what was not meant for it", async () => {
    await look()
    const [service, ...others] = [runtime.service.pid(), ...children.keys()]
    expect(others.length).toBeGreaterThan(2)
    for (const [pid, line] of children) expect([pid, line, fieldsIn(line)]).toEqual([pid, line, []])
    const environments = await Promise.all(others.filter((pid) => pid !== service).map(environmentOf))
    const given = environments.flatMap(fieldsIn)
    expect(given).toContain("env of an MCP server that is kept")
    expect(given.filter((field) => !field.startsWith("env "))).toEqual([])
  })

  test.runIf(store === "the embedded store")("keys of providers are in .env alone, for its owner's eyes", async () => {
    const directory = runtime.service.env["DATA_DIR"] ?? ""
    const fields = new Map<string, ReadonlyArray<string>>()
    for (const file of await filesBelow(directory)) {
      const found = fieldsIn(await readFile(file, "latin1")).filter((field) => field.startsWith("apiKey of"))
      if (found.length > 0) fields.set(relative(directory, file), found)
    }
    expect([...fields.keys()]).toEqual(["workspaces/mine/.env"])
    expect((await stat(join(directory, "workspaces/mine/.env"))).mode & 0o777).toBe(0o600)
  })

  test("no log, metric or trace has any, over a restart", async () => {
    await runtime.service.terminate()
    await runtime.service.start()
    await mine("GET", "/api/mcp/servers")
    await mine("GET", "/api/agent/config/export")
    await runtime.service.terminate()
    const { stderr, stdout } = runtime.service.logs()
    const lines = `${stdout}\n${stderr}`.split("\n")
    expect(lines.length).toBeGreaterThan(100)
    expect(lines.flatMap((line) => fieldsIn(line).map((field) => `${field}: ${line}`))).toEqual([])
    const traced = collector.heard()
    for (const path of ["/v1/traces", "/v1/metrics", "/v1/logs"]) expect(traced).toContain(path)
    expect(traced).toContain("/api/prompts/summarize/resolve")
    expect(fieldsIn(traced)).toEqual([])
  }, 60_000)
})
