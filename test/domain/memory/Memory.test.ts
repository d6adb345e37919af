import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import fc from "fast-check"
import { changed, contentsOf, isPinned, MemoryChanges, NewMemory, sourceOf } from "../../../src/domain/memory/Memory.ts"
import { codedIssuesOf } from "../../../src/domain/shared/CodedIssue.ts"

const decoded = Schema.decodeUnknownResult(NewMemory, { errors: "all" })
const decodedChanges = Schema.decodeUnknownResult(MemoryChanges, { errors: "all" })

/** `path code` of every mistake. */
const mistakesIn = (result: ReturnType<typeof decoded> | ReturnType<typeof decodedChanges>) =>
  Result.isSuccess(result)
    ? []
    : codedIssuesOf(result.failure).map(({ code, path }) => `${path.map(String).join(".")} ${code}`)

const made = (input: unknown) => Result.getOrThrow(decoded(input))

describe("a new memory", () => {
  it("takes content of 1 to 10,000 characters, however many code units they are", () => {
    for (const content of ["a", " ", "🍵", "x".repeat(10_000), "🍵".repeat(10_000)]) {
      assert.strictEqual(made({ content }).content, content)
    }
    assert.deepStrictEqual(mistakesIn(decoded({ content: "" })), ["content too_small"])
    for (const content of ["x".repeat(10_001), "🍵".repeat(10_001)]) {
      assert.deepStrictEqual(mistakesIn(decoded({ content })), ["content too_big"])
    }
    assert.deepStrictEqual(mistakesIn(decoded({})), ["content missing_required"])
    assert.deepStrictEqual(mistakesIn(decoded({ content: 1 })), ["content invalid_type"])
  })

  it("takes ten tags of 1 to 50 characters, trimmed, each once", () => {
    const tags = (given: ReadonlyArray<string>) => made({ content: "x", tags: given }).tags
    assert.deepStrictEqual(tags([" b ", "a", "b", "\ta\n", "B"]), ["b", "a", "B"])
    assert.deepStrictEqual(tags(["🍵".repeat(50), `  ${"x".repeat(50)}  `]), ["🍵".repeat(50), "x".repeat(50)])
    const ten = Array.from({ length: 10 }, (_, index) => `t${index}`)
    assert.deepStrictEqual(tags([...ten, ...ten]), ten)
    const refused = (given: ReadonlyArray<unknown>) => mistakesIn(decoded({ content: "x", tags: given }))
    assert.deepStrictEqual(refused([...ten, "t10"]), ["tags too_big"])
    assert.deepStrictEqual(refused(["a", "", "  ", "x".repeat(51), 7]), [
      "tags.1 too_small",
      "tags.2 too_small",
      "tags.3 too_big",
      "tags.4 invalid_type"
    ])
  })

  it("keeps every field of its metadata, and knows two of them", () => {
    const metadata = { source: "system" as const, pinned: true, project: { name: "x", n: [1, null] }, none: null }
    assert.deepStrictEqual(made({ content: "x", metadata }).metadata, metadata)
    const refused = (given: unknown) => mistakesIn(decoded({ content: "x", metadata: given }))
    assert.deepStrictEqual(refused({ source: "me" }), ["metadata.source invalid_enum"])
    assert.deepStrictEqual(refused({ pinned: "true" }), ["metadata.pinned invalid_type"])
    assert.deepStrictEqual(refused({ pinned: null }), ["metadata.pinned invalid_type"])
    assert.deepStrictEqual(refused([]), ["metadata invalid_type"])
    assert.deepStrictEqual(refused({ a: "x".repeat(16_384) }), ["metadata invalid_value"])
    assert.deepStrictEqual(refused({ a: "x".repeat(16_384 - 8) }), [])
    assert.deepStrictEqual(refused({ a: "é".repeat(8_192) }), ["metadata invalid_value"])
    assert.deepStrictEqual([sourceOf({}), isPinned({}), sourceOf({ source: "system" })], ["user", false, "system"])
  })

  it("keeps `__proto__` in its metadata as data", () => {
    const metadata = made(JSON.parse('{"content": "x", "metadata": {"__proto__": {"pinned": true}}}')).metadata ?? {}
    assert.isTrue(Object.hasOwn(metadata, "__proto__"))
    assert.isFalse(isPinned(metadata))
    assert.strictEqual(Object.getPrototypeOf(metadata), Object.prototype)
  })

  it("has no tags and empty metadata when it is given none", () => {
    assert.deepStrictEqual(contentsOf(made({ content: "x" })), { content: "x", tags: [], metadata: {} })
  })
})

describe("a change of a memory", () => {
  const before = {
    content: "old",
    tags: ["a", "b"],
    metadata: { source: "user" as const, pinned: false, kept: { x: 1 } }
  }

  it("is of something", () => {
    assert.deepStrictEqual(mistakesIn(decodedChanges({})), [" invalid_value"])
    assert.deepStrictEqual(mistakesIn(decodedChanges({ other: 1 })), [" invalid_value"])
    for (const one of [{ content: "x" }, { tags: [] }, { metadata: {} }]) {
      assert.deepStrictEqual(mistakesIn(decodedChanges(one)), [])
    }
  })

  it("touches only what it names: tags are replaced, metadata is merged", () => {
    const after = (changes: unknown) => Result.getOrThrow(changed(before, Result.getOrThrow(decodedChanges(changes))))
    assert.deepStrictEqual(after({ content: "new" }), { ...before, content: "new" })
    assert.deepStrictEqual(after({ tags: ["c"] }), { ...before, tags: ["c"] })
    assert.deepStrictEqual(after({ tags: [] }), { ...before, tags: [] })
    assert.deepStrictEqual(after({ metadata: {} }), before)
    assert.deepStrictEqual(after({ metadata: { pinned: true, kept: null, more: [1] } }), {
      ...before,
      metadata: { source: "user", pinned: true, kept: null, more: [1] }
    })
  })

  it("has the fields of both metadata, the new ones over the old ones", () => {
    const record = fc.dictionary(
      fc.string().filter((key) => key !== "source" && key !== "pinned"),
      fc.jsonValue({ maxDepth: 2 }).map((value): Schema.Json => JSON.parse(JSON.stringify(value))),
      { maxKeys: 5 }
    )
    fc.assert(
      fc.property(record, record, (first, second) => {
        const merged = changed({ ...before, metadata: first }, { metadata: second })
        const { metadata } = Result.getOrThrow(merged)
        for (const key of new Set([...Object.keys(first), ...Object.keys(second)])) {
          assert.deepStrictEqual(metadata[key], Object.hasOwn(second, key) ? second[key] : first[key])
        }
        assert.strictEqual(Object.keys(metadata).length, new Set([...Object.keys(first), ...Object.keys(second)]).size)
      })
    )
  })

  it("does not let metadata grow without end", () => {
    const half = (name: string) => ({ [name]: "x".repeat(9_000) })
    const grown = changed({ ...before, metadata: half("a") }, { metadata: half("b") })
    assert.isTrue(Result.isFailure(grown) && grown.failure._tag === "MetadataTooLarge")
    assert.isTrue(Result.isSuccess(changed({ ...before, metadata: half("a") }, { metadata: half("a") })))
  })
})
