import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import fc from "fast-check"
import { builtinPrompts } from "../../../src/domain/prompt/BuiltinPrompts.ts"
import { NewPrompt, promptOf, PromptName } from "../../../src/domain/prompt/Prompt.ts"
import { ArgumentsFromJson, complete, resolved, valuesOf } from "../../../src/domain/prompt/Resolve.ts"
import { codedIssuesOf } from "../../../src/domain/shared/CodedIssue.ts"

const decoded = Schema.decodeUnknownResult(NewPrompt, { errors: "all" })

/** Where the mistakes of a prompt are that is right but for these fields. */
const mistakesOf = (fields: Readonly<Record<string, unknown>>) => {
  const result = decoded({ name: "a", content: "x", ...fields })
  return Result.isSuccess(result) ? [] : codedIssuesOf(result.failure).map(({ path }) => path.map(String).join("."))
}

describe("a new prompt", () => {
  it("has a name of lowercase letters, digits, _ and -", () => {
    for (const name of ["a", "0", "a_b-c", "x".repeat(64)]) assert.deepStrictEqual(mistakesOf({ name }), [])
    for (const name of ["", "A", "-a", "_a", "a b", "a/b", "ä", "a.", "x".repeat(65), "a\n", 1, null]) {
      assert.deepStrictEqual(mistakesOf({ name }), ["name"])
    }
  })

  it("has content, and arguments of different names that can stand in braces", () => {
    assert.deepStrictEqual(mistakesOf({ content: "" }), ["content"])
    assert.deepStrictEqual(mistakesOf({ arguments: [{ name: "a b" }, { name: "é" }, { name: "__proto__" }] }), [])
    for (const name of ["", " a", "a ", "{a", "a}", "a\nb", "x".repeat(65)]) {
      assert.deepStrictEqual(mistakesOf({ arguments: [{ name }] }), ["arguments.0.name"], name)
    }
    assert.deepStrictEqual(mistakesOf({ arguments: [{ name: "a" }, { name: "a" }] }), ["arguments"])
    assert.deepStrictEqual(mistakesOf({ arguments: [{ name: "a", required: "yes" }] }), ["arguments.0.required"])
    const many = Array.from({ length: 51 }, (_, index) => ({ name: `a${index}` }))
    assert.deepStrictEqual(mistakesOf({ arguments: many }), ["arguments"])
    assert.deepStrictEqual(mistakesOf({ arguments: many.slice(1) }), [])
  })

  it("takes a resource in strict base64", () => {
    const resource = (fields: Readonly<Record<string, unknown>>) =>
      mistakesOf({ resource: { base64: "aGk=", mimeType: "text/plain", ...fields } })
    assert.deepStrictEqual(resource({}), [])
    assert.deepStrictEqual(resource({ filename: "notes é.txt", mimeType: "text/plain; charset=utf-8" }), [])
    for (const base64 of ["", "aGk", "aGk=\n", "a Gk=", "aGk-", "====", "aG=k", "data:;base64,aGk="]) {
      assert.deepStrictEqual(resource({ base64 }), ["resource.base64"], base64)
    }
    for (const mimeType of ["", "text", "text/", "text/plain\r\nx: y", "/plain"]) {
      assert.deepStrictEqual(resource({ mimeType }), ["resource.mimeType"], mimeType)
    }
    for (const filename of ["", "a/b", "a\\b", "a\u0007", "x".repeat(256)]) {
      assert.deepStrictEqual(resource({ filename }), ["resource.filename"], filename)
    }
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1 }), (bytes) => {
        const base64 = Buffer.from(bytes).toString("base64")
        const prompt = Result.getOrThrow(decoded({ name: "a", content: "x", resource: { base64, mimeType: "a/b" } }))
        assert.deepStrictEqual([...(prompt.resource?.base64 ?? [])], [...bytes])
      })
    )
  })

  it("takes megabytes of base64 in a moment", () => {
    const base64 = Buffer.alloc(7_000_000, 1).toString("base64")
    const start = performance.now()
    assert.deepStrictEqual(mistakesOf({ resource: { base64, mimeType: "a/b" } }), [])
    assert.deepStrictEqual(mistakesOf({ resource: { base64: `${base64}*`, mimeType: "a/b" } }), ["resource.base64"])
    assert.isBelow(performance.now() - start, 5_000)
  })

  it("is listed as custom, its arguments not required unless it says so", () => {
    const given = {
      name: "a",
      content: "x",
      arguments: [
        { name: "p", required: true },
        { name: "q", description: "Q" }
      ]
    }
    assert.deepStrictEqual(promptOf(Result.getOrThrow(decoded(given))), {
      name: PromptName.make("a"),
      description: "",
      arguments: [
        { name: "p", required: true },
        { name: "q", description: "Q", required: false }
      ],
      source: "custom"
    })
  })
})

