import { assert, layer } from "@effect/vitest"
import { Effect, type Layer, Option } from "effect"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { organization } from "./Samples.ts"

/** What every store of organizations must do. */
export const organizationsSuite = (name: string, store: Layer.Layer<Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("finds by name what was put in", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const made = organization({ createdAt: Date.UTC(2026, 10, 20, 12, 0, 0, 1) })
        yield* organizations.insert(made)
        assert.deepStrictEqual(yield* organizations.findByName(made.name), Option.some(made))
        assert.deepStrictEqual(yield* organizations.findByName(`${made.name}-`), Option.none())
      })
    )

    it.effect("finds by id what was put in", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const made = organization()
        yield* organizations.insert(made)
        assert.deepStrictEqual(yield* organizations.findById(made.id), Option.some(made))
        assert.deepStrictEqual(yield* organizations.findById(organization().id), Option.none())
      })
    )

    it.effect("opens an account without credit", () =>
      Effect.gen(function* () {
        const made = organization()
        yield* (yield* Organizations).insert(made)
        assert.deepStrictEqual(yield* (yield* Ledger).credit(made.id), { balance: 0n, held: 0n })
      })
    )

    it.effect("refuses a name that is taken and keeps its first holder", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const first = organization()
        yield* organizations.insert(first)
        const error = yield* Effect.flip(organizations.insert(organization({ name: first.name })))
        assert.deepInclude(error, { _tag: "NameTaken", kind: "organization", name: first.name })
        assert.deepStrictEqual(yield* organizations.findByName(first.name), Option.some(first))
      })
    )

    it.effect("gives a name to one of those who ask for it at once", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const { name } = organization()
        const exits = yield* Effect.all(
          Array.from({ length: 10 }, () => Effect.exit(organizations.insert(organization({ name })))),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(exits.filter(({ _tag }) => _tag === "Success").length, 1)
      })
    )

    it.effect("lists the oldest first", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const [old, young] = [organization({ createdAt: 5 }), organization({ createdAt: 6 })]
        yield* organizations.insert(young)
        yield* organizations.insert(old)
        const listed = (yield* organizations.list).filter(({ id }) => id === old.id || id === young.id)
        assert.deepStrictEqual(listed, [old, young])
      })
    )

    it.effect("harms no other write when a name is refused", () =>
      Effect.gen(function* () {
        const organizations = yield* Organizations
        const taken = organization()
        yield* organizations.insert(taken)
        const others = Array.from({ length: 20 }, () => organization())
        yield* Effect.all(
          others.flatMap((other) => [
            Effect.exit(organizations.insert(organization({ name: taken.name }))),
            organizations.insert(other)
          ]),
          { concurrency: "unbounded" }
        )
        const kept = new Set((yield* organizations.list).map(({ id }) => id))
        assert.deepStrictEqual(
          others.filter(({ id }) => !kept.has(id)),
          []
        )
      })
    )
  })
