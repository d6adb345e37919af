import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { parse } from "yaml"
import type { YamlEdit } from "../../../src/application/ports/files/AgentYaml.ts"
import { yaml } from "./Reader.ts"

const file = `# My agent
systemPrompt: |          # what it is
  Help people.

  Say so when you do not know.

# The model
llm:
  provider: openai       # or anthropic
  model: 'gpt-5-mini'
  apiKey: "$OPENAI_API_KEY"

mcpServers:
    files:
        type: stdio
        command: npx
        args: [ -y, "@scope/files" ]   # the newest
    # Two of them
    web: {type: http, url: "http://127.0.0.1:1"}

starterPrompts:
- id: first
  prompt: "Hello"
- {id: second, prompt: Bye}
# The end
`

const edited = (...edits: ReadonlyArray<YamlEdit>) => yaml.edit(file, edits)

/** The lines that are not as they were: those that went, and those that came. */
const changed = (before: string, after: string) => {
  const [old, now] = [before.split("\n"), after.split("\n")]
  while (old.length > 0 && old[0] === now[0]) [old, now].forEach((lines) => lines.shift())
  while (old.length > 0 && old.at(-1) === now.at(-1)) [old, now].forEach((lines) => lines.pop())
  return { gone: old, came: now }
}

describe("a value in place of another", () => {
  test.for<[YamlEdit["path"], unknown, ReadonlyArray<string>, ReadonlyArray<string>]>([
    [
      ["llm", "provider"],
      "anthropic",
      ["  provider: openai       # or anthropic"],
      ["  provider: anthropic       # or anthropic"]
    ],
    [["llm", "model"], "it's", ["  model: 'gpt-5-mini'"], ["  model: 'it''s'"]],
    [["llm", "apiKey"], "$OTHER", [`  apiKey: "$OPENAI_API_KEY"`], [`  apiKey: "$OTHER"`]],
    [
      ["mcpServers", "web", "url"],
      "http://x",
      [`    web: {type: http, url: "http://127.0.0.1:1"}`],
      [`    web: {type: http, url: "http://x"}`]
    ],
    [
      ["mcpServers", "files", "args", 0],
      "--yes",
      [`        args: [ -y, "@scope/files" ]   # the newest`],
      [`        args: [ --yes, "@scope/files" ]   # the newest`]
    ],
    [["starterPrompts", 1, "prompt"], "a, b", ["- {id: second, prompt: Bye}"], [`- {id: second, prompt: "a, b"}`]],
    [["starterPrompts", 0, "id"], "x", ["- id: first"], ["- id: x"]]
  ])("%j", ([path, value, gone, came]) => {
    expect(changed(file, edited({ path, value }))).toEqual({ gone, came })
  })

  test("of several lines: no others change", () => {
    const text = edited({ path: ["systemPrompt"], value: "One.\n\nTwo.\n" })
    expect(parse(text)).toMatchObject({ systemPrompt: "One.\n\nTwo.\n" })
    expect(text.slice(text.indexOf("# The model"))).toBe(file.slice(file.indexOf("# The model")))
    expect(text.startsWith("# My agent\n")).toBe(true)
  })

  test("that it has already: nothing changes", () => {
    expect(edited({ path: ["llm", "provider"], value: "openai" }, { path: ["greeting"], value: undefined })).toBe(file)
  })
})

describe("a key that was not there", () => {
  test("comes after the others of its map, indented as they are", () => {
    expect(changed(file, edited({ path: ["llm", "baseURL"], value: "http://127.0.0.1:1/v1" }))).toEqual({
      gone: [],
      came: ["  baseURL: http://127.0.0.1:1/v1"]
    })
    const server = { type: "stdio", command: "run", args: ["a b", "#c"] }
    expect(changed(file, edited({ path: ["mcpServers", "more"], value: server }))).toEqual({
      gone: [],
      came: ["    more:", "      type: stdio", "      command: run", "      args:", "        - a b", `        - "#c"`]
    })
  })

  test("at the top, before the comments at the end", () => {
    const { came, gone } = changed(file, edited({ path: ["greeting"], value: "Hi" }))
    expect([gone, came]).toEqual([[], ["greeting: Hi"]])
  })

  test("of a section that was not there", () => {
    expect(changed(file, edited({ path: ["sessions", "maxSessions"], value: 5 }))).toEqual({
      gone: [],
      came: ["sessions:", "  maxSessions: 5"]
    })
  })

  test("of a map in braces: the map is written anew, and nothing else", () => {
    const text = edited({ path: ["mcpServers", "web", "timeout"], value: 5 })
    expect(changed(file, text).gone).toEqual([`    web: {type: http, url: "http://127.0.0.1:1"}`])
    expect(parse(text)).toMatchObject({ mcpServers: { web: { type: "http", timeout: 5 } } })
  })

  test("after a last line without its break", () => {
    expect(yaml.edit("a: 1\nllm:\n  model: x", [{ path: ["llm", "provider"], value: "p" }])).toBe(
      "a: 1\nllm:\n  model: x\n  provider: p\n"
    )
  })
})

