import { assert, describe, it } from "@effect/vitest"
import { contextOf, cutOf } from "../../src/application/conversation/ModelContext.ts"
import type { Message } from "../../src/domain/conversation/Message.ts"

const said = (id: string, role: Message["role"], more: Partial<Message> = {}): Message => ({
  id,
  role,
  content: id,
  createdAt: 0,
  ...more
})

const summary = (of: string) => said(`up to ${of}`, "system", { summaryOf: of })

const idsOf = (history: ReadonlyArray<Message>) => contextOf(history).messages.map(({ id }) => id)

/** Two calls of tools in one turn. */
const turn = [
  said("question", "user"),
  said("call 1", "assistant"),
  said("result 1", "tool"),
  said("call 2", "assistant"),
  said("result 2", "tool")
]

describe("what a model is shown", () => {
  it("is all that was said, or what came after the last summary", () => {
    assert.deepStrictEqual(contextOf(turn), { summary: undefined, messages: turn })
    const earlier = [said("before", "user"), said("answer", "assistant")]
    assert.deepStrictEqual(contextOf([...earlier, ...turn, summary("before"), summary("answer")]), {
      summary: "up to answer",
      messages: turn
    })
  })

  it("is what came after the summary that reaches farthest, if one of less was made after it", () => {
    const context = contextOf([...turn, summary("result 1"), summary("question")])
    assert.strictEqual(context.summary, "up to result 1")
    assert.deepStrictEqual(
      context.messages.map(({ id }) => id),
      ["question", "call 2", "result 2"]
    )
  })

  it("has the question of a turn that is summarized in part", () => {
    const earlier = [said("before", "user"), said("answer", "assistant")]
    const refers = said("attached", "user", { name: "references" })
    const [question = refers, ...rest] = turn
    assert.deepStrictEqual(idsOf([...earlier, ...turn, summary("result 1")]), ["question", "call 2", "result 2"])
    assert.deepStrictEqual(idsOf([...earlier, question, refers, ...rest, summary("question")]), [
      "question",
      "attached",
      ...rest.map(({ id }) => id)
    ])
  })

  it("has of a long question its beginning and its end", () => {
    const content = `begin ${"x".repeat(100_000)} end`
    const image = { type: "image" as const, image: "blob:1", mimeType: "image/png" }
    const [long] = contextOf([said("q", "user", { content }), ...turn.slice(1), summary("result 1")]).messages
    const text = typeof long?.content === "string" ? long.content : ""
    assert.match(text, /^begin x+\n\[…\]\nx+ end$/)
    assert.isBelow(text.length, 10_000)
    const parts = said("q", "user", { content: [{ type: "text", text: content }, image] })
    const [shown] = contextOf([parts, ...turn.slice(1), summary("result 1")]).messages
    assert.deepStrictEqual(Array.isArray(shown?.content) && shown.content[1], image)
  })
})

describe("the cut through a context that is too long", () => {
  const cut = (messages: ReadonlyArray<Message>, most: number) =>
    cutOf(
      messages,
      messages.map(() => 10),
      most
    )

  it("is between turns where it can be", () => {
    assert.strictEqual(cut([...turn, said("answer", "assistant"), said("next", "user")], 20), 6)
    assert.strictEqual(cut([...turn, said("answer", "assistant"), ...turn], 60), 6)
  })

  it("leaves a result with its call", () => {
    assert.strictEqual(cut(turn, 10), 3)
    assert.strictEqual(cut(turn, 20), 3)
  })

  it("gains nothing from a question that stays, and is nowhere", () => {
    assert.strictEqual(cut(turn, 40), 0)
    assert.strictEqual(cut(turn.slice(0, 3), 10), 0)
    assert.strictEqual(cut(turn, 50), 0)
    assert.strictEqual(cut(turn.slice(0, 1), 0), 0)
    assert.strictEqual(cut([], 0), 0)
  })

  it("is behind a long question, of which less stays", () => {
    assert.strictEqual(cutOf(turn, [50_000, 10, 10, 10, 10], 40), 1)
  })
})
