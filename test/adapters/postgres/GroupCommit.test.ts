import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch, Scheduler, Scope, Tracer } from "effect"
import * as GroupCommit from "../../../src/adapters/postgres/GroupCommit.ts"

/** A writer whose statements end when the test lets them, and what it was given. */
const gated = Effect.gen(function* () {
  const batches: Array<ReadonlyArray<number>> = []
  const gate = yield* Latch.make()
  const run = (items: ReadonlyArray<number>) =>
    Effect.suspend(() => {
      batches.push(items)
      return Effect.as(
        gate.await,
        items.map((item) => item * 10)
      )
    })
  return { batches, gate, run }
})

const numbers = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, index) => index)

const settled = Effect.repeat(Effect.yieldNow, { times: 20 })

describe("GroupCommit", () => {
  it.effect("writes at once what comes alone", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      yield* gate.open
      const write = yield* GroupCommit.make(run, { most: 10, mayBlameItem: () => true })
      assert.strictEqual(yield* write(1), 10)
      assert.strictEqual(yield* write(2), 20)
      assert.deepStrictEqual(batches, [[1], [2]])
    })
  )

  it.effect("puts all that arrives during a statement into the next one, in order, up to the most", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      const write = yield* GroupCommit.make(run, { most: 3, mayBlameItem: () => true })
      const first = yield* Effect.forkChild(write(0))
      yield* settled
      const rest = yield* Effect.forkChild(Effect.forEach([1, 2, 3, 4, 5], write, { concurrency: "unbounded" }))
      yield* settled
      assert.deepStrictEqual(batches, [[0]])
      yield* gate.open
      assert.strictEqual(yield* Fiber.join(first), 0)
      assert.deepStrictEqual(yield* Fiber.join(rest), [10, 20, 30, 40, 50])
      assert.deepStrictEqual(batches, [[0], [1, 2, 3], [4, 5]])
    })
  )

  it.effect("sends what waits before those go on who have their answers", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      const write = yield* GroupCommit.make(run, { most: 10, mayBlameItem: () => true })
      const seen = yield* Effect.forkChild(Effect.map(write(1), () => batches.length))
      yield* settled
      const other = yield* Effect.forkChild(write(2))
      yield* settled
      assert.deepStrictEqual(batches, [[1]])
      yield* gate.open
      assert.strictEqual(yield* Fiber.join(seen), 2)
      assert.strictEqual(yield* Fiber.join(other), 20)
    })
  )

  it.effect("goes on with what waits after a failure", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>) =>
          items.includes(1) ? Effect.andThen(gate.await, Effect.fail("bad")) : run(items),
        { most: 10, mayBlameItem: () => true }
      )
      const bad = yield* Effect.forkChild(Effect.exit(write(1)))
      yield* settled
      const good = yield* Effect.forkChild(write(2))
      yield* settled
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(bad), Exit.fail("bad"))
      assert.strictEqual(yield* Fiber.join(good), 20)
      assert.deepStrictEqual(batches, [[2]])
    })
  )

  it.effect("lets a bad item harm only itself", () =>
    Effect.gen(function* () {
      const batches: Array<ReadonlyArray<number>> = []
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>) =>
          Effect.suspend(() => {
            batches.push(items)
            if (items.includes(2)) return Effect.fail("bad")
            if (items.includes(3)) return Effect.die("worse")
            return Effect.succeed(items)
          }),
        { most: 10, mayBlameItem: () => true }
      )
      const exits = yield* Effect.forEach([1, 2, 3, 4], (item) => Effect.exit(write(item)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(exits, [Exit.succeed(1), Exit.fail("bad"), Exit.die("worse"), Exit.succeed(4)])
      assert.deepStrictEqual(batches, [[1, 2, 3, 4], [1], [2], [3], [4]])
      assert.strictEqual(yield* write(5), 5)
    })
  )

  it.effect("asks a store that is away once, not once for every item", () =>
    Effect.gen(function* () {
      let asked = 0
      const write = yield* GroupCommit.make(
        (): Effect.Effect<ReadonlyArray<number>, string> => Effect.suspend(() => Effect.fail(`away ${++asked}`)),
        { most: 10, mayBlameItem: (error) => !error.startsWith("away") }
      )
      const exits = yield* Effect.forEach([1, 2, 3], (item) => Effect.exit(write(item)), { concurrency: "unbounded" })
      assert.deepStrictEqual(
        exits,
        [1, 2, 3].map(() => Exit.fail("away 1"))
      )
    })
  )

  it.effect("tells those of a round that was sent ahead of its failure, and nobody before them", () =>
    Effect.gen(function* () {
      const gate = yield* Latch.make()
      const batches: Array<ReadonlyArray<number>> = []
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>) =>
          Effect.suspend(() => {
            batches.push(items)
            return items.includes(2)
              ? Effect.fail("away")
              : items.includes(4)
                ? Effect.fail("bad")
                : Effect.as(gate.await, items)
          }),
        { most: 2, mayBlameItem: (error) => error === "bad" }
      )
      const sent = (items: ReadonlyArray<number>) =>
        Effect.forkChild(Effect.forEach(items, (item) => Effect.exit(write(item)), { concurrency: "unbounded" }))
      const first = yield* sent([1])
      yield* settled
      const others = yield* sent([2, 3, 5])
      yield* settled
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(first), [Exit.succeed(1)])
      assert.deepStrictEqual(
        yield* Fiber.join(others),
        [2, 3, 5].map(() => Exit.fail("away"))
      )
      assert.deepStrictEqual(batches, [[1], [2, 3]])

      yield* gate.close
      const third = yield* sent([6])
      yield* settled
      const mixed = yield* sent([4, 7])
      yield* settled
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(third), [Exit.succeed(6)])
      assert.deepStrictEqual(yield* Fiber.join(mixed), [Exit.fail("bad"), Exit.succeed(7)])
      assert.deepStrictEqual(batches.slice(2), [[6], [4, 7], [4], [7]])
    })
  )

  it.effect("takes what is thrown for a failure of its round", () =>
    Effect.gen(function* () {
      const thrown = new Error("thrown")
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>): Effect.Effect<ReadonlyArray<number>> => {
          if (items.includes(1)) throw thrown
          return Effect.succeed(items)
        },
        { most: 10, mayBlameItem: () => true }
      )
      assert.deepStrictEqual(yield* Effect.exit(write(1)), Exit.die(thrown))
      const exits = yield* Effect.forEach([1, 2], (item) => Effect.exit(write(item)), { concurrency: "unbounded" })
      assert.deepStrictEqual(exits, [Exit.die(thrown), Exit.succeed(2)])
    })
  )

  it.effect("writes also what its sender no longer waits for", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      const write = yield* GroupCommit.make(run, { most: 10, mayBlameItem: () => true })
      const gone = yield* Effect.forkChild(write(1))
      yield* settled
      yield* Fiber.interrupt(gone)
      const here = yield* Effect.forkChild(write(2))
      yield* settled
      yield* gate.open
      assert.strictEqual(yield* Fiber.join(here), 20)
      assert.deepStrictEqual(batches, [[1], [2]])
    })
  )

  it.effect("writes what waits before its scope closes", () =>
    Effect.gen(function* () {
      const { batches, gate, run } = yield* gated
      const scope = yield* Scope.make()
      const write = yield* Scope.provide(GroupCommit.make(run, { most: 1, mayBlameItem: () => true }), scope)
      const all = yield* Effect.forkChild(Effect.forEach([1, 2, 3], write, { concurrency: "unbounded" }))
      yield* settled
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* settled
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(all), [10, 20, 30])
      yield* Fiber.join(closing)
      assert.deepStrictEqual(batches, [[1], [2], [3]])
    })
  )

  it.effect("is no part of the trace of whoever happened to wake it", () =>
    Effect.gen(function* () {
      const seen: Array<string | undefined> = []
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>) =>
          Effect.map(Effect.serviceOption(Tracer.ParentSpan), (parent) => {
            seen.push(parent._tag === "Some" ? parent.value.spanId : undefined)
            return items
          }),
        { most: 10, mayBlameItem: () => true }
      )
      yield* Effect.withSpan(write(1), "a request")
      assert.deepStrictEqual(seen, [undefined])
    })
  )

  it.effect.each([3, 5, 7, 11, 13])("leaves nobody waiting when fibers yield after every %s operations", (ops) =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const write = yield* GroupCommit.make(
        (items: ReadonlyArray<number>) =>
          Effect.gen(function* () {
            most = Math.max(most, ++running)
            yield* Effect.yieldNow
            running--
            return items
          }),
        { most: 4, mayBlameItem: () => true }
      )
      const sender = (start: number) =>
        Effect.forEach(numbers(50), (index) =>
          Effect.andThen(Effect.repeat(Effect.yieldNow, { times: (start * index) % 5 }), write(start + index))
        )
      const answers = yield* Effect.forEach(numbers(10), sender, { concurrency: "unbounded" })
      assert.deepStrictEqual(
        answers,
        numbers(10).map((start) => numbers(50).map((index) => start + index))
      )
      assert.strictEqual(most, 1)
    }).pipe(Effect.provideService(Scheduler.MaxOpsBeforeYield, ops))
  )
})