describe("a prompt's text", () => {
  const text = (
    source: string,
    values: Readonly<Record<string, string>> = {},
    context = "",
    declared: Array<string> = []
  ) =>
    resolved(
      source,
      declared.map((name) => ({ name })),
      new Map(Object.entries(values)),
      context
    )

  it("has the values in the places of the arguments, spaces inside the braces or not", () => {
    assert.strictEqual(text("{{a}} {{ a }}{{\ta\n}} {{b c}}", { a: "1", "b c": "2" }), "1 11 2")
  })

  it("does not read again what it put there", () => {
    assert.strictEqual(text("{{a}}{{b}}", { a: "{{b}}", b: "$& $1 {{a}}" }), "{{b}}$& $1 {{a}}")
  })

  it("keeps placeholders that nobody declared or gave, and has nothing for those only declared", () => {
    assert.strictEqual(text("{{x}} {{a}}.", {}, "", ["a"]), "{{x}} .")
    assert.strictEqual(
      text("{{toString}} {{__proto__}} {{}} {{ }} {a} {{{a}}}", { a: "1" }),
      "{{toString}} {{__proto__}} {{}} {{ }} {a} {1}"
    )
  })

  it("has the context and the arguments as a paragraph when it has no placeholder", () => {
    assert.strictEqual(text("Do it."), "Do it.")
    assert.strictEqual(text("Do it.", {}, "now"), "Do it.\n\nnow")
    assert.strictEqual(text("Do it.", { who: "me", how: "well" }, "now"), "Do it.\n\nnow\nwho: me\nhow: well")
    assert.strictEqual(text(" ", {}, "now"), "now")
  })

  it("has the context in its place, or as a paragraph", () => {
    assert.strictEqual(text("{{a}}: {{context}}!", { a: "1" }, "now"), "1: now!")
    assert.strictEqual(text("Say {{a}}.", { a: "1", b: "2" }, "now"), "Say 1.\n\nnow")
    assert.strictEqual(text("{{context}}", { context: "given" }, "now"), "given\n\nnow")
    assert.strictEqual(text("{{context}}"), "{{context}}")
  })

  it("is read in a moment, whatever its braces", () => {
    const start = performance.now()
    for (const part of ["{", "{{", "{{ ", "}}", "{{a", "{{}}"]) text(part.repeat(1_000_000), { a: "1" }, "now")
    assert.isBelow(performance.now() - start, 5_000)
  })

  it("has every value exactly where it belongs", () => {
    const name = fc.string({ minLength: 1, maxLength: 5 }).filter((one) => !/[{}]/.test(one) && one === one.trim())
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 5 }), fc.array(fc.string()), (names, texts) => {
        const values = new Map(names.map((one, index) => [one, texts[index] ?? ""]))
        const source = names.map((one) => `[{{${one}}}]`).join("")
        assert.strictEqual(resolved(source, [], values, ""), names.map((one) => `[${values.get(one)}]`).join(""))
      })
    )
  })
})

describe("arguments", () => {
  const parsed = Schema.decodeUnknownResult(ArgumentsFromJson)

  it("are a JSON object of texts, numbers and truth values", () => {
    const values = valuesOf(Result.getOrThrow(parsed('{"a": "x", "b": 1.5, "c": true, "__proto__": "p"}')))
    assert.deepStrictEqual(
      [...values],
      [
        ["a", "x"],
        ["b", "1.5"],
        ["c", "true"],
        ["__proto__", "p"]
      ]
    )
    for (const wrong of ["", "{", "[]", "null", '"x"', "1", '{"a": null}', '{"a": []}', '{"a": {}}', '{"a": 1e999}']) {
      assert.isTrue(Result.isFailure(parsed(wrong)), wrong)
    }
  })

  it("are complete when every required one is given, were it empty", () => {
    const prompt = {
      name: "p",
      description: "",
      arguments: [{ name: "a", required: true }, { name: "b" }, { name: "c", required: true }],
      source: "custom" as const
    }
    assert.isTrue(
      Result.isSuccess(
        complete(
          prompt,
          new Map([
            ["a", ""],
            ["c", "x"]
          ])
        )
      )
    )
    const missing = complete(prompt, new Map([["b", "x"]]))
    if (Result.isSuccess(missing)) return assert.fail("nothing is missing")
    assert.deepStrictEqual(missing.failure.names, ["a", "c"])
    assert.include(missing.failure.message, '"a", "c"')
  })
})

describe("the packaged prompts", () => {
  it("have names, titles, descriptions, and a place for each argument", () => {
    assert.isAtLeast(builtinPrompts.length, 3)
    assert.strictEqual(new Set(builtinPrompts.map(({ prompt }) => prompt.name)).size, builtinPrompts.length)
    for (const { prompt, text } of builtinPrompts) {
      assert.isTrue(Schema.is(PromptName)(prompt.name))
      assert.notStrictEqual(prompt.title ?? "", "")
      assert.notStrictEqual(prompt.description, "")
      const placed = [...text.matchAll(/\{\{(.*?)\}\}/g)].map(([, name]) => name)
      assert.sameMembers(
        placed,
        prompt.arguments.map(({ name }) => name)
      )
    }
  })
})
