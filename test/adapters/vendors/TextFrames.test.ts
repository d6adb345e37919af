import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { TextFrames } from "../../../src/adapters/vendors/framing/TextFrames.ts"
import { openAiChat } from "../../../src/adapters/vendors/protocols/OpenAiChat.ts"

/** Few letters, so that a text is often found in other places of its frame too. */
const word = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "b", '"', "\\", "\n", "é", "{", ":", " "), maxLength: 4 }),
  fc.constantFrom("content", "choices", "a", '","content":"', "\ud800")
)

const spaced = (json: string) => json.replaceAll('":', '": ')

/** Chunks as vendors write them: some alike but for the text, some with more to say, some padded, some no JSON at all. */
const frame = (head: { readonly id: string; readonly model: string; readonly isSpaced: boolean }) =>
  fc
    .record({
      delta: fc.oneof(
        { weight: 5, arbitrary: fc.record({ content: word }) },
        fc.record({ content: word, role: fc.constant("assistant") }),
        fc.record({ content: fc.constant(null), refusal: word }),
        fc.constant({})
      ),
      rest: fc.oneof(
        { weight: 5, arbitrary: fc.constant({ usage: null }) },
        fc.record({ obfuscation: word }),
        fc.record({ service_tier: fc.constant("default") }),
        fc.record({ error: fc.record({ message: word }) })
      ),
      cut: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.nat({ max: 30 }))
    })
    .map(({ cut, delta, rest }) => {
      const { isSpaced, ...fields } = head
      const json = JSON.stringify({ ...fields, choices: [{ index: 0, delta, finish_reason: null }], ...rest })
      return (isSpaced ? spaced(json) : json).slice(0, json.length - cut)
    })

const frames = fc
  .record({ id: word, model: word, isSpaced: fc.boolean() })
  .chain((head) => fc.array(frame(head), { minLength: 2, maxLength: 12 }))

describe("frames of text", () => {
  test("are read after others as they are alone", () => {
    fc.assert(
      fc.property(frames, (all) => {
        const reader = openAiChat.reader()
        for (const one of all) expect(reader.read(one)).toEqual(openAiChat.reader().read(one))
      }),
      { numRuns: 2_000 }
    )
  })

  const textOf = (json: unknown) => (json as { readonly delta: { readonly content: string } }).delta.content
  const chunk = (text: string, id = "1") => JSON.stringify({ id, delta: { content: text }, usage: null })

  test("are read without parsing once one is known", () => {
    const texts = new TextFrames(textOf)
    expect(texts.read(chunk("one"))).toBeUndefined()
    texts.learn(chunk("one"), "one")
    expect(texts.read(chunk("two"))).toBe("two")
    expect(texts.read(chunk(""))).toBe("")
    expect(texts.read(chunk("two\n"))).toBeUndefined()
    expect(texts.read(chunk("two", "2"))).toBeUndefined()
  })

  test("are told from what ends before its text does", () => {
    const texts = new TextFrames(textOf)
    texts.learn(chunk("one"), "one")
    const cut = chunk("").replace('""', '"')
    for (const frame of [cut, "", '"', chunk("").slice(0, -1), chunk("").slice(1)]) {
      expect(texts.read(frame)).toBeUndefined()
    }
  })

  test("are told from what only looks like their text", () => {
    const texts = new TextFrames(textOf)
    const misleading = (text: string) => `{"delta":{"content":"${text}"},"note":{"content":"one"}}`
    texts.learn(misleading("one"), "one")
    expect(texts.read(misleading("two"))).toBeUndefined()
  })

  test("are learned a few times at most", () => {
    const texts = new TextFrames(textOf)
    for (const id of ["1", "2", "3", "4"]) texts.learn(chunk("one", id), "one")
    expect(texts.read(chunk("two", "3"))).toBe("two")
    expect(texts.read(chunk("two", "4"))).toBeUndefined()
  })
})
