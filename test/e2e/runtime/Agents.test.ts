import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type Api, apiOf, type Reply, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

/** Agents (section 4.3): each test leaves the default agent active, and uses ids that no other test does. */

const sound = "# mine\nsystemPrompt: Help.\nllm:\n  provider: service # this one\n  model: echo\n"

/** One issue of section 7.2 and nothing else. */
const issue = (code: string, path?: ReadonlyArray<string>) => ({
  ok: false,
  issues: [
    expect.objectContaining({ code, severity: "error", message: expect.stringMatching(/\S/u), ...(path && { path }) })
  ]
})

const metadata = { description: "Helps", author: "Me" }

const draft = (id: string, fields: object = {}) => ({
  id,
  name: "Mine",
  description: "Helps",
  llm: { provider: "openai", model: "gpt-6.1-terra", apiKey: "$OPENAI_API_KEY" },
  systemPrompt: "Help.",
  ...fields
})

const answer = ({ body, status }: Reply) => [status, body]

/** How often it is tried to make two requests meet. */
const mostRounds = 30

/** Requests that meet: it repeats them until one of them is a conflict, and gives their statuses. */
const collided = async (send: (round: number) => ReadonlyArray<Promise<Reply>>) => {
  for (let round = 0; round < mostRounds; round++) {
    const replies = await Promise.all(send(round))
    const conflicts = replies.filter(({ status }) => status === 409)
    for (const { body } of conflicts) expect(body).toEqual(issue("workspace_conflict", []))
    if (conflicts.length > 0) return replies.map(({ status }) => status)
  }
  return expect.fail("no two requests met")
}

