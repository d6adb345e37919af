import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import { CustomPrompts } from "../../src/application/ports/storage/CustomPrompts.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import type { CustomPrompt } from "../../src/domain/prompt/Prompt.ts"
import { BlobId } from "../../src/domain/resource/Blob.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "./Samples.ts"

const custom = (name: string, fields: Partial<CustomPrompt> = {}): CustomPrompt => ({
  id: crypto.randomUUID(),
  prompt: { name, description: "", arguments: [], source: "custom" },
  text: "text",
  resource: undefined,
  ...fields
})

/** What every store of custom prompts must do. */
export const customPromptsSuite = (name: string, store: Layer.Layer<CustomPrompts | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("gives back what was stored, with all its fields and with none", () =>
      Effect.gen(function* () {
        const prompts = yield* CustomPrompts
        const mine = yield* account()
        const full = custom("full", {
          prompt: {
            name: "full",
            title: "A “title”",
            description: "It's \\ described\n",
            arguments: [
              { name: "a b", description: "first", required: true },
              { name: "__proto__", required: false }
            ],
            source: "custom"
          },
          text: "{{a b}} %s $1 '\" 🍵".repeat(10_000),
          resource: BlobId.make("ab".repeat(32))
        })
        const least = custom("least")
        for (const each of [least, full]) assert.isTrue(yield* prompts.insert(mine, each))
        assert.deepStrictEqual(yield* prompts.find(mine, "full"), Option.some(full))
        assert.deepStrictEqual(yield* prompts.find(mine, "least"), Option.some(least))
        assert.deepStrictEqual(yield* prompts.list(mine), [full.prompt, least.prompt])
      })
    )

    it.effect("has one of a name: the first, also of twenty at once", () =>
      Effect.gen(function* () {
        const prompts = yield* CustomPrompts
        const [mine, foreign] = [yield* account(), yield* account()]
        const tries = Array.from({ length: 20 }, () => custom("same"))
        const stored = yield* Effect.forEach(tries, (each) => prompts.insert(mine, each), { concurrency: "unbounded" })
        assert.strictEqual(stored.filter(Boolean).length, 1)
        const kept = tries[stored.indexOf(true)]
        assert.deepStrictEqual(yield* prompts.find(mine, "same"), Option.fromUndefinedOr(kept))
        assert.isFalse(yield* prompts.insert(mine, custom("same", { text: "later" })))
        assert.deepStrictEqual(yield* prompts.find(mine, "same"), Option.fromUndefinedOr(kept))
        assert.isTrue(yield* prompts.insert(foreign, custom("same")))
      })
    )

    it.effect("lists by name, removes one of one workspace, once, and takes its name again", () =>
      Effect.gen(function* () {
        const prompts = yield* CustomPrompts
        const [mine, foreign] = [yield* account(), yield* account()]
        const names = ["b", "a_1", "a-1", "a1", "z"]
        const made = names.map((each) => custom(each))
        for (const each of made) yield* prompts.insert(mine, each)
        const others = custom("a1")
        yield* prompts.insert(foreign, others)
        assert.deepStrictEqual(
          (yield* prompts.list(mine)).map((prompt) => prompt.name),
          ["a-1", "a1", "a_1", "b", "z"]
        )
        assert.deepStrictEqual(yield* prompts.remove(mine, "a1"), Option.fromUndefinedOr(made[3]?.id))
        assert.deepStrictEqual(yield* prompts.remove(mine, "a1"), Option.none())
        assert.deepStrictEqual(yield* prompts.find(mine, "a1"), Option.none())
        assert.deepStrictEqual(yield* prompts.find(foreign, "a1"), Option.some(others))
        assert.deepStrictEqual(yield* prompts.remove(foreign, "b"), Option.none())
        const again = custom("a1", { text: "again" })
        assert.isTrue(yield* prompts.insert(mine, again))
        assert.deepStrictEqual(yield* prompts.find(mine, "a1"), Option.some(again))
      })
    )

    it.effect("stores nothing for a workspace that does not exist", () =>
      Effect.gen(function* () {
        const prompts = yield* CustomPrompts
        const nobody = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit(prompts.insert(nobody, custom("a")))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* prompts.list(nobody), [])
      })
    )
  })
