import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Deferred, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import * as IdempotentAnswersInMemory from "../../src/adapters/inmemory/IdempotentAnswersInMemory.ts"
import { type HeldKey, IdempotencyKeys, type KeyedRequest } from "../../src/application/completion/IdempotencyKeys.ts"
import { Ids } from "../../src/application/ports/runtime/Ids.ts"
import { IdempotentAnswers } from "../../src/application/ports/storage/IdempotentAnswers.ts"
import { StoreUnavailable } from "../../src/application/ports/storage/StoreUnavailable.ts"
import { IdempotencyKey } from "../../src/domain/completion/IdempotencyKey.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"

/** How a test takes the store away, and how often the store was swept. */
class Switch extends Context.Service<Switch, { away: boolean; sweeps: number }>()("test/Switch") {
  static readonly layer = Layer.sync(Switch, () => Switch.of({ away: false, sweeps: 0 }))
}

const Switched = Layer.effect(
  IdempotentAnswers,
  Effect.gen(function* () {
    const answers = yield* IdempotentAnswers
    const state = yield* Switch
    /** There and back takes time: a caller can be interrupted on either way. */
    const reach = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.yieldNow.pipe(
        Effect.andThen(
          Effect.suspend(() => (state.away ? Effect.die(new StoreUnavailable({ cause: "switched off" })) : call))
        ),
        Effect.ensuring(Effect.yieldNow)
      )
    return IdempotentAnswers.of({
      claim: (claim) => reach(answers.claim(claim)),
      renew: (claims) => reach(answers.renew(claims)),
      store: (claim, answer) => reach(answers.store(claim, answer)),
      free: (claim) => reach(answers.free(claim)),
      sweep: Effect.andThen(
        Effect.sync(() => void state.sweeps++),
        reach(answers.sweep)
      )
    })
  })
)

const layer = Layer.suspend(() =>
  IdempotencyKeys.layer.pipe(
    Layer.provideMerge(Switched),
    Layer.provide(IdempotentAnswersInMemory.layer),
    Layer.provide(Layer.sync(Ids, () => Ids.of({ next: Effect.sync(() => crypto.randomUUID()) }))),
    Layer.provideMerge(Switch.layer)
  )
)

const request: KeyedRequest = {
  organizationId: OrganizationId.make("acme"),
  key: IdempotencyKey.make("key"),
  digest: "digest"
}

/** Sends the request; what it says when it runs. */
const send = <E, R>(run: (key: HeldKey) => Effect.Effect<string, E, R>) =>
  Effect.flatMap(IdempotencyKeys, (keys) => keys.once(request, run, (answer) => Effect.succeed(`again ${answer}`)))

const answering = (answer: string) => send((key) => Effect.as(key.store(answer), answer))

const assertBusy = Effect.gen(function* () {
  assert.strictEqual((yield* Effect.flip(answering("never")))._tag, "IdempotencyKeyBusy")
})

/** A request that runs until the test lets it end. */
const running = Effect.gen(function* () {
  const gate = yield* Deferred.make<string, "failed">()
  const fiber = yield* Effect.forkChild(send((key) => Effect.tap(Deferred.await(gate), (answer) => key.store(answer))))
  yield* TestClock.adjust(0)
  return { gate, fiber }
})

describe("IdempotencyKeys", () => {
  it.effect("runs a request once, and gives its answer to the repetitions", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* answering("first"), "first")
      assert.strictEqual(yield* answering("second"), "again first")
      assert.strictEqual(yield* answering("third"), "again first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("has the answer stored before the request ends", () =>
    Effect.gen(function* () {
      const seen = yield* send((key) => Effect.andThen(key.store("first"), answering("second")))
      assert.strictEqual(seen, "again first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps the key for as long as the request runs", () =>
    Effect.gen(function* () {
      const { fiber, gate } = yield* running
      for (let minute = 0; minute < 10; minute++) {
        yield* assertBusy
        yield* TestClock.adjust("1 minute")
      }
      yield* Deferred.succeed(gate, "first")
      assert.strictEqual(yield* Fiber.join(fiber), "first")
      assert.strictEqual(yield* answering("second"), "again first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("frees the key of a request that fails, that dies, that is left, and that stores nothing", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Effect.flip(send(() => Effect.fail("failed" as const))), "failed")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(send(() => Effect.die("died")))))
      const { fiber } = yield* running
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* send(() => Effect.succeed("too long")), "too long")
      assert.strictEqual(yield* answering("first"), "first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("frees a key before its request's end, and not the key of who took it since", () =>
    Effect.gen(function* () {
      const ended = yield* send((key) =>
        Effect.gen(function* () {
          yield* key.free
          const { fiber, gate } = yield* running
          yield* key.free
          yield* key.store("late")
          yield* assertBusy
          yield* Deferred.succeed(gate, "second")
          return yield* Fiber.join(fiber)
        })
      )
      assert.strictEqual(ended, "second")
      assert.strictEqual(yield* answering("third"), "again second")
    }).pipe(Effect.provide(layer))
  )

  it.effect("sends an answer that cannot be stored, and has the key free half a minute later", () =>
    Effect.gen(function* () {
      const state = yield* Switch
      const { fiber, gate } = yield* running
      state.away = true
      yield* Deferred.succeed(gate, "first")
      assert.strictEqual(yield* Fiber.join(fiber), "first")
      yield* TestClock.adjust("20 seconds")
      state.away = false
      yield* assertBusy
      yield* TestClock.adjust("11 seconds")
      assert.strictEqual(yield* answering("second"), "second")
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps the key over a store that is away for less than the lease", () =>
    Effect.gen(function* () {
      const state = yield* Switch
      const { fiber, gate } = yield* running
      state.away = true
      yield* TestClock.adjust("20 seconds")
      state.away = false
      yield* TestClock.adjust("20 seconds")
      yield* assertBusy
      yield* Deferred.succeed(gate, "first")
      yield* Fiber.join(fiber)
      assert.strictEqual(yield* answering("second"), "again first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("runs nothing while the store is away", () =>
    Effect.gen(function* () {
      const state = yield* Switch
      state.away = true
      const exit = yield* Effect.exit(answering("never"))
      assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof StoreUnavailable)
      state.away = false
      assert.strictEqual(yield* answering("first"), "first")
    }).pipe(Effect.provide(layer))
  )

  it.effect("leaves the key of a process that dies to the next request, half a minute later", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const other = yield* Layer.buildWithScope(
        Layer.fresh(IdempotencyKeys.layer).pipe(
          Layer.provide(Layer.sync(Ids, () => Ids.of({ next: Effect.sync(() => crypto.randomUUID()) })))
        ),
        scope
      )
      // The fiber is not interrupted: nobody frees what a killed process had.
      yield* Effect.forkScoped(
        Context.get(other, IdempotencyKeys).once(
          request,
          () => Effect.never,
          () => Effect.never
        )
      )
      yield* TestClock.adjust("1 minute")
      yield* assertBusy
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual(yield* answering("second"), "second")
    }).pipe(Effect.provide(layer))
  )

  it.effect("deletes old answers again and again, also after a store was away", () =>
    Effect.gen(function* () {
      const state = yield* Switch
      state.away = true
      yield* TestClock.adjust("3 minutes")
      state.away = false
      yield* answering("first")
      yield* TestClock.adjust("25 hours")
      assert.isAtLeast(state.sweeps, 24 * 60)
      assert.strictEqual(yield* (yield* IdempotentAnswers).sweep, 0)
      assert.strictEqual(yield* answering("second"), "second")
    }).pipe(Effect.provide(layer))
  )
})
