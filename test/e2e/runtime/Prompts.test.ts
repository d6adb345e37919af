import { Schema } from "effect"
import { request } from "node:http"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { everything, prompting } from "../../fixtures/mcp/Servers.ts"
import { messageError, type Reply, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

const Prompt = Schema.Struct({
  name: Schema.String,
  title: Schema.optionalKey(Schema.String),
  description: Schema.String,
  arguments: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      description: Schema.optionalKey(Schema.String),
      required: Schema.optionalKey(Schema.Boolean)
    })
  ),
  source: Schema.Literals(["builtin", "starter", "custom", "mcp"])
})

const listOf = Schema.decodeUnknownSync(Schema.Struct({ prompts: Schema.Array(Prompt) }), { onExcessProperty: "error" })
const resolution = Schema.decodeUnknownSync(
  Schema.Struct({ text: Schema.String, resources: Schema.Array(Schema.String) }),
  { onExcessProperty: "error" }
)

const mebibyte = 1024 * 1024

/** Section 4.7 with 2.8, 7.2, 8 and decisions 8. */
describe.each(stores)("prompts, on $store", ({ options }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime({ ...(await options()), env: { MCP_STDIO: "allowed" } })
  }, 120_000)
  afterAll(() => runtime.service.remove())

  const answers = ({ body, status }: Reply) => [status, body]

  const create = async (fields: Readonly<Record<string, unknown>>) => {
    const made = await runtime.mine("POST", "/api/prompts/custom", { content: "Hello", ...fields })
    expect([made.status, made.body]).toEqual([201, expect.anything()])
    return made
  }

  const listed = async () => {
    const { body, status } = await runtime.mine("GET", "/api/prompts")
    expect(status).toBe(200)
    return listOf(body).prompts
  }

  const resolve = (name: string, query: Readonly<Record<string, string>> = {}) =>
    runtime.mine("GET", `/api/prompts/${encodeURIComponent(name)}/resolve?${new URLSearchParams(query).toString()}`)

  const textOf = async (name: string, query: Readonly<Record<string, string>> = {}) => {
    const { body, status } = await resolve(name, query)
    expect(status).toBe(200)
    return resolution(body).text
  }

  test("GET /api/prompts: 200 with the packaged prompts and the workspace's own", async () => {
    const { foreign } = runtime
    await create({ name: "listed", title: "Listed", description: "D" })
    const prompts = await listed()
    expect(prompts).toContainEqual({
      name: "listed",
      title: "Listed",
      description: "D",
      arguments: [],
      source: "custom"
    })
    expect(prompts.filter(({ source }) => source === "builtin").length).toBeGreaterThan(2)
    expect(new Set(prompts.map(({ name }) => name)).size).toBe(prompts.length)
    const others = listOf((await foreign("GET", "/api/prompts")).body).prompts
    expect(others.map(({ name }) => name)).not.toContain("listed")
    expect(others.filter(({ source }) => source === "custom")).toEqual([])
  })

  test("GET /api/prompts/{name}: 200 with the definition, of whatever source", async () => {
    for (const prompt of await listed()) {
      const { body, status } = await runtime.mine("GET", `/api/prompts/${encodeURIComponent(prompt.name)}`)
      expect([status, body]).toEqual([200, { definition: prompt }])
    }
  })

  test("GET /api/prompts/{name}: 404 for unknown names and another organization's prompt", async () => {
    const { foreign, mine } = runtime
    await create({ name: "private" })
    expect(answers(await foreign("GET", "/api/prompts/private"))).toEqual([404, messageError])
    for (const unknown of ["unknown", "A b", "\u0000", "%00", "x".repeat(90), "__proto__", "constructor"]) {
      const { body, status } = await mine("GET", `/api/prompts/${encodeURIComponent(unknown)}`)
      expect([unknown, status, body]).toEqual([unknown, 404, messageError])
    }
  })

  test("POST /api/prompts/custom: 201 with the prompt as it is listed", async () => {
    const { body } = await create({
      name: "review_this-1",
      title: "Review",
      description: "Reviews code.",
      content: "Review {{code}}",
      arguments: [{ name: "code", description: "The code", required: true }, { name: "focus" }],
      unknown: 1
    })
    const prompt = {
      name: "review_this-1",
      title: "Review",
      description: "Reviews code.",
      arguments: [
        { name: "code", description: "The code", required: true },
        { name: "focus", required: false }
      ],
      source: "custom"
    }
    expect(body).toEqual({ prompt })
    expect(await listed()).toContainEqual(prompt)
    expect((await create({ name: "x".repeat(64) })).body).toMatchObject({ prompt: { name: "x".repeat(64) } })
  })

  test("POST /api/prompts/custom: 400 when the name exists, of whatever source", async () => {
    const { foreign, mine } = runtime
    await create({ name: "taken", content: "first" })
    const again = await mine("POST", "/api/prompts/custom", { name: "taken", content: "second" })
    expect(answers(again)).toEqual([400, { error: expect.stringContaining('"taken"') }])
    expect(await textOf("taken")).toBe("first")
    for (const { name, source } of await listed()) {
      if (source === "custom" || !/^[a-z0-9][a-z0-9_-]*$/u.test(name)) continue
      const reply = await mine("POST", "/api/prompts/custom", { name, content: "mine" })
      expect([name, ...answers(reply)]).toEqual([name, 400, messageError])
    }
    expect((await foreign("POST", "/api/prompts/custom", { name: "taken", content: "theirs" })).status).toBe(201)
    expect(await textOf("taken")).toBe("first")
  })

  test("POST /api/prompts/custom: 400 for nine of ten of one name at once", async () => {
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        runtime.mine("POST", "/api/prompts/custom", {
          name: "race",
          content: `${index}`,
          resource: { base64: "cmFjZQ==", mimeType: "text/plain" }
        })
      )
    )
    const statuses = replies.map(({ status }) => status)
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, ...Array.from({ length: 9 }, () => 400)])
    const winner = replies.findIndex(({ status }) => status === 201)
    const { resources, text } = resolution((await resolve("race")).body)
    expect(text).toBe(`${winner}`)
    expect(resources).toHaveLength(1)
    const kept = await runtime.mine("HEAD", `/api/resources/${encodeURIComponent(resources[0] ?? "")}`)
    expect(kept.status).toBe(200)
  })

  test("POST /api/prompts/custom: 400 for fields that are wrong, naming them", async () => {
    const wrong: ReadonlyArray<readonly [Readonly<Record<string, unknown>>, string]> = [
      [{ content: "x" }, "name"],
      [{ name: "a" }, "content"],
      [{ name: "a", content: "" }, "content"],
      [{ name: "A", content: "x" }, "name"],
      [{ name: "", content: "x" }, "name"],
      [{ name: "-a", content: "x" }, "name"],
      [{ name: "x".repeat(65), content: "x" }, "name"],
      [{ name: "a", content: "x", title: 1 }, "title"],
      [{ name: "a", content: "x", arguments: [{}] }, "arguments.0.name"],
      [{ name: "a", content: "x", arguments: [{ name: "p" }, { name: "p" }] }, "arguments"],
      [{ name: "a", content: "x", arguments: [{ name: "p", required: "yes" }] }, "arguments.0.required"],
      [{ name: "a", content: "x", resource: { base64: "aGk", mimeType: "a/b" } }, "resource.base64"],
      [{ name: "a", content: "x", resource: { base64: "", mimeType: "a/b" } }, "resource.base64"],
      [{ name: "a", content: "x", resource: { base64: "aGk=" } }, "resource.mimeType"],
      [{ name: "a", content: "x", resource: { base64: "aGk=", mimeType: "nonsense" } }, "resource.mimeType"],
      [
        { name: "a", content: "x", resource: { base64: "aGk=", mimeType: "a/b", filename: "../x" } },
        "resource.filename"
      ],
      [{ name: "a", content: "x\u0000" }, "content"]
    ]
    for (const [body, field] of wrong) {
      const reply = await runtime.mine("POST", "/api/prompts/custom", body)
      expect([field, ...answers(reply)]).toEqual([field, 400, { error: expect.stringContaining(field) }])
    }
    expect((await listed()).map(({ name }) => name)).not.toContain("a")
  })

  test("POST /api/prompts/custom: 413 for more than 10 MB, with and without content-length", async () => {
    const bodyOf = (name: string, size: number) => {
      const [head, tail] = [`{"name":"${name}","content":"`, '"}']
      return `${head}${"x".repeat(size - head.length - tail.length)}${tail}`
    }
    const most = 10 * mebibyte
    expect((await runtime.mine("POST", "/api/prompts/custom", bodyOf("largest", most))).status).toBe(201)
    expect((await textOf("largest")).length).toBeGreaterThan(most - 100)
    const larger = await runtime.mine("POST", "/api/prompts/custom", bodyOf("larger", most + 1))
    expect(answers(larger)).toEqual([413, messageError])
    expect(await chunked(runtime, bodyOf("chunked", most))).toBe(201)
    expect(await chunked(runtime, bodyOf("larger", most + 1))).toBe(413)
    expect((await runtime.mine("GET", "/api/prompts/larger")).status).toBe(404)
  })

  test("GET /api/prompts/{name}/resolve: 200 with the arguments in their places", async () => {
    await create({
      name: "greet",
      content: "{{ greeting }} {{name}}, {{name}} of {{unknown}}{{mark}}",
      arguments: [{ name: "greeting", required: true }, { name: "name" }, { name: "mark" }]
    })
    const args = JSON.stringify({ greeting: "Hi {{name}} $&", name: "Ada", more: 1 })
    expect(await textOf("greet", { args })).toBe("Hi {{name}} $& Ada, Ada of {{unknown}}")
    expect(await textOf("greet", { args, context: "Be brief." })).toBe(
      "Hi {{name}} $& Ada, Ada of {{unknown}}\n\nBe brief."
    )
    const { body } = await resolve("greet", { args })
    expect(resolution(body).resources).toEqual([])
  })

  test("GET /api/prompts/{name}/resolve: 200 with context and arguments as a paragraph when nothing has their place", async () => {
    await create({ name: "plain", content: "Do it.", arguments: [{ name: "how" }] })
    expect(await textOf("plain")).toBe("Do it.")
    expect(await textOf("plain", { context: "", args: "{}" })).toBe("Do it.")
    expect(await textOf("plain", { context: "In the garden.", args: '{"how": "well", "times": 2}' })).toBe(
      "Do it.\n\nIn the garden.\nhow: well\ntimes: 2"
    )
    await create({ name: "placed", content: "Given {{context}}: {{what}}" })
    expect(await textOf("placed", { context: "rain", args: '{"what": "umbrella"}' })).toBe("Given rain: umbrella")
  })

  test("GET /api/prompts/{name}/resolve: 200 with the packaged prompts, whose places are all filled", async () => {
    for (const prompt of (await listed()).filter(({ source }) => source === "builtin")) {
      const args = Object.fromEntries(prompt.arguments.map(({ name }) => [name, `<${name}>`]))
      const text = await textOf(prompt.name, { args: JSON.stringify(args) })
      for (const { name } of prompt.arguments) expect(text).toContain(`<${name}>`)
      expect(text).not.toContain("{{")
    }
  })

  test("GET /api/prompts/{name}/resolve: 200 with the resource that the prompt was made with", async () => {
    const { foreign, mine } = runtime
    const resource = { base64: Buffer.from("some notes").toString("base64"), mimeType: "text/plain", filename: "n.txt" }
    await create({ name: "with-resource", resource })
    const { resources } = resolution((await resolve("with-resource")).body)
    expect(resources).toEqual([expect.stringMatching(/^blob:[0-9a-f]{64}$/u)])
    const path = `/api/resources/${encodeURIComponent(resources[0] ?? "")}`
    const content = await mine("GET", `${path}/content`)
    expect([content.status, content.body]).toMatchObject([
      200,
      { content: { contents: [{ uri: resources[0], mimeType: "text/plain", text: "some notes" }] } }
    ])
    expect((await foreign("GET", `${path}/content`)).status).toBe(404)
    expect((await mine("DELETE", "/api/prompts/custom/with-resource")).status).toBe(204)
    expect((await mine("HEAD", path)).status).toBe(404)
  })

  test("GET /api/prompts/{name}/resolve: 400 for a required argument that is missing, naming it", async () => {
    await create({
      name: "demanding",
      content: "{{a}}{{b}}",
      arguments: [{ name: "a", required: true }, { name: "b" }]
    })
    for (const query of [{}, { args: "{}" }, { args: '{"b": "x"}' }, { context: "a" }]) {
      expect(answers(await resolve("demanding", query))).toEqual([400, { error: expect.stringContaining('"a"') }])
    }
    expect(await textOf("demanding", { args: '{"a": ""}' })).toBe("")
  })

  test("GET /api/prompts/{name}/resolve: 400 for arguments that are no JSON object of plain values", async () => {
    await create({ name: "simple" })
    for (const args of ["", "{", "nonsense", "[]", "null", '"x"', "1", '{"a": {}}', '{"a": null}', '{"a": ["x"]}']) {
      const reply = await resolve("simple", { args })
      expect([args, ...answers(reply)]).toEqual([args, 400, { error: expect.stringContaining("args") }])
    }
  })

  test("GET /api/prompts/{name}/resolve: 404 for unknown names and another organization's prompt", async () => {
    await create({ name: "unresolved" })
    expect(answers(await resolve("unknown"))).toEqual([404, messageError])
    expect(answers(await runtime.foreign("GET", "/api/prompts/unresolved/resolve"))).toEqual([404, messageError])
  })

  test("GET /api/prompts/{name}/resolve: 200 with the prompts of a real MCP server, and 400 without their arguments", async () => {
    const added = await runtime.mine("POST", "/api/mcp/servers", { name: "everything", config: everything })
    expect(added.status).toBe(200)
    const offered = (await listed()).filter(({ source }) => source === "mcp")
    expect(offered.map(({ name }) => name)).toContain("everything--simple-prompt")
    expect(offered.find(({ name }) => name === "everything--args-prompt")?.arguments).toContainEqual(
      expect.objectContaining({ name: "city", required: true })
    )
    expect(await textOf("everything--simple-prompt")).toMatch(/\S/u)
    expect(await textOf("everything--args-prompt", { args: '{"city": "Oslo"}', context: "In winter." })).toMatch(
      /Oslo[\s\S]*\n\nIn winter\.$/u
    )
    expect(answers(await resolve("everything--args-prompt"))).toEqual([400, { error: expect.stringContaining("city") }])
    const withResource = await resolve("everything--resource-prompt", {
      args: '{"resourceType": "Text", "resourceId": "1"}'
    })
    expect(withResource.status).toBe(200)
    const { resources } = resolution(withResource.body)
    expect(resources).toEqual([expect.stringMatching(/^mcp:everything:./u)])
    const read = await runtime.mine("GET", `/api/resources/${encodeURIComponent(resources[0] ?? "")}/content`)
    expect(read.status).toBe(200)
    const others = listOf((await runtime.foreign("GET", "/api/prompts")).body).prompts
    expect(others.filter(({ source }) => source === "mcp")).toEqual([])
    expect((await runtime.foreign("GET", "/api/prompts/everything--simple-prompt")).status).toBe(404)
  })

  test("GET /api/prompts/{name}/resolve: 502 when the MCP server fails, 400 when it refuses, and the list stays", async () => {
    const added = await runtime.mine("POST", "/api/mcp/servers", { name: "prompting", config: prompting })
    expect(added.status).toBe(200)
    expect(await textOf("prompting--well")).toBe("Well.")
    expect(answers(await resolve("prompting--refuses"))).toEqual([400, messageError])
    expect(answers(await resolve("prompting--crashes"))).toEqual([502, messageError])
    expect((await listed()).filter(({ source }) => source === "builtin").length).toBeGreaterThan(2)
    expect((await runtime.mine("DELETE", "/api/mcp/servers/prompting")).status).toBe(200)
    expect((await runtime.mine("GET", "/api/prompts/prompting--well")).status).toBe(404)
  })

  test("GET /api/prompts: 200 with the starter prompts of the agent", async () => {
    const { mine } = runtime
    const before = Schema.decodeUnknownSync(Schema.Struct({ yaml: Schema.String }))(
      (await mine("GET", "/api/agent/config")).body
    )
    const starter = [
      "starterPrompts:",
      "  - id: First steps",
      "    title: First",
      "    description: Where to begin",
      "    prompt: Show {{who}} the first steps."
    ].join("\n")
    const without = before.yaml.replace(/^starterPrompts:\n(?:[ \t].*\n?|\n)*/mu, "")
    const saved = await mine("POST", "/api/agent/config", { yaml: `${without.trimEnd()}\n${starter}\n` })
    expect([saved.status, saved.body]).toMatchObject([200, { ok: true }])
    const definition = {
      name: "First steps",
      title: "First",
      description: "Where to begin",
      arguments: [],
      source: "starter"
    }
    expect(await listed()).toContainEqual(definition)
    expect((await mine("GET", "/api/prompts/First%20steps")).body).toEqual({ definition })
    expect(await textOf("First steps", { args: '{"who": "Ada"}' })).toBe("Show Ada the first steps.")
    expect((await mine("DELETE", "/api/prompts/custom/First%20steps")).status).toBe(400)
  })

  test("DELETE /api/prompts/custom/{name}: 204 with no content, and the name is free again", async () => {
    const { mine } = runtime
    await create({ name: "deleted", content: "first" })
    const { status, text } = await mine("DELETE", "/api/prompts/custom/deleted")
    expect([status, text]).toEqual([204, ""])
    expect((await mine("GET", "/api/prompts/deleted")).status).toBe(404)
    await create({ name: "deleted", content: "second" })
    expect(await textOf("deleted")).toBe("second")
  })

  test("DELETE /api/prompts/custom/{name}: 404 for unknown names, the second time and another organization's", async () => {
    const { foreign, mine } = runtime
    await create({ name: "kept" })
    expect(answers(await foreign("DELETE", "/api/prompts/custom/kept"))).toEqual([404, messageError])
    expect((await mine("DELETE", "/api/prompts/custom/kept")).status).toBe(204)
    expect(answers(await mine("DELETE", "/api/prompts/custom/kept"))).toEqual([404, messageError])
    for (const unknown of ["unknown", "%00", "A%20b"]) {
      expect(answers(await mine("DELETE", `/api/prompts/custom/${unknown}`))).toEqual([404, messageError])
    }
  })

  test("DELETE /api/prompts/custom/{name}: 400 for a prompt that is no custom one", async () => {
    const others = (await listed()).filter(({ source }) => source !== "custom")
    expect(others.length).toBeGreaterThan(0)
    for (const { name } of others) {
      const reply = await runtime.mine("DELETE", `/api/prompts/custom/${encodeURIComponent(name)}`)
      expect([name, ...answers(reply)]).toEqual([name, 400, messageError])
    }
  })
})

/** The status of a creation whose length its headers do not tell. */
const chunked = ({ keys, service }: RuntimeService, body: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const sent = request(`${service.baseUrl}/api/prompts/custom`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.mine}`, "transfer-encoding": "chunked" }
    })
    sent.on("error", reject).on("response", (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.end(body)
  })
