import { OpenApi } from "effect/http-api"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { RuntimeApi } from "../../../src/adapters/http/runtime/RuntimeApi.ts"

/**
 * Every operation of the runtime that `/openapi.json` describes has a test of each status that is described there: one
 * whose title begins with method, path and status. What every route has in common is tested in Access.test.ts.
 */
const titles = async (): Promise<string> => {
  const names = (await readdir(import.meta.dirname)).filter((name) => name.endsWith(".test.ts"))
  return (await Promise.all(names.map((name) => readFile(join(import.meta.dirname, name), "utf8")))).join("\n")
}

const methods = ["get", "head", "post", "put", "patch", "delete"] as const

const operations = Object.entries(OpenApi.fromApi(RuntimeApi).paths).flatMap(([path, item]) =>
  methods.flatMap((method) => {
    const operation = item[method]
    return operation === undefined ? [] : [{ path, method: method.toUpperCase(), operation }]
  })
)

test("every documented status of every route has a test", async () => {
  const text = await titles()
  const untested = operations.flatMap(({ method, operation, path }) =>
    Object.keys(operation.responses)
      .map((status) => `${method} ${path}: ${status} `)
      .filter((title) => !text.includes(`"${title}`) && !text.includes(`\`${title}`))
  )
  expect(untested).toEqual([])
})

test("numbers of queries and bodies that may be absent are described as what they are", () => {
  const described = (path: string, method: string) =>
    operations.find((operation) => operation.path === path && operation.method === method)?.operation
  for (const path of ["/api/search/messages", "/api/memory"]) {
    const numbers = described(path, "GET")?.parameters.filter(({ name }) => name === "limit" || name === "offset")
    expect(numbers).toEqual([
      expect.objectContaining({
        schema: { type: "integer", minimum: 1, maximum: expect.any(Number), default: expect.any(Number) }
      }),
      expect.objectContaining({ schema: { type: "integer", minimum: 0, default: 0 } })
    ])
  }
  for (const path of ["/api/reset", "/api/sessions"]) {
    expect(described(path, "POST")?.requestBody).toMatchObject({ required: false })
  }
  expect(described("/api/message", "POST")?.requestBody).toMatchObject({ required: true })
})

test("every route has an operation id of its own and a summary", () => {
  expect(operations.length).toBeGreaterThan(30)
  const ids = operations.map(({ operation }) => operation.operationId)
  expect(new Set(ids).size).toBe(ids.length)
  expect(operations.filter(({ operation: { summary } }) => summary === undefined || summary === "")).toEqual([])
})
