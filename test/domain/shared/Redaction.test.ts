import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { redact } from "../../../src/domain/shared/Redaction.ts"

describe("a vendor's words", () => {
  test("never hold the key, wherever it stands in them", () => {
    const key = fc
      .string({ unit: "grapheme-ascii", minLength: 8, maxLength: 40 })
      .filter((key) => !/redacted/.test(key))
    fc.assert(
      fc.property(fc.string(), key, fc.string(), (before, key, after) => {
        expect(redact(`${before}${key}${after}${key}`, key)).not.toContain(key)
      })
    )
  })

  test.each([
    "sk-proj-abcdefghijklmnop",
    "gsk_abcdefghijklmnop",
    "xai-abcdefghijklmnop",
    "Bearer abcdefghijklmnop",
    "Bearer eyJhbGciOi.J9.x_y-z"
  ])("hold no %s either, whose ever it is", (secret) => {
    expect(redact(`Incorrect API key "${secret}"`, undefined)).toBe(`Incorrect API key "[redacted]"`)
  })

  test("are cut to a length", () => {
    expect(redact("word ".repeat(1_000), "key", 50)).toHaveLength(51)
  })
})
