import { Result, Schema } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { ChatRequest } from "../../../src/domain/completion/ChatRequest.ts"
import { requestIssues } from "../../../src/domain/completion/RequestIssues.ts"
import { brokenRequests, chatRequests, fieldNames } from "./ChatRequests.ts"
import { type Json, type JsonObject, render, write } from "./Rules.ts"

const decode = Schema.decodeUnknownResult(ChatRequest, { onExcessProperty: "error", errors: "all" })

/** The value as it comes out of a body. */
const parsed = (value: Json): unknown => JSON.parse(write(value))

const issuesOf = (value: Json) => {
  const body = parsed(value)
  const result = decode(body)
  return Result.isSuccess(result) ? [] : requestIssues(result.failure, body)
}

const minimal = { model: "m", messages: [{ role: "user", content: "Hi" }] } satisfies JsonObject

describe("a chat request", () => {
  test("has the fields of the contract and no others", () => {
    expect(Object.keys(ChatRequest.fields).toSorted()).toEqual(fieldNames.toSorted())
  })

  test("is accepted, and comes out as it came in, whenever the contract allows it", () => {
    fc.assert(
      fc.property(chatRequests, (request) => {
        const body = parsed(request)
        expect(issuesOf(request)).toEqual([])
        const { success } = Result.getOrThrowWith(
          Result.map(decode(body), (success) => ({ success })),
          String
        )
        expect(keysInOrder(success)).toBe(keysInOrder(body))
      }),
      { numRuns: 500 }
    )
  })

  test("is refused for any one field that is wrong, which the error names and no other", () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(chatRequests, (request) => {
        for (const { path, value, wrong } of brokenRequests(request)) {
          const paths = new Set(issuesOf(value).map((issue) => issue.path))
          expect({ wrong, value, paths: [...paths] }).toEqual({ wrong, value, paths: [render(path)] })
          seen.add(`${path.filter((key) => typeof key === "string").join(".")}: ${wrong}`)
        }
      }),
      { numRuns: 120 }
    )
    // Fewer would mean that the generator has gone blind on a part of the contract.
    expect(seen.size).toBeGreaterThan(200)
  })

  test.each([
    ["a body that is no object", [minimal], ""],
    ["no field at all", {}, "model"],
    ["a message that is null", { ...minimal, messages: [null] }, "messages[0]"],
    ["a format that is text", { ...minimal, response_format: "json_object" }, "response_format"]
  ])("names the place of %s", (_, body, path) => {
    expect(issuesOf(body)[0]?.path).toBe(path)
  })

  test("says which kinds there are", () => {
    expect(issuesOf({ ...minimal, messages: [{ role: "robot", content: "Hi" }] })).toEqual([
      { path: "messages[0].role", message: `Expected "system" | "developer" | "user" | "assistant" | "tool"` }
    ])
    expect(issuesOf({ ...minimal, tool_choice: { type: "tool", function: { name: "a" } } })).toEqual([
      { path: "tool_choice.type", message: `Expected "function"` }
    ])
  })

  test("tells all that is wrong, but not more than a caller can read", () => {
    const wrong = { model: "", messages: [], temperature: "hot", tools: {}, extra: 1 }
    expect(new Set(issuesOf(wrong).map(({ path }) => path))).toEqual(new Set(Object.keys(wrong)))
    const endless = { ...minimal, messages: Array.from({ length: 1_000 }, () => 7) }
    expect(issuesOf(endless)).toHaveLength(20)
  })

  test("is not an object with powers when its fields have the names of what objects inherit", () => {
    const body = JSON.parse(
      `{"model":"m","messages":[{"role":"user","content":"Hi"}],"reasoning":{"__proto__":{"effort":"high"}}}`
    )
    const { reasoning } = Result.getOrThrowWith(decode(body), String)
    expect(Object.keys(reasoning ?? {})).toEqual(["__proto__"])
    expect(reasoning?.["effort"]).toBeUndefined()
    expect(issuesOf(JSON.parse(`{"__proto__":{},"model":"m","messages":[{"role":"user","content":"Hi"}]}`))).toEqual([
      { path: "__proto__", message: "Expected no excess property" }
    ])
  })
})

/** JSON text that does not depend on the order of keys. */
const keysInOrder = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner
  )