describe("a key that goes", () => {
  test("goes with the comment on its line, and no other", () => {
    expect(changed(file, edited({ path: ["llm", "provider"], value: undefined }))).toEqual({
      gone: ["  provider: openai       # or anthropic"],
      came: []
    })
    expect(changed(file, edited({ path: ["mcpServers", "files"], value: undefined })).gone).toHaveLength(4)
  })

  test("that is the only one of its map leaves it empty", () => {
    const text = yaml.edit("a: 1 # one\nllm:\n  model: x\n# end\n", [{ path: ["llm", "model"], value: undefined }])
    expect(text).toBe("a: 1 # one\nllm: {}\n# end\n")
  })
})

test("several edits, one after the other", () => {
  const text = edited(
    { path: ["llm", "provider"], value: "anthropic" },
    { path: ["llm", "model"], value: "claude" },
    { path: ["llm", "apiKey"], value: undefined },
    { path: ["llm", "router"], value: "in-built" }
  )
  expect(parse(text).llm).toEqual({ provider: "anthropic", model: "claude", router: "in-built" })
  expect(text).toContain("# or anthropic")
})

test("what an alias repeats is changed in one place only", () => {
  const text = "# shared\na: &a {x: 1, y: 2}\nb: *a # again\nc: 3 # last\n"
  const after = yaml.edit(text, [{ path: ["b", "x"], value: 5 }])
  expect(parse(after)).toEqual({ a: { x: 1, y: 2 }, b: { x: 5, y: 2 }, c: 3 })
  expect(after).toContain("a: &a {x: 1, y: 2}\n")
  expect(after).toContain("c: 3 # last\n")
  const without = yaml.edit(text, [{ path: ["a"], value: undefined }])
  expect(parse(without)).toEqual({ b: { x: 1, y: 2 }, c: 3 })
})

test("line breaks and the byte order mark of the file stay", () => {
  const windows = `\ufeff${file.replaceAll("\n", "\r\n")}`
  const text = yaml.edit(windows, [
    { path: ["llm", "model"], value: "m" },
    { path: ["mcpServers", "more"], value: { type: "http", url: "http://x" } }
  ])
  expect(text.startsWith("\ufeff# My agent\r\n")).toBe(true)
  expect(text.replaceAll("\r\n", "")).not.toContain("\n")
  expect(text).toContain("    more:\r\n      type: http\r\n")
})

describe("any edit of any document", () => {
  const leaf = fc.oneof(
    fc.string({ unit: "grapheme-ascii" }),
    fc.constantFrom(
      "",
      "true",
      "null",
      "1e3",
      "a: b",
      "# no",
      "- x",
      "{",
      "*a",
      "&b",
      "!t",
      "it's",
      '"',
      "\\",
      " x ",
      "a\nb",
      "a\n\n",
      "~",
      "=",
      "<<",
      "---"
    ),
    fc.integer({ min: -1e6, max: 1e6 }),
    fc.boolean()
  )
  const key = fc.oneof(
    fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9_-]{0,8}$/),
    fc.constantFrom("__proto__", "constructor", "a b", "1", "y", "#k", "null")
  )
  const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      leaf,
      fc.array(tie("tree"), { maxLength: 3 }),
      fc
        .uniqueArray(fc.tuple(key, tie("tree")), { maxLength: 4, selector: ([name]) => name })
        .map((pairs) => Object.fromEntries(pairs))
    )
  }))
  const document = fc
    .uniqueArray(fc.tuple(key, tree), { minLength: 1, maxLength: 5, selector: ([name]) => name })
    .map((pairs) => Object.fromEntries(pairs))

  /** Every place of a document, and one new key of every map. */
  const places = (
    value: unknown,
    path: ReadonlyArray<string | number>
  ): ReadonlyArray<ReadonlyArray<string | number>> => [
    ...(path.length === 0 ? [] : [path]),
    ...(Array.isArray(value)
      ? value.flatMap((item, at) => places(item, [...path, at]))
      : typeof value === "object" && value !== null
        ? [...Object.entries(value).flatMap(([name, inner]) => places(inner, [...path, name])), [...path, "brand-new"]]
        : [])
  ]

  test("says afterwards what it should, and keeps every comment outside of what it had to write anew", () => {
    fc.assert(
      fc.property(document, tree, fc.nat(), fc.boolean(), (data, value, pick, removes) => {
        // A comment before every top-level key.
        const text = Object.entries(data)
          .map(([name, inner], at) => `# comment ${at}\n${yaml.write(Object.fromEntries([[name, inner]]))}`)
          .join("")
        fc.pre(yaml.parse(text) !== undefined)
        const all = places(data, [])
        const path = all[pick % all.length] ?? []
        const after = yaml.edit(text, [{ path, value: removes ? undefined : value }])
        expect(yaml.parse(after)).toEqual(expected(data, path, removes ? undefined : value))
        const top = Object.keys(data).indexOf(String(path[0]))
        for (const at of Object.keys(data).keys()) {
          if (at !== top) expect(after).toContain(`# comment ${at}\n`)
        }
      }),
      { numRuns: 500 }
    )
  })

  const expected = (data: unknown, [segment, ...rest]: ReadonlyArray<string | number>, value: unknown): unknown => {
    if (segment === undefined) return value
    if (Array.isArray(data)) {
      const inner = expected(data[Number(segment)], rest, value)
      return data.toSpliced(Number(segment), 1, ...(inner === undefined ? [] : [inner]))
    }
    const entries = new Map(Object.entries(data ?? {}))
    const inner = expected(entries.get(String(segment)), rest, value)
    if (inner === undefined) entries.delete(String(segment))
    else entries.set(String(segment), inner)
    return Object.fromEntries(entries)
  }
})
