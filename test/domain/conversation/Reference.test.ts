import { describe, expect, test } from "vitest"
import { referencesIn } from "../../../src/domain/conversation/Reference.ts"

describe("the resources that a message names", () => {
  test.each<[string, ReadonlyArray<ReadonlyArray<string>>]>([
    ["Read @fs:///srv/a.md now", [["fs:///srv/a.md"]]],
    ["@mcp:docs:file:///x?y=1#z and @blob:abc", [["mcp:docs:file:///x?y=1#z"], ["blob:abc"]]],
    ["See @fs:///srv/a.md.", [["fs:///srv/a.md", "fs:///srv/a.md."]]],
    [
      "(@fs:///a), \"@fs:///b\"; '@fs:///c'",
      [
        ["fs:///a", "fs:///a),"],
        ["fs:///b", 'fs:///b";'],
        ["fs:///c", "fs:///c'"]
      ]
    ],
    ["@<fs:///my notes.md>, please", [["fs:///my notes.md"]]],
    ["twice: @blob:abc @blob:abc", [["blob:abc"]]],
    ["line\n@blob:abc\nline", [["blob:abc"]]]
  ])("are found in %j", (text, found) => {
    expect(referencesIn(text)).toEqual(found)
  })

  test.each([
    "",
    "@word",
    "mail ann@fs:///srv and ann@blob:abc",
    "@http://example.com @file:///etc/passwd @fs:/x @fs://x/y @ fs:///x",
    "@mcp @blob @fs: @mcp:",
    "@<fs:///never closed"
  ])("are none in %j", (text) => {
    expect(referencesIn(text)).toEqual([])
  })

  test("are found in time in a text made to be slow", () => {
    for (const text of [
      "@fs:///".repeat(200_000),
      `@fs:///${")".repeat(1_000_000)}x`,
      "@<fs:///".repeat(200_000),
      "@".repeat(1_000_000)
    ]) {
      const start = performance.now()
      referencesIn(text)
      expect(performance.now() - start).toBeLessThan(2_000)
    }
  })
})
