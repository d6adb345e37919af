import { Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type Reply, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

const id = /^[A-Za-z0-9_-]{21}$/u

/** Section 7.2. */
const validationError = (...issues: ReadonlyArray<readonly [path: string, code: string]>) => ({
  name: "ServiceValidationError",
  message: expect.stringMatching(/\S/u),
  issues: issues.map(([path, code]) => ({
    code,
    path: path === "" ? [] : path.split("."),
    message: expect.stringMatching(/\S/u),
    severity: "error"
  })),
  errorCount: issues.length,
  warningCount: 0
})

const notFound = (memory: string) => ({
  code: "memory_not_found",
  message: expect.stringContaining(memory),
  scope: "memory",
  type: "not_found",
  context: { id: memory }
})

const Memory = Schema.Struct({
  id: Schema.String,
  content: Schema.String,
  tags: Schema.Array(Schema.String),
  metadata: Schema.Record(Schema.String, Schema.Json),
  createdAt: Schema.Int,
  updatedAt: Schema.Int
})
type Memory = typeof Memory.Type

const strict = { onExcessProperty: "error" } as const
const one = Schema.decodeUnknownSync(Schema.Struct({ ok: Schema.Literal(true), memory: Memory }), strict)
const many = Schema.decodeUnknownSync(
  Schema.Struct({ ok: Schema.Literal(true), memories: Schema.Array(Memory), count: Schema.Int }),
  strict
)

/** Section 4.5 with 2.7, 7.2, 8 and decisions 8. */
describe.each(stores)("memories, on $store", ({ options }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime(await options())
  }, 120_000)
  afterAll(() => runtime.service.remove())

  const create = async (fields: Readonly<Record<string, unknown>> = {}): Promise<Memory> => {
    const made = await runtime.mine("POST", "/api/memory", { content: "likes tea", ...fields })
    expect(made.status).toBe(201)
    return one(made.body).memory
  }

  const listed = async (query: string) => {
    const { body, status } = await runtime.mine("GET", `/api/memory?${query}`)
    expect(status).toBe(200)
    const { count, memories } = many(body)
    expect(count).toBe(memories.length)
    return memories
  }

  const counted = async (query: string) => {
    const { body, status } = await runtime.mine("GET", `/api/memory/count?${query}`)
    expect(status).toBe(200)
    return body
  }

  const answers = ({ body, status }: Reply) => [status, body]

  test("POST /api/memory: 201 with an id, both times and what was given", async () => {
    const before = Date.now()
    const metadata = { source: "system", pinned: true, project: { name: "x", n: [1, null] } }
    const memory = await create({ content: " “tea” 🍵\n", tags: [" a ", "b", "a"], metadata, unknown: 1 })
    expect(memory).toEqual({
      id: expect.stringMatching(id),
      content: " “tea” 🍵\n",
      tags: ["a", "b"],
      metadata,
      createdAt: memory.updatedAt,
      updatedAt: expect.any(Number)
    })
    expect(Math.abs(memory.createdAt - before)).toBeLessThan(60_000)
    expect(await create()).toMatchObject({ tags: [], metadata: {} })
  })

  test("POST /api/memory: 201 at the bounds of content and tags", async () => {
    const content = "x".repeat(10_000)
    const tags = Array.from({ length: 10 }, (_, index) => `${index}`.padEnd(50, "x"))
    expect(await create({ content, tags })).toMatchObject({ content, tags })
    expect(await create({ content: "🍵".repeat(10_000) })).toMatchObject({ content: "🍵".repeat(10_000) })
  })

  test("POST /api/memory: 400 for every field out of its bounds, and nothing is stored", async () => {
    const { mine } = runtime
    const before = await counted("")
    const post = async (body: unknown) => answers(await mine("POST", "/api/memory", body))
    expect(await post({})).toEqual([400, validationError(["content", "missing_required"])])
    expect(await post({ content: "" })).toEqual([400, validationError(["content", "too_small"])])
    expect(await post({ content: "x".repeat(10_001) })).toEqual([400, validationError(["content", "too_big"])])
    expect(await post({ content: null })).toEqual([400, validationError(["content", "invalid_type"])])
    const eleven = Array.from({ length: 11 }, (_, index) => `t${index}`)
    expect(await post({ content: "x", tags: eleven })).toEqual([400, validationError(["tags", "too_big"])])
    expect(await post({ content: "x", tags: ["a", " ", "x".repeat(51)] })).toEqual([
      400,
      validationError(["tags.1", "too_small"], ["tags.2", "too_big"])
    ])
    expect(await post({ content: "x", tags: "a" })).toEqual([400, validationError(["tags", "invalid_type"])])
    expect(await post({ content: "", metadata: { source: "me", pinned: 1 } })).toEqual([
      400,
      validationError(
        ["content", "too_small"],
        ["metadata.source", "invalid_enum"],
        ["metadata.pinned", "invalid_type"]
      )
    ])
    expect(await post({ content: "x", metadata: { a: "x".repeat(20_000) } })).toEqual([
      400,
      validationError(["metadata", "invalid_value"])
    ])
    expect(await post({ content: "a\u0000" })).toEqual([400, validationError(["content", "invalid_value"])])
    expect(await post("{")).toEqual([400, validationError(["", "invalid_json"])])
    expect(await counted("")).toEqual(before)
  })

  test("POST /api/memory: 413 for more than 1 MiB", async () => {
    const body = JSON.stringify({ content: "x", more: "x".repeat(1024 * 1024) })
    expect(answers(await runtime.mine("POST", "/api/memory", body))).toEqual([413, validationError(["", "too_big"])])
  })

  test("POST /api/memory: 201 and `__proto__` stays data", async () => {
    const body = '{"content": "x", "metadata": {"__proto__": {"pinned": true}, "constructor": 1}}'
    const { status, text } = await runtime.mine("POST", "/api/memory", body)
    expect(status).toBe(201)
    expect(text).toContain('"__proto__":{"pinned":true}')
    const { memory } = one(JSON.parse(text))
    expect((await runtime.mine("GET", `/api/memory/${memory.id}`)).text).toContain('"__proto__":{"pinned":true}')
  })

  test("GET /api/memory/{id}: 200 with the memory", async () => {
    const memory = await create({ tags: ["t"], metadata: { a: 1 } })
    const { body, status } = await runtime.mine("GET", `/api/memory/${memory.id}`)
    expect([status, body]).toEqual([200, { ok: true, memory }])
  })

  test("GET /api/memory/{id}: 404 for another organization's memory, unknown ids and what can be none", async () => {
    const { foreign, mine } = runtime
    const memory = await create()
    expect(answers(await foreign("GET", `/api/memory/${memory.id}`))).toEqual([404, notFound(memory.id)])
    for (const unknown of ["x".repeat(21), "count2", "..", "a b", "x".repeat(500), "\u0000", "%"]) {
      const { body, status } = await mine("GET", `/api/memory/${encodeURIComponent(unknown)}`)
      expect([unknown, status]).toEqual([unknown, 404])
      if (unknown === "a b") expect(body).toEqual(notFound(unknown))
    }
  })

  test("PUT /api/memory/{id}: 200 and only what is given changes, at a later time", async () => {
    let memory = await create({ tags: ["a", "b"], metadata: { source: "user", pinned: false, kept: { x: 1 } } })
    const change = async (changes: Readonly<Record<string, unknown>>, expected: Partial<Memory>) => {
      const { body, status } = await runtime.mine("PUT", `/api/memory/${memory.id}`, changes)
      expect(status).toBe(200)
      const after = one(body).memory
      expect(after).toEqual({ ...memory, ...expected, updatedAt: after.updatedAt })
      expect(after.updatedAt).toBeGreaterThan(memory.updatedAt)
      expect((await runtime.mine("GET", `/api/memory/${memory.id}`)).body).toEqual({ ok: true, memory: after })
      memory = after
    }
    await change({ content: "likes coffee" }, { content: "likes coffee" })
    await change({ tags: [" c ", "c"], unknown: 1 }, { tags: ["c"] })
    await change({ metadata: { pinned: true } }, { metadata: { source: "user", pinned: true, kept: { x: 1 } } })
    await change(
      { metadata: { kept: null, more: [1] } },
      { metadata: { source: "user", pinned: true, kept: null, more: [1] } }
    )
    await change({ tags: [], metadata: {} }, { tags: [] })
    expect(await listed("tags=a,b,c")).not.toContainEqual(expect.objectContaining({ id: memory.id }))
  })

  test("PUT /api/memory/{id}: 200 for twenty changes at once, of which none is lost", async () => {
    const memory = await create()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        runtime.mine("PUT", `/api/memory/${memory.id}`, { metadata: { [`f${index}`]: index } })
      )
    )
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]))
    const after = one((await runtime.mine("GET", `/api/memory/${memory.id}`)).body).memory
    expect(Object.keys(after.metadata)).toHaveLength(20)
    expect(new Set(replies.map(({ body }) => one(body).memory.updatedAt)).size).toBe(20)
  })

  test("PUT /api/memory/{id}: 400 for nothing to change and fields out of their bounds", async () => {
    const memory = await create({ metadata: { a: "x".repeat(9_000) } })
    const put = async (body: unknown) => answers(await runtime.mine("PUT", `/api/memory/${memory.id}`, body))
    expect(await put({})).toEqual([400, validationError(["", "invalid_value"])])
    expect(await put({ unknown: 1 })).toEqual([400, validationError(["", "invalid_value"])])
    expect(await put({ content: "" })).toEqual([400, validationError(["content", "too_small"])])
    expect(await put({ content: "x".repeat(10_001) })).toEqual([400, validationError(["content", "too_big"])])
    expect(await put({ tags: [""] })).toEqual([400, validationError(["tags.0", "too_small"])])
    expect(await put({ tags: null })).toEqual([400, validationError(["tags", "invalid_type"])])
    expect(await put({ metadata: { source: null } })).toEqual([
      400,
      validationError(["metadata.source", "invalid_enum"])
    ])
    expect(await put({ metadata: { b: "x".repeat(9_000) } })).toEqual([400, validationError(["metadata", "too_big"])])
    expect((await runtime.mine("GET", `/api/memory/${memory.id}`)).body).toEqual({ ok: true, memory })
  })

  test("PUT /api/memory/{id}: 404 for another organization's memory and unknown ids", async () => {
    const { foreign, mine } = runtime
    const memory = await create()
    const changes = { content: "stolen" }
    expect(answers(await foreign("PUT", `/api/memory/${memory.id}`, changes))).toEqual([404, notFound(memory.id)])
    expect(answers(await mine("PUT", "/api/memory/none", changes))).toEqual([404, notFound("none")])
    expect((await mine("GET", `/api/memory/${memory.id}`)).body).toEqual({ ok: true, memory })
  })

  test("PUT /api/memory/{id}: 413 for more than 1 MiB", async () => {
    const memory = await create()
    const body = JSON.stringify({ content: "x".repeat(1024 * 1024) })
    const reply = await runtime.mine("PUT", `/api/memory/${memory.id}`, body)
    expect(answers(reply)).toEqual([413, validationError(["", "too_big"])])
  })

  test("DELETE /api/memory/{id}: 200 and the memory is gone for good", async () => {
    const { mine } = runtime
    const memory = await create({ tags: ["deleted"] })
    const { body, status } = await mine("DELETE", `/api/memory/${memory.id}`)
    expect([status, body]).toEqual([200, { ok: true, message: expect.stringMatching(/\S/u) }])
    expect((await mine("GET", `/api/memory/${memory.id}`)).status).toBe(404)
    expect(await listed("tags=deleted")).toEqual([])
  })

  test("DELETE /api/memory/{id}: 404 for another organization's memory, unknown ids and the second time", async () => {
    const { foreign, mine } = runtime
    const memory = await create()
    expect(answers(await foreign("DELETE", `/api/memory/${memory.id}`))).toEqual([404, notFound(memory.id)])
    expect((await mine("DELETE", `/api/memory/${memory.id}`)).status).toBe(200)
    expect(answers(await mine("DELETE", `/api/memory/${memory.id}`))).toEqual([404, notFound(memory.id)])
    expect(answers(await mine("DELETE", "/api/memory/none"))).toEqual([404, notFound("none")])
  })

  test("GET /api/memory: 200 with the last changed first, in pages", async () => {
    const { mine } = runtime
    const made: Array<Memory> = []
    for (let index = 0; index < 5; index++) made.push(await create({ content: `${index}`, tags: ["paged"] }))
    const [first] = made
    await mine("PUT", `/api/memory/${first?.id}`, { content: "changed" })
    const contents = async (query: string) => (await listed(`tags=paged&${query}`)).map(({ content }) => content)
    const all = await listed("tags=paged")
    expect(all[0]?.content).toBe("changed")
    expect(all).toEqual(all.toSorted((a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? -1 : 1)))
    const order = all.map(({ content }) => content)
    expect(order.toSorted()).toEqual(["1", "2", "3", "4", "changed"])
    expect(await contents("limit=2")).toEqual(order.slice(0, 2))
    expect(await contents("limit=2&offset=3")).toEqual(order.slice(3))
    expect(await contents("offset=4")).toEqual(order.slice(4))
    expect(await contents("limit=1000&offset=9007199254740991")).toEqual([])
  })

  test("GET /api/memory: 200 with 100 memories when no limit is given, and as many as it says", async () => {
    await Promise.all(Array.from({ length: 105 }, () => create({ tags: ["hundred"] })))
    expect(await listed("tags=hundred")).toHaveLength(100)
    expect(await listed("tags=hundred&limit=1000")).toHaveLength(105)
    expect(await counted("tags=hundred")).toEqual({ ok: true, count: 105 })
  })

  test("GET /api/memory: 200 with those that all filters let through; any tag suffices", async () => {
    const both = { tags: ["x1", "x2"], metadata: { source: "system", pinned: true } }
    const a = (await create(both)).id
    const b = (await create({ tags: ["x1"], metadata: { pinned: true } })).id
    const c = (await create({ tags: ["x2"], metadata: { source: "user", pinned: false } })).id
    const d = (await create({ tags: ["x2", "100%"], metadata: { source: "system" } })).id
    const ids = async (query: string) => (await listed(query)).map((memory) => memory.id).toSorted()
    const check = async (query: string, expected: ReadonlyArray<string>) => {
      expect([query, await ids(query)]).toEqual([query, expected.toSorted()])
      expect(await counted(query)).toEqual({ ok: true, count: expected.length })
    }
    await check("tags=x1", [a, b])
    await check("tags=x1,x2", [a, b, c, d])
    await check("tags=%20x1%20,,x1", [a, b])
    await check("tags=x1,x2&source=system", [a, d])
    await check("tags=x1,x2&source=user", [b, c])
    await check("tags=x1,x2&pinned=true", [a, b])
    await check("tags=x1,x2&pinned=false", [c, d])
    await check("tags=x1,x2&source=system&pinned=true", [a])
    await check("tags=x1,x2&source=user&pinned=false", [c])
    await check("tags=100%25", [d])
    await check("tags=%25,_,X1", [])
    expect(await ids("source=system&pinned=true&limit=1000")).toContain(a)
    expect(await ids("source=system&pinned=true&limit=1000")).not.toContain(b)
  })

  test("GET /api/memory: 400 for every filter and bound that is none", async () => {
    const wrong = [
      ["limit=0", "limit", "too_small"],
      ["limit=-1", "limit", "too_small"],
      ["limit=1001", "limit", "too_big"],
      ["limit=ten", "limit", "invalid_type"],
      ["limit=", "limit", "invalid_type"],
      ["limit=1.5", "limit", "invalid_type"],
      ["offset=-1", "offset", "too_small"],
      ["offset=NaN", "offset", "invalid_type"],
      ["source=me", "source", "invalid_enum"],
      ["pinned=yes", "pinned", "invalid_enum"],
      [`tags=${Array.from({ length: 51 }, (_, index) => index).join(",")}`, "tags", "invalid_value"]
    ] as const
    for (const [query, path, code] of wrong) {
      const { body, status } = await runtime.mine("GET", `/api/memory?${query}`)
      expect([query, status]).toEqual([query, 400])
      expect(body).toMatchObject({ name: "ServiceValidationError", issues: [{ path: [path] }], errorCount: 1 })
      if (code !== "invalid_type") expect(body).toEqual(validationError([path, code]))
    }
  })

  test("GET /api/memory/count: 200 with all of the workspace and none of others", async () => {
    const { foreign } = runtime
    const before = await counted("")
    await foreign("POST", "/api/memory", { content: "foreign" })
    expect(await counted("")).toEqual(before)
    expect((await foreign("GET", "/api/memory/count")).body).toEqual({ ok: true, count: 1 })
    expect(many((await foreign("GET", "/api/memory")).body).memories).toMatchObject([{ content: "foreign" }])
  })

  test("GET /api/memory/count: 400 for filters that are none", async () => {
    const wrong = await runtime.mine("GET", "/api/memory/count?source=me")
    expect(answers(wrong)).toEqual([400, validationError(["source", "invalid_enum"])])
    expect((await runtime.mine("GET", "/api/memory/count?pinned=maybe")).status).toBe(400)
  })

  test("survive a crash of the service", async () => {
    const memory = await create({ tags: ["crash"] })
    await runtime.service.kill()
    await runtime.service.start()
    expect(await listed("tags=crash")).toEqual([memory])
  })
})
