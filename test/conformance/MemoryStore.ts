import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option, Result } from "effect"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { MemoryStore } from "../../src/application/ports/storage/MemoryStore.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { type Memory, type MemoryContents, type MemoryFilter, MemoryId } from "../../src/domain/memory/Memory.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "./Samples.ts"

const contents = (fields: Partial<MemoryContents> = {}): MemoryContents => ({
  content: "likes tea",
  tags: [],
  metadata: {},
  ...fields
})

const newId = () => MemoryId.make(crypto.randomUUID().replaceAll("-", "").slice(0, 21))

const all: MemoryFilter = { tags: [], source: undefined, pinned: undefined }
const whole = { limit: 1_000, offset: 0 }

/** As lists are: the last changed first, and by id what was changed in the same millisecond. */
const listed = (memories: ReadonlyArray<Memory>) =>
  memories.toSorted((a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? -1 : 1))

const remember = Effect.fnUntraced(function* (workspace: OrganizationId, fields: Partial<MemoryContents> = {}) {
  return yield* (yield* MemoryStore).insert(workspace, newId(), contents(fields))
})

/** What every store of memories must do. */
export const memoryStoreSuite = (name: string, store: Layer.Layer<MemoryStore | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("gives back what was stored, whatever its texts and fields are", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const given = contents({
          content: "“quotes”, \\ ' \n\t and 🍵",
          tags: ["z", "a,b", 'c"d', "{e}", "NULL", "ö"],
          metadata: {
            z: 1,
            source: "system",
            a: { deep: [null, -0.5, 1e300, "{}"] },
            pinned: true,
            ...JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}')
          }
        })
        const id = newId()
        const stored = yield* memories.insert(mine, id, given)
        assert.deepStrictEqual(stored, { id, ...given, createdAt: stored.createdAt, updatedAt: stored.createdAt })
        assert.isTrue(Object.hasOwn(stored.metadata, "__proto__"))
        assert.deepStrictEqual(yield* memories.find(mine, id), Option.some(stored))
        assert.deepStrictEqual(yield* memories.list(mine, all, whole), [stored])
        const least = yield* memories.insert(mine, newId(), contents({ content: " " }))
        assert.deepStrictEqual([least.tags, least.metadata, least.content], [[], {}, " "])
      })
    )

    it.effect("shows, changes and removes nothing of another workspace", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const [mine, foreign] = [yield* account(), yield* account()]
        const kept = yield* remember(mine, { tags: ["t"] })
        assert.deepStrictEqual(yield* memories.find(foreign, kept.id), Option.none())
        const touched = yield* memories.update(foreign, kept.id, () => Result.succeed(contents({ content: "stolen" })))
        assert.deepStrictEqual(touched, Option.none())
        assert.isFalse(yield* memories.remove(foreign, kept.id))
        assert.deepStrictEqual(yield* memories.list(foreign, { ...all, tags: ["t"] }, whole), [])
        assert.strictEqual(yield* memories.count(foreign, all), 0)
        assert.deepStrictEqual(yield* memories.find(mine, kept.id), Option.some(kept))
      })
    )

    it.effect("removes a memory once, for good", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const [gone, kept] = [yield* remember(mine, { tags: ["t"] }), yield* remember(mine, { tags: ["t"] })]
        assert.isTrue(yield* memories.remove(mine, gone.id))
        assert.isFalse(yield* memories.remove(mine, gone.id))
        assert.deepStrictEqual(yield* memories.find(mine, gone.id), Option.none())
        assert.deepStrictEqual(yield* memories.list(mine, { ...all, tags: ["t"] }, whole), [kept])
        assert.strictEqual(yield* memories.count(mine, { ...all, tags: ["t"] }), 1)
      })
    )

    it.effect("changes a memory as it is told, with a later time, and leaves the others", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const [other, memory] = [yield* remember(mine), yield* remember(mine, { tags: ["old"] })]
        let last = memory
        for (let round = 0; round < 20; round++) {
          const given = contents({ content: `round ${round}`, tags: [`tag ${round}`], metadata: { round } })
          const changed = yield* memories.update(mine, memory.id, (seen) => {
            assert.deepStrictEqual(seen, last)
            return Result.succeed(given)
          })
          if (Option.isNone(changed)) return assert.fail("it is not found")
          assert.isAbove(changed.value.updatedAt, last.updatedAt)
          const { updatedAt } = changed.value
          assert.deepStrictEqual(changed.value, { id: memory.id, ...given, createdAt: memory.createdAt, updatedAt })
          last = changed.value
        }
        assert.deepStrictEqual(yield* memories.list(mine, all, whole), [last, other])
        assert.deepStrictEqual(yield* memories.list(mine, { ...all, tags: ["tag 19"] }, whole), [last])
        assert.deepStrictEqual(yield* memories.list(mine, { ...all, tags: ["old", "tag 18"] }, whole), [])
      })
    )

    it.effect("leaves a memory as it is when the change fails, and finds none that is not there", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const memory = yield* remember(mine, { tags: ["t"] })
        const refused = memories.update(mine, memory.id, () => Result.fail("no"))
        assert.strictEqual(yield* Effect.flip(refused), "no")
        assert.deepStrictEqual(yield* memories.list(mine, { ...all, tags: ["t"] }, whole), [memory])
        assert.deepStrictEqual(
          yield* memories.update(mine, newId(), () => assert.fail("nothing is there to change")),
          Option.none()
        )
      })
    )

    it.effect("loses nothing of a hundred changes at once", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const memory = yield* remember(mine)
        const changes = Array.from({ length: 100 }, (_, index) =>
          memories.update(mine, memory.id, ({ content, metadata, tags }) =>
            Result.succeed({ content, tags, metadata: { ...metadata, [`field ${index}`]: index } })
          )
        )
        const seen = yield* Effect.all(changes, { concurrency: "unbounded" })
        const last = Option.getOrThrow(yield* memories.find(mine, memory.id))
        assert.strictEqual(Object.keys(last.metadata).length, 100)
        const times = new Set(seen.map((one) => Option.getOrThrow(one).updatedAt))
        assert.strictEqual(times.size, 100)
        assert.strictEqual(last.updatedAt, Math.max(...times))
      })
    )

    it.effect("lists and counts by every combination of filters, the last changed first, in pages", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const [mine, foreign] = [yield* account(), yield* account()]
        const sources = [undefined, "user", "system"] as const
        const pins = [undefined, true, false]
        const tagSets = [[], ["a"], ["b"], ["a", "b"], ["a", "c"]]
        const stored: Array<Memory> = []
        for (const source of sources) {
          for (const pinned of pins) {
            for (const tags of tagSets) {
              const metadata = {
                ...(source === undefined ? {} : { source }),
                ...(pinned === undefined ? {} : { pinned })
              }
              stored.push(yield* remember(mine, { tags, metadata }))
              yield* remember(foreign, { tags, metadata })
            }
          }
        }
        for (const source of sources) {
          for (const pinned of pins) {
            for (const tags of [...tagSets, ["nobody's"], ["b", "c", "nobody's"]]) {
              const wanted = listed(stored).filter(
                (memory) =>
                  (source === undefined || (memory.metadata.source ?? "user") === source) &&
                  (pinned === undefined || (memory.metadata.pinned ?? false) === pinned) &&
                  (tags.length === 0 || memory.tags.some((tag) => tags.includes(tag)))
              )
              const filter = { tags, source, pinned }
              assert.deepStrictEqual(yield* memories.list(mine, filter, whole), wanted)
              assert.strictEqual(yield* memories.count(mine, filter), wanted.length)
              for (const [limit, offset] of [
                [1, 0],
                [3, 2],
                [7, 40],
                [5, 1_000]
              ] as const) {
                const page = yield* memories.list(mine, filter, { limit, offset })
                assert.deepStrictEqual(page, wanted.slice(offset, offset + limit))
              }
            }
          }
        }
      })
    )

    it.effect("takes tags literally", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const mine = yield* account()
        const tags = ["%", "_", "a%", "A", "a", "ä", "a\\", "'", "{}"]
        for (const tag of tags) yield* remember(mine, { tags: [tag] })
        for (const tag of tags) {
          const found = yield* memories.list(mine, { ...all, tags: [tag] }, whole)
          assert.deepStrictEqual(
            found.map((memory) => memory.tags),
            [[tag]]
          )
        }
      })
    )

    it.effect("stores nothing for a workspace that does not exist", () =>
      Effect.gen(function* () {
        const memories = yield* MemoryStore
        const nobody = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit(memories.insert(nobody, newId(), contents()))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* memories.list(nobody, all, whole), [])
      })
    )
  })