describe.each(stores)("agents, on $store", ({ options, store }) => {
  let runtime: RuntimeService
  let mine: Api
  let sources: string
  beforeAll(async () => {
    sources = await mkdtemp(join(tmpdir(), "agent-sources-"))
    await writeFile(join(sources, "file.yml"), sound)
    await writeFile(
      join(sources, "broken.yml"),
      "systemPrompt: Help.\nllm:\n  provider: service\n  model: echo\nplugin: {}\n"
    )
    await mkdir(join(sources, "folder/notes"), { recursive: true })
    await writeFile(join(sources, "folder/one.yml"), sound)
    await writeFile(join(sources, "folder/two.yml"), sound)
    await writeFile(join(sources, "folder/notes/a.md"), "a")
    await writeFile(join(sources, "strict.yml"), strict)
    runtime = await startRuntime({ ...(await options()), env: { AGENT_SOURCE_ROOTS: sources } })
    mine = runtime.mine
  }, 120_000)
  afterAll(async () => {
    await runtime.service.remove()
    await rm(sources, { recursive: true })
  })

  const current = async (api = mine) => (await api("GET", "/api/agents/current")).body

  const create = async (id: string, fields: object = {}) => {
    expect((await mine("POST", "/api/agents/custom/create", draft(id, fields))).status).toBe(201)
  }

  const back = async () => {
    expect((await mine("POST", "/api/agents/switch", { id: "default-agent" })).status).toBe(200)
  }

  test("GET /api/agents: 200 with what is installed, available and current", async () => {
    const { body, status } = await runtime.foreign("GET", "/api/agents")
    expect(status).toBe(200)
    const agent = (id: string) => ({
      id,
      name: expect.stringMatching(/\S/u),
      description: expect.stringMatching(/\S/u),
      author: expect.stringMatching(/\S/u),
      tags: expect.arrayContaining([expect.any(String)]),
      type: "builtin"
    })
    expect(body).toEqual({
      installed: [agent("default-agent")],
      available: ["coding-agent", "research-agent", "writing-agent"].map(agent),
      current: { id: "default-agent", name: "Default Agent" }
    })
  })

  test("GET /api/agents/current: 200 with the current agent, nulls when none is active", async () => {
    const { foreign } = runtime
    expect(answer(await foreign("GET", "/api/agents/current"))).toEqual([
      200,
      { id: "default-agent", name: "Default Agent" }
    ])
    await foreign("POST", "/api/agents/uninstall", { id: "default-agent", force: true })
    expect(answer(await foreign("GET", "/api/agents/current"))).toEqual([200, { id: null, name: null }])
    expect((await foreign("POST", "/api/agents/install", { id: "default-agent" })).status).toBe(201)
    expect((await foreign("POST", "/api/agents/switch", { id: "default-agent" })).status).toBe(200)
    expect(await current(foreign)).toEqual({ id: "default-agent", name: "Default Agent" })
  })

  test("POST /api/agents/install: 201 for an agent that comes with the service, in this workspace only", async () => {
    const installed = await mine("POST", "/api/agents/install", { id: "coding-agent" })
    expect(answer(installed)).toEqual([
      201,
      { installed: true, id: "coding-agent", name: "Coding Agent", type: "builtin" }
    ])
    const listed = (await mine("GET", "/api/agents")).body
    expect(listed).toMatchObject({ installed: [{ id: "default-agent" }, { id: "coding-agent" }] })
    expect((await runtime.foreign("GET", "/api/agents")).text).toMatch(/"available":\[\{"id":"coding-agent"/u)
  })

  test("POST /api/agents/install: 201 for an own one from a file or a directory, by a derived or a given name", async () => {
    const file = await mine("POST", "/api/agents/install", {
      id: "own-from-file",
      sourcePath: join(sources, "file.yml"),
      metadata: { ...metadata, tags: ["own"] }
    })
    expect(answer(file)).toEqual([201, { installed: true, id: "own-from-file", name: "Own From File", type: "custom" }])
    const folder = await mine("POST", "/api/agents/install", {
      id: "from-folder",
      name: "Folder",
      sourcePath: join(sources, "folder"),
      metadata: { ...metadata, main: "two.yml" },
      injectPreferences: false
    })
    expect(answer(folder)).toEqual([201, { installed: true, id: "from-folder", name: "Folder", type: "custom" }])
    expect((await mine("GET", "/api/agents")).body).toMatchObject({
      installed: expect.arrayContaining([
        { id: "own-from-file", name: "Own From File", ...metadata, tags: ["own"], type: "custom" },
        { id: "from-folder", name: "Folder", ...metadata, tags: [], type: "custom" }
      ])
    })
    expect((await mine("POST", "/api/agents/switch", { id: "from-folder" })).status).toBe(200)
    const config = await mine("GET", "/api/agent/config")
    expect(config.body).toMatchObject({ yaml: sound, path: expect.stringMatching(/\/agents\/from-folder\/two\.yml$/u) })
    // Where it is now is in the workspace, and a source like any other.
    const { path } = config.body as { readonly path: string }
    const again = { id: "again", sourcePath: path, metadata }
    expect((await mine("POST", "/api/agents/install", again)).status).toBe(201)
    await back()
  })

  test("POST /api/agents/install: 400 for fields that are missing or wrong", async () => {
    const sourcePath = join(sources, "file.yml")
    for (const [body, path] of [
      [{}, ["id"]],
      [{ id: "Not_An_Id", sourcePath, metadata }, ["id"]],
      [{ id: "-a" }, ["id"]],
      [{ id: "agent-2", sourcePath, metadata }, ["id"]],
      [{ id: "a", sourcePath }, ["metadata"]],
      [{ id: "a", metadata }, ["sourcePath"]],
      [{ id: "a", sourcePath: "", metadata }, ["sourcePath"]],
      [{ id: "a", sourcePath, metadata: { author: "Me" } }, ["metadata", "description"]],
      [{ id: "a", sourcePath, metadata: { description: "x" } }, ["metadata", "author"]],
      [{ id: "a", sourcePath, metadata: { ...metadata, tags: "x" } }, ["metadata", "tags"]],
      [{ id: "coding-agent", injectPreferences: "no" }, ["injectPreferences"]]
    ]) {
      const reply = await mine("POST", "/api/agents/install", body)
      expect([body, ...answer(reply)]).toEqual([body, 400, issue("schema_validation", path as ReadonlyArray<string>)])
    }
  })

  test("POST /api/agents/install: 400 for what cannot be installed, and nothing is", async () => {
    const before = (await mine("GET", "/api/agents")).body
    const installing = (id: string, name: string) =>
      mine("POST", "/api/agents/install", {
        id,
        sourcePath: name.startsWith("/") ? name : join(sources, name),
        metadata
      })
    expect(answer(await mine("POST", "/api/agents/install", { id: "default-agent" }))).toEqual([
      400,
      issue("agent_validation_error", ["id"])
    ])
    expect(answer(await installing("writing-agent", "file.yml"))).toEqual([
      400,
      issue("agent_validation_error", ["id"])
    ])
    for (const outside of ["/etc/hostname", "/nowhere", "../etc/hostname", "nothing.yml", "relative\\..\\x"]) {
      expect([outside, ...answer(await installing("outer", outside))]).toEqual([
        outside,
        400,
        issue("agent_validation_error", ["sourcePath"])
      ])
    }
    expect(answer(await installing("folder", "folder"))).toEqual([
      400,
      issue("agent_validation_error", ["metadata", "main"])
    ])
    const broken = await installing("broken", "broken.yml")
    expect(answer(broken)).toEqual([400, issue("agent_invalid_config", ["plugin"])])
    expect(broken.body).toMatchObject({ issues: [{ context: { code: "unknown_key", line: 5, column: 1 } }] })
    expect((await mine("GET", "/api/agents")).body).toEqual(before)
  })

  test("POST /api/agents/install: 404 for an agent that does not come with the service", async () => {
    const reply = await mine("POST", "/api/agents/install", { id: "no-agent" })
    expect(answer(reply)).toEqual([404, issue("agent_not_found", ["id"])])
  })

  test("POST /api/agents/install: 409 for one of two at the same time, of which nothing is done", async () => {
    const made = new Set<string>()
    const statuses = await collided((round) =>
      ["a", "b", "c"].map(async (name) => {
        // An own agent's id has no digits.
        const id = `meeting-${"x".repeat(round + 1)}-${name}`
        const body = { id, sourcePath: join(sources, "folder"), metadata: { ...metadata, main: "one.yml" } }
        const reply = await mine("POST", "/api/agents/install", body)
        if (reply.status === 201) made.add(id)
        return reply
      })
    )
    expect(new Set(statuses)).toEqual(new Set([201, 409]))
    const { text } = await mine("GET", "/api/agents")
    const listed = [...text.matchAll(/"id":"(meeting-[^"]+)"/gu)].map(([, id]) => id)
    expect(new Set(listed)).toEqual(made)
  })

  test("POST /api/agents/switch: 200 by id, and the agent runs", async () => {
    await create("to-switch", { llm: { provider: "service", model: "echo" }, systemPrompt: "Switched." })
    const reply = await mine("POST", "/api/agents/switch", { id: "to-switch" })
    expect(answer(reply)).toEqual([200, { switched: true, id: "to-switch", name: "Mine" }])
    expect(await current()).toEqual({ id: "to-switch", name: "Mine" })
    expect((await mine("GET", "/api/agents")).body).toMatchObject({ current: { id: "to-switch", name: "Mine" } })
    expect((await mine("GET", "/api/agent/config/export")).text).toContain("Switched.")
    expect(await current(runtime.foreign)).toEqual({ id: "default-agent", name: "Default Agent" })
    await back()
  })

  test("POST /api/agents/switch: 200 by the path of a file, in the workspace or elsewhere", async () => {
    const elsewhere = await mine("POST", "/api/agents/switch", { id: "elsewhere", path: join(sources, "file.yml") })
    expect(answer(elsewhere)).toEqual([200, { switched: true, id: "elsewhere", name: "Elsewhere" }])
    const { body } = await mine("GET", "/api/agent/config")
    expect(body).toMatchObject({ yaml: sound, path: expect.stringMatching(/\/agents\/elsewhere\/file\.yml$/u) })
    const { path } = body as { readonly path: string }
    const inside = await mine("POST", "/api/agents/switch", { id: "inside", path })
    expect(answer(inside)).toEqual([200, { switched: true, id: "inside", name: "Inside" }])
    expect((await mine("GET", "/api/agent/config")).body).toMatchObject({ path })
    await back()
  })

  test("POST /api/agents/switch: 400 for what is wrong or does not start; the agent before is current", async () => {
    const switching = async (body: object) => answer(await mine("POST", "/api/agents/switch", body))
    expect(await switching({})).toEqual([400, issue("schema_validation", ["id"])])
    expect(await switching({ id: "A" })).toEqual([400, issue("schema_validation", ["id"])])
    expect(await switching({ id: "x", path: 1 })).toEqual([400, issue("schema_validation", ["path"])])
    for (const path of ["/etc/hostname", "file.yml", join(sources, "nothing.yml"), join(sources, "../x")]) {
      expect(await switching({ id: "outer", path })).toEqual([400, issue("agent_validation_error", ["path"])])
    }
    const folder = { id: "outer", path: join(sources, "folder") }
    expect(await switching(folder)).toEqual([400, issue("agent_validation_error", ["path"])])
    const taken = { id: "default-agent", path: join(sources, "file.yml") }
    expect(await switching(taken)).toEqual([400, issue("agent_validation_error", ["id"])])
    const broken = { id: "outer", path: join(sources, "broken.yml") }
    expect(await switching(broken)).toEqual([400, issue("agent_invalid_config", ["plugin"])])
    // Its only MCP server has to be there, and is not.
    expect(await switching({ id: "outer", path: join(sources, "strict.yml") })).toEqual([
      400,
      issue("agent_invalid_config", ["id"])
    ])
    expect(await current()).toEqual({ id: "default-agent", name: "Default Agent" })
    expect((await mine("GET", "/api/agent/config/export")).status).toBe(200)
  })

  test("POST /api/agents/switch: 404 for an agent that is not installed", async () => {
    for (const id of ["writing-agent", "nobody"]) {
      const reply = await mine("POST", "/api/agents/switch", { id })
      expect([id, ...answer(reply)]).toEqual([id, 404, issue("agent_not_found", ["id"])])
    }
  })

  test("POST /api/agents/switch: 409 for one of two at the same time", async () => {
    const llm = { provider: "service", model: "echo" }
    for (const id of ["left", "right"]) await create(id, { llm })
    const statuses = await collided(() => ["left", "right"].map((id) => mine("POST", "/api/agents/switch", { id })))
    expect(statuses).toContain(200)
    expect(await current()).toEqual({ id: expect.stringMatching(/^(?:left|right)$/u), name: "Mine" })
    await back()
  })

  test("POST /api/agents/validate-name: 200 for an id that is free, and for one that is not", async () => {
    await create("of-mine")
    const asked = async (id: string) => answer(await mine("POST", "/api/agents/validate-name", { id }))
    expect(await asked("free-2")).toEqual([200, { valid: true }])
    for (const [id, conflict] of [
      ["default-agent", "builtin"],
      ["writing-agent", "builtin"],
      ["of-mine", "custom"],
      ["Mine", "invalid"],
      ["", "invalid"]
    ] as const) {
      expect([id, ...(await asked(id))]).toEqual([
        id,
        200,
        { valid: false, conflict, message: expect.stringMatching(/\S/u) }
      ])
    }
    expect(answer(await runtime.foreign("POST", "/api/agents/validate-name", { id: "of-mine" }))).toEqual([
      200,
      { valid: true }
    ])
  })

  test("POST /api/agents/validate-name: 400 without an id", async () => {
    for (const body of [{}, { id: 1 }]) {
      const reply = await mine("POST", "/api/agents/validate-name", body)
      expect(answer(reply)).toEqual([400, issue("schema_validation", ["id"])])
    }
  })

  test("POST /api/agents/uninstall: 200 for own and packaged agents; the latter can be installed again", async () => {
    await create("to-go")
    expect((await mine("POST", "/api/agents/install", { id: "research-agent" })).status).toBe(201)
    for (const id of ["to-go", "research-agent"]) {
      expect(answer(await mine("POST", "/api/agents/uninstall", { id }))).toEqual([200, { uninstalled: true, id }])
    }
    const { text } = await mine("GET", "/api/agents")
    expect(text).not.toContain("to-go")
    expect(text).toMatch(/"available":\[.*"id":"research-agent"/u)
    expect((await mine("POST", "/api/agents/install", { id: "research-agent" })).status).toBe(201)
    await create("to-go")
  })

  test("POST /api/agents/uninstall: 200 for the active one by force, and the default agent is active", async () => {
    await create("active", { llm: { provider: "service", model: "echo" } })
    expect((await mine("POST", "/api/agents/switch", { id: "active" })).status).toBe(200)
    expect((await mine("POST", "/api/agents/uninstall", { id: "default-agent" })).status).toBe(200)
    const reply = await mine("POST", "/api/agents/uninstall", { id: "active", force: true })
    expect(answer(reply)).toEqual([200, { uninstalled: true, id: "active" }])
    expect(await current()).toEqual({ id: "default-agent", name: "Default Agent" })
    expect((await mine("GET", "/api/agent/config/export")).status).toBe(200)
  })

  test("POST /api/agents/uninstall: 400 for the active one without force, and for wrong fields", async () => {
    const uninstalling = async (body: object) => answer(await mine("POST", "/api/agents/uninstall", body))
    expect(await uninstalling({ id: "default-agent" })).toEqual([400, issue("agent_validation_error", ["id"])])
    expect(await uninstalling({ id: "default-agent", force: false })).toEqual([
      400,
      issue("agent_validation_error", ["id"])
    ])
    expect(await uninstalling({ force: true })).toEqual([400, issue("schema_validation", ["id"])])
    expect(await uninstalling({ id: "default-agent", force: "yes" })).toEqual([
      400,
      issue("schema_validation", ["force"])
    ])
    expect(await current()).toEqual({ id: "default-agent", name: "Default Agent" })
  })

  test("POST /api/agents/uninstall: 404 for an agent that is not installed, of another organization too", async () => {
    await create("only-mine")
    const reply = await runtime.foreign("POST", "/api/agents/uninstall", { id: "only-mine", force: true })
    expect(answer(reply)).toEqual([404, issue("agent_not_found", ["id"])])
    expect((await mine("GET", "/api/agents")).text).toContain("only-mine")
  })

  test("POST /api/agents/uninstall: 409 for one of two at the same time", async () => {
    const ids = Array.from({ length: 3 * mostRounds }, (_, index) => `leaving-${index}`)
    const left = new Set<string>()
    const statuses = await collided((round) =>
      ids.slice(3 * round, 3 * round + 3).map(async (id) => {
        await retried(() => mine("POST", "/api/agents/custom/create", draft(id)))
        left.add(id)
        return mine("POST", "/api/agents/uninstall", { id })
      })
    )
    expect(new Set(statuses)).toEqual(new Set([200, 409]))
    const { text } = await mine("GET", "/api/agents")
    const present = [...left].filter((id) => text.includes(`"${id}"`))
    expect(present).toHaveLength(statuses.filter((status) => status === 409).length)
  })

  test("POST /api/agents/custom/create: 201 with a reference, listed and ready to run", async () => {
    const body = draft("referring", { author: "Us", tags: ["a"], description: "One line: with a colon" })
    const reply = await mine("POST", "/api/agents/custom/create", body)
    expect(answer(reply)).toEqual([201, { created: true, id: "referring", name: "Mine" }])
    expect((await mine("GET", "/api/agents")).body).toMatchObject({
      installed: expect.arrayContaining([
        {
          id: "referring",
          name: "Mine",
          description: "One line: with a colon",
          author: "Us",
          tags: ["a"],
          type: "custom"
        }
      ])
    })
    expect((await mine("POST", "/api/agents/switch", { id: "referring" })).status).toBe(200)
    expect((await mine("GET", "/api/agent/config")).body).toMatchObject({
      yaml: expect.stringContaining("apiKey: $OPENAI_API_KEY\n")
    })
    await back()
  })

  test("POST /api/agents/custom/create: 201 with a key, which stands in .env and nowhere else", async () => {
    const canary = "sk-canary-'#`\"$x"
    const llm = { provider: "anthropic", model: "claude-sonnet-5-5", apiKey: canary }
    const made = await mine("POST", "/api/agents/custom/create", draft("secretive", { llm }))
    expect(answer(made)).toEqual([201, { created: true, id: "secretive", name: "Mine" }])
    const other = { ...llm, apiKey: "sk-canary-2" }
    expect((await mine("POST", "/api/agents/custom/create", draft("secretive-2", { llm: other }))).status).toBe(201)
    expect((await mine("POST", "/api/agents/switch", { id: "secretive-2" })).status).toBe(200)
    const [second, exported] = [await mine("GET", "/api/agent/config"), await mine("GET", "/api/agent/config/export")]
    expect(second.text).toContain("$ANTHROPIC_SECRETIVE_2_API_KEY")
    expect((await mine("POST", "/api/agents/switch", { id: "secretive" })).status).toBe(200)
    const first = await mine("GET", "/api/agent/config")
    expect(first.body).toMatchObject({ yaml: expect.stringContaining("apiKey: $ANTHROPIC_API_KEY\n"), warnings: [] })
    const listed = await mine("GET", "/api/agents")
    for (const { text } of [made, first, second, exported, listed]) expect(text).not.toContain("sk-canary")
    const { stderr, stdout } = runtime.service.logs()
    expect(stdout + stderr).not.toContain("sk-canary")
    if (store === "the embedded store") {
      const workspace = join(runtime.service.env["DATA_DIR"] ?? "", "workspaces/mine")
      expect(await readFile(join(workspace, ".env"), "utf8")).toContain("ANTHROPIC_SECRETIVE_2_API_KEY=sk-canary-2\n")
      expect((await stat(join(workspace, ".env"))).mode & 0o777).toBe(0o600)
    }
    await back()
  })

  test("POST /api/agents/custom/create: 400 for fields that are missing or wrong, without the key that was sent", async () => {
    const apiKey = "sk-canary-3"
    const llm = { provider: "openai", model: "gpt-6.1-terra", apiKey }
    for (const [fields, path] of [
      [{ id: "Bad Id" }, ["id"]],
      [{ id: undefined }, ["id"]],
      [{ name: "" }, ["name"]],
      [{ description: "two\nlines" }, ["description"]],
      [{ systemPrompt: undefined }, ["systemPrompt"]],
      [{ systemPrompt: "" }, ["systemPrompt"]],
      [{ llm: undefined }, ["llm"]],
      [{ llm: { ...llm, provider: undefined } }, ["llm", "provider"]],
      [{ llm: { ...llm, model: 1 } }, ["llm", "model"]],
      [{ llm: { ...llm, apiKey: [apiKey] } }, ["llm", "apiKey"]],
      [{ tags: [""] }, ["tags", "0"]]
    ] as const) {
      const reply = await mine("POST", "/api/agents/custom/create", draft("wrong", { llm, ...fields }))
      expect([fields, ...answer(reply)]).toEqual([fields, 400, issue("schema_validation", path)])
      expect(reply.text).not.toContain("sk-canary")
    }
    const refused = async (fields: object) =>
      answer(await mine("POST", "/api/agents/custom/create", draft("wrong", fields)))
    expect(await refused({ id: "default-agent" })).toEqual([400, issue("agent_validation_error", ["id"])])
    expect(await refused({ llm: { ...llm, provider: "nobody" } })).toEqual([
      400,
      issue("unknown_provider", ["llm", "provider"])
    ])
    expect(await refused({ llm: { ...llm, model: "nothing" } })).toEqual([
      400,
      issue("agent_invalid_config", ["llm", "model"])
    ])
    for (const unfit of ["sk-canary\nX=1", "two words", "  ", "é", "k".repeat(4_097)]) {
      expect([unfit, ...(await refused({ llm: { ...llm, apiKey: unfit } }))]).toEqual([
        unfit,
        400,
        issue("agent_validation_error", ["llm", "apiKey"])
      ])
    }
    const { stderr, stdout } = runtime.service.logs()
    expect(stdout + stderr).not.toContain("sk-canary")
    expect((await mine("GET", "/api/agents")).text).not.toContain('"wrong"')
  })

  test("POST /api/agents/custom/create: 409 for one of two at the same time", async () => {
    const statuses = await collided((round) =>
      ["a", "b"].map((name) => mine("POST", "/api/agents/custom/create", draft(`both-${round}-${name}`)))
    )
    expect(new Set(statuses)).toEqual(new Set([201, 409]))
  })
})

/** An agent that cannot start: its MCP server ends at once. */
const strict = `systemPrompt: Help.
mcpServers:
  gone:
    type: stdio
    command: "false"
    connectionMode: strict
llm:
  provider: service
  model: echo
`

/** What a client does that was told of a conflict. */
const retried = async (send: () => Promise<Reply>): Promise<void> => {
  let reply = await send()
  while (reply.status === 409) reply = await send()
  expect(reply.status).toBe(201)
}

describe("preferences", () => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime()
  }, 120_000)
  afterAll(() => runtime.service.remove())

  test("of a workspace are those of the agents that are installed, unless the caller says otherwise", async () => {
    const { mine, service } = runtime
    await mine("GET", "/api/agents")
    const workspace = join(service.env["DATA_DIR"] ?? "", "workspaces/mine")
    const preferences = "llm:\n  provider: anthropic\n  model: claude-sonnet-5-5\n  apiKey: $ANTHROPIC_API_KEY\n"
    await writeFile(join(workspace, "preferences.yml"), preferences)
    expect((await mine("POST", "/api/agents/install", { id: "coding-agent" })).status).toBe(201)
    const kept = { id: "writing-agent", injectPreferences: false }
    expect((await mine("POST", "/api/agents/install", kept)).status).toBe(201)
    const fileOf = (id: string) => readFile(join(workspace, `agents/${id}/${id}.yml`), "utf8")
    expect(await fileOf("coding-agent")).toMatch(
      /llm:\n {2}provider: anthropic\n {2}model: claude-sonnet-5-5\n {2}maxIterations: 50\n {2}apiKey: \$ANTHROPIC_API_KEY\n/u
    )
    expect(await fileOf("writing-agent")).toContain("  provider: service\n")
    await writeFile(join(workspace, "preferences.yml"), "llm: { provider: openai }\n")
    expect(answer(await mine("POST", "/api/agents/install", { id: "research-agent" }))).toEqual([
      400,
      issue("agent_validation_error", ["injectPreferences"])
    ])
  })

  test("are kept on every workspace by itself", async () => {
    const { keys, service } = runtime
    const foreign = apiOf(service.baseUrl, keys.foreign)
    expect((await foreign("POST", "/api/agents/install", { id: "research-agent" })).status).toBe(201)
  })
})

describe("on Postgres without SECRETS_KEY", () => {
  let runtime: RuntimeService
  beforeAll(async () => {
    const [, postgres] = stores
    const options = (await postgres?.options()) ?? expect.fail("no Postgres")
    runtime = await startRuntime({ ...options, env: { SECRETS_KEY: "" } })
  }, 120_000)
  afterAll(() => runtime.service.remove())

  test("a key is refused in words that help, an agent without one is created", async () => {
    const { mine } = runtime
    const llm = { provider: "openai", model: "gpt-6.1-terra", apiKey: "sk-canary" }
    const refused = await mine("POST", "/api/agents/custom/create", draft("keyed", { llm }))
    expect(answer(refused)).toEqual([400, issue("agent_validation_error", ["llm", "apiKey"])])
    expect(refused.text).toContain("SECRETS_KEY")
    expect(refused.text).not.toContain("sk-canary")
    expect((await mine("POST", "/api/agents/custom/create", draft("keyed"))).status).toBe(201)
  })
})
