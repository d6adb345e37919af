import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Latch, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as KeyTextsLive from "../../src/adapters/crypto/KeyTextsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Authenticate } from "../../src/application/identity/Authenticate.ts"
import { KeyTexts } from "../../src/application/ports/runtime/KeyTexts.ts"
import { ApiKeys } from "../../src/application/ports/storage/ApiKeys.ts"
import type { ApiKey } from "../../src/domain/identity/ApiKey.ts"
import { Caller } from "../../src/domain/identity/ApiKey.ts"
import { apiKey, signedUp } from "../conformance/Samples.ts"

/** How often keys were looked up, and what a look-up waits for. */
class LookUps extends Context.Service<LookUps, { count: number; first: Effect.Effect<void> }>()("test/LookUps") {
  static readonly layer = Layer.sync(LookUps, () => LookUps.of({ count: 0, first: Effect.void }))
}

const Counted = Layer.effect(
  ApiKeys,
  Effect.gen(function* () {
    const keys = yield* ApiKeys
    const lookUps = yield* LookUps
    return ApiKeys.of({
      ...keys,
      findByDigest: (digest) =>
        Effect.suspend(() => {
          lookUps.count++
          return Effect.andThen(lookUps.first, keys.findByDigest(digest))
        })
    })
  })
)

const layer = Authenticate.layer.pipe(
  Layer.provideMerge(Counted),
  Layer.provideMerge(LookUps.layer),
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provideMerge(KeyTextsLive.layer)
)

/** A key that is in the store, and its text. */
const issue = Effect.fnUntraced(function* (fields: Partial<ApiKey> = {}) {
  const texts = yield* KeyTexts
  const holder = yield* signedUp({ role: "admin" })
  const key = apiKey(holder, fields)
  const text = yield* texts.generate
  yield* (yield* ApiKeys).insert(key, texts.digest(text))
  const caller = new Caller({
    organizationId: holder.organizationId,
    memberId: holder.id,
    role: "admin",
    keyId: key.id
  })
  return { caller, key, text }
})

const refusal = (text: string) =>
  Effect.flatMap(Authenticate, ({ byKey }) => Effect.map(Effect.flip(byKey(text)), ({ reason }) => reason))

describe("Authenticate", () => {
  it.effect("knows whom a key stands for", () =>
    Effect.gen(function* () {
      const { caller, text } = yield* issue()
      assert.deepStrictEqual(yield* (yield* Authenticate).byKey(text), caller)
    }).pipe(Effect.provide(layer))
  )

  it.effect("refuses no key, a mistyped one without a look-up, and an unknown one", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const { text } = yield* issue()
      assert.strictEqual(yield* refusal(""), "missing")
      for (let index = 0; index < text.length; index++) {
        const mistyped = `${text.slice(0, index)}${text[index] === "x" ? "y" : "x"}${text.slice(index + 1)}`
        assert.strictEqual(yield* refusal(mistyped), "invalid")
      }
      assert.strictEqual(yield* refusal(text.slice(1)), "invalid")
      assert.strictEqual(yield* refusal(`${text} `), "invalid")
      assert.strictEqual(lookUps.count, 0)
      assert.strictEqual(yield* refusal(yield* (yield* KeyTexts).generate), "invalid")
      assert.strictEqual(lookUps.count, 1)
    }).pipe(Effect.provide(layer))
  )

  it.effect("looks a key up once for all who send it within two seconds", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const { byKey } = yield* Authenticate
      const { text } = yield* issue()
      yield* Effect.all(
        Array.from({ length: 100 }, () => byKey(text)),
        { concurrency: "unbounded" }
      )
      yield* TestClock.adjust("1999 millis")
      yield* byKey(text)
      assert.strictEqual(lookUps.count, 1)
      yield* TestClock.adjust("1 millis")
      yield* byKey(text)
      assert.strictEqual(lookUps.count, 2)
    }).pipe(Effect.provide(layer))
  )

  it.effect("lets a revocation hold within five seconds, also for a key in constant use", () =>
    Effect.gen(function* () {
      const { byKey } = yield* Authenticate
      const { key, text } = yield* issue()
      yield* byKey(text)
      yield* (yield* ApiKeys).revoke(key.id, 0)
      let passed = 0
      for (; (yield* Effect.exit(byKey(text)))._tag === "Success"; passed += 100) yield* TestClock.adjust("100 millis")
      assert.isAtMost(passed, 5_000)
      assert.strictEqual(yield* refusal(text), "invalid")
    }).pipe(Effect.provide(layer))
  )

  it.effect("refuses a key from the millisecond of its expiry", () =>
    Effect.gen(function* () {
      const { byKey } = yield* Authenticate
      const { text } = yield* issue({ expiresAt: 1_000 })
      yield* TestClock.adjust("999 millis")
      yield* byKey(text)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* refusal(text), "invalid")
    }).pipe(Effect.provide(layer))
  )

  it.effect("asks a store again at once that was away", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const { byKey } = yield* Authenticate
      const { caller, text } = yield* issue()
      lookUps.first = Effect.die(new Error("away"))
      assert.strictEqual((yield* Effect.exit(byKey(text)))._tag, "Failure")
      lookUps.first = Effect.void
      assert.deepStrictEqual(yield* byKey(text), caller)
    }).pipe(Effect.provide(layer))
  )

  it.effect("serves those who wait for the same look-up when the first of them leaves", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const { byKey } = yield* Authenticate
      const { caller, text } = yield* issue()
      const gate = yield* Latch.make()
      lookUps.first = gate.await
      const leaving = yield* Effect.forkChild(byKey(text), { startImmediately: true })
      const staying = yield* Effect.forkChild(byKey(text), { startImmediately: true })
      yield* Fiber.interrupt(leaving)
      yield* gate.open
      assert.deepStrictEqual(yield* Fiber.join(staying), caller)
      assert.strictEqual(lookUps.count, 1)
    }).pipe(Effect.provide(layer))
  )
})
