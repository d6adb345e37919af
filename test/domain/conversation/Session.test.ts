import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { titleOf } from "../../../src/domain/conversation/Session.ts"

describe("the title of a session that nobody named", () => {
  it("is the first words of its first message, on one line", () => {
    assert.strictEqual(titleOf("  Deploy\n\tthe   service "), "Deploy the service")
    assert.strictEqual(titleOf("x".repeat(60)), "x".repeat(60))
    assert.strictEqual(titleOf("x".repeat(61)), `${"x".repeat(59)}…`)
    assert.strictEqual(titleOf(`${"word ".repeat(20)}`), `${"word ".repeat(11).trim()} word`.slice(0, 54) + "…")
  })

  it("is none if the message says nothing", () => {
    for (const text of ["", "   ", "\n\t\u00a0"]) assert.strictEqual(titleOf(text), null)
  })

  it("is whole characters, at most 60 of them, whatever the message says", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("a", "word", " ", "\n", "\u00a0", "😀", "e\u0301", "\ud800", "…"), { maxLength: 150 }),
        (parts) => {
          const title = titleOf(parts.join(""))
          if (title === null) return
          assert.isTrue(title.isWellFormed())
          assert.isAtMost([...title].length, 60)
          assert.strictEqual(title.trim(), title)
        }
      )
    )
  })
})
