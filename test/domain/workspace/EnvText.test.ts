import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { parseEnv, setEnv } from "../../../src/domain/workspace/EnvText.ts"

const parsed = (text: string) => Object.fromEntries(parseEnv(text))

/** Characters that some reader or other takes for something else, and a few that none does. */
const value = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(..."'\"`#\\$ =:nr{}\t!;&|", "\u00a0", "\ufeff", "ü", "🔑", "\u0001") },
      { weight: 1, arbitrary: fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 3 }) }
    ),
    { maxLength: 12 }
  )
  .map((parts) => parts.join(""))

const name = fc.constantFrom("A_API_KEY", "B_TOKEN", "C_BASE_URL")

/** Lines as people write them, also such as nobody can read. */
const line = fc.oneof(
  fc.constantFrom(
    "",
    "# a comment",
    "  # OTHER=commented",
    "OTHER=1",
    "export SHELL_NAME = 'x' # why",
    "no assignment",
    'BROKEN="no end',
    "YAML: like",
    "A_API_KEY=old # keep me",
    "export B_TOKEN='old'",
    'C_BASE_URL="old # in quotes"',
    "A_API_KEY=`again`"
  ),
  fc.string({ unit: "grapheme-ascii", maxLength: 20 }).map((text) => text.replaceAll(/[\r\n'"`]/g, ""))
)

/** What the npm package `dotenv` reads, by its documentation: as a reader that was written apart from ours. */
const asDotenv = (text: string): Record<string, string> => {
  const found: Record<string, string> = {}
  const pattern =
    /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$/gm
  for (const [, key = "", raw = ""] of text.replaceAll(/\r\n?/g, "\n").matchAll(pattern)) {
    const trimmed = raw.trim()
    const inside = trimmed.replace(/^(['"`])([\s\S]*)\1$/, "$2")
    found[key] = trimmed.startsWith('"') ? inside.replaceAll("\\n", "\n").replaceAll("\\r", "\r") : inside
  }
  return found
}

describe("the text of .env", () => {
  test.each([
    ["", {}],
    ["A=1\nB=2", { A: "1", B: "2" }],
    ["A=1\r\nB=2\r\n", { A: "1", B: "2" }],
    ["A = spaces around \n  export B=1", { A: "spaces around", B: "1" }],
    ["A=1 # comment\n# B=2\nC=x#y", { A: "1", C: "x" }],
    [`A='it # is' # comment\nB="two words"\nC=\`a'b"c\``, { A: "it # is", B: "two words", C: `a'b"c` }],
    ['A="two\nlines"\nB=\'also\\ntwo\'\nC="also\\ntwo"', { A: "two\nlines", B: "also\\ntwo", C: "also\ntwo" }],
    ["A=\nB=''\nC=1", { A: "", B: "", C: "1" }],
    ["A=1\nA=2", { A: "2" }],
    ["A: 1\nB:1\nC.D-E=1", { A: "1", "C.D-E": "1" }],
    ['A="no end\nB=1', { A: '"no end', B: "1" }],
    ['A="a" b\nB=1', { A: '"a" b', B: "1" }],
    ["A=$B ${C} a=b", { A: "$B ${C} a=b" }],
    [
      "__proto__=1\nconstructor=2",
      Object.fromEntries([
        ["__proto__", "1"],
        ["constructor", "2"]
      ])
    ]
  ])("%j", (text, expected) => {
    expect(parsed(text)).toEqual(expected)
    expect(Object.entries(asDotenv(text))).toEqual(Object.entries(expected).filter(([key]) => key !== "__proto__"))
  })

  test.each([
    ["", "A", "1", "A=1\n"],
    ["B=1", "A", "2", "B=1\nA=2\n"],
    ["B=1\r\n", "A", "2", "B=1\r\nA=2\r\n"],
    ["# top\nA=1 # why\n\nB=2\n", "A", "3", "# top\nA=3 # why\n\nB=2\n"],
    ["export A = 'x'\nB=2", "A", "y z", "export A = 'y z'\nB=2"],
    ['A="two\nlines" # why\nB=2', "A", "", "A='' # why\nB=2"],
    ["A=1\nB=2\nA=3\n", "A", "4", "B=2\nA=4\n"],
    ["A=1\n# c\nB=2\nA=3\n", "A", null, "# c\nB=2\n"],
    ["AA=1\nB=1\n", "A", null, "AA=1\nB=1\n"],
    ["A=1", "A", null, ""]
  ])("%j with %s set to %j", (text, key, value, expected) => {
    expect(setEnv(text, key, value)).toBe(expected)
  })

  test("gives back every value byte for byte, and leaves every other line", () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 8 }), name, value, value, (lines, key, first, second) => {
        const text = lines.join("\n")
        const before = parseEnv(text)
        const once = setEnv(text, key, first)
        const twice = setEnv(once, key, second)
        expect(parseEnv(once).get(key)).toBe(first)
        expect(parseEnv(twice).get(key)).toBe(second)
        const removed = setEnv(twice, key, null)
        expect(parseEnv(removed).has(key)).toBe(false)
        for (const [other, kept] of before) {
          if (other === key) continue
          for (const each of [once, twice, removed]) expect(parseEnv(each).get(other)).toBe(kept)
        }
        const others = lines.filter((each) => !new RegExp(`^\\s*(?:export\\s+)?${key}\\b`).test(each))
        for (const each of others) expect(once.split("\n")).toContain(each)
      }),
      { numRuns: 5_000 }
    )
  })

  test("is read the same by dotenv, unless no quotes can hold the value", () => {
    fc.assert(
      fc.property(value, value, (first, second) => {
        const text = setEnv(setEnv("# keys\n", "A_API_KEY", first), "B_TOKEN", second)
        const read = asDotenv(text)
        expect(Object.keys(read)).toEqual(["A_API_KEY", "B_TOKEN"])
        const marked = text.split("\n").filter((each) => each.endsWith(" # JSON"))
        for (const [key, expected] of [
          ["A_API_KEY", first],
          ["B_TOKEN", second]
        ] as const) {
          if (!marked.some((each) => each.startsWith(key))) expect(read[key]).toBe(expected)
        }
      }),
      { numRuns: 5_000 }
    )
  })

  test("a value that looks like our own mark is itself", () => {
    for (const odd of ['"a" # JSON', "'\"`#\\", "# JSON", '"\\u0041" # JSON', "'\"`# \\u0041"]) {
      expect(parsed(setEnv("", "A", odd))).toEqual({ A: odd })
    }
    expect(parsed('A="plain" # JSON by hand')).toEqual({ A: "plain" })
    expect(parsed('A="a\\nb" # JSON')).toEqual({ A: "a\nb" })
  })

  test("takes time in proportion to its length", () => {
    const started = performance.now()
    parseEnv("A='".repeat(20_000))
    parseEnv(`A=${"'\\".repeat(50_000)}`)
    expect(performance.now() - started).toBeLessThan(2_000)
  })
})
