import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { folded, foundIn } from "../../../src/domain/search/Phrase.ts"

/** Texts with the characters that fold unlike others, and with pairs. */
const texts = fc.string({
  unit: fc.oneof(
    fc.constantFrom("a", "A", "İ", "ı", "Σ", "ς", "σ", "ß", "ẞ", "K", "Ω", "ǅ", "😀", "𐐀", "e\u0301", " ", "%"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 })
  ),
  maxLength: 60
})

describe("a folded text", () => {
  it("has every character where it stood", () => {
    const moved: Array<string> = []
    for (let code = 0; code <= 0x10_ffff; code++) {
      const character = String.fromCodePoint(code)
      if (folded(character).length !== character.length) moved.push(character)
    }
    assert.deepStrictEqual(moved, [])
    fc.assert(
      fc.property(texts, texts, (one, other) => {
        assert.strictEqual(folded(one + other), folded(one) + folded(other))
      })
    )
  })

  it("is the same for every case", () => {
    fc.assert(fc.property(texts, (text) => assert.strictEqual(folded(folded(text)), folded(text))))
    assert.strictEqual(folded("ÄÖÜ ΟΔΟΣ ПРИВЕТ İSTANBUL"), folded("äöü οδος привет istanbul"))
  })
})

describe("a phrase in a text", () => {
  it("is given as it is written there, the exact one first", () => {
    assert.deepStrictEqual(foundIn("Deploy and deploy", "deploy"), {
      matchedText: "deploy",
      context: "Deploy and deploy"
    })
    assert.deepStrictEqual(foundIn("DEPLOY, Deploy", "deploy"), { matchedText: "DEPLOY", context: "DEPLOY, Deploy" })
    assert.strictEqual(foundIn("deplo", "deploy"), undefined)
    assert.deepStrictEqual(foundIn("100% (a|b)*", "(A|B)*"), { matchedText: "(a|b)*", context: "100% (a|b)*" })
  })

  it("stands among at most 50 characters on each side, no pair cut", () => {
    const found = foundIn(`${"😀".repeat(60)}needle${"ä".repeat(60)}`, "NEEDLE")
    assert.deepStrictEqual(found, {
      matchedText: "needle",
      context: `${"😀".repeat(50)}needle${"ä".repeat(50)}`
    })
    assert.strictEqual(foundIn(`${"a".repeat(50)}x${"b".repeat(50)}`, "x")?.context.length, 101)
  })

  it("is found wherever it was put, in any case", () => {
    fc.assert(
      fc.property(texts, texts, texts, (before, phrase, after) => {
        fc.pre(phrase !== "")
        for (const written of [phrase, folded(phrase)]) {
          const text = before + written + after
          const found = foundIn(text, phrase) ?? assert.fail("not found")
          assert.strictEqual(folded(found.matchedText), folded(phrase))
          assert.isTrue(text.includes(found.context) && found.context.includes(found.matchedText))
          assert.isAtMost([...found.context].length, [...found.matchedText].length + 100 + 2)
        }
      })
    )
  })
})
