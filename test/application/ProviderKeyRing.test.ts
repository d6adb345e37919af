import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import * as SecretsLive from "../../src/adapters/crypto/SecretsLive.ts"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { SecretUnreadable } from "../../src/application/ports/runtime/Secrets.ts"
import { ProviderKeys } from "../../src/application/ports/storage/ProviderKeys.ts"
import { ProviderName } from "../../src/domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account, providerKey } from "../conformance/Samples.ts"

/** How often the store was read, and what a reading waits for. */
class LookUps extends Context.Service<LookUps, { count: number; first: Effect.Effect<void> }>()("test/LookUps") {
  static readonly layer = Layer.sync(LookUps, () => LookUps.of({ count: 0, first: Effect.void }))
}

const Counted = Layer.effect(
  ProviderKeys,
  Effect.gen(function* () {
    const keys = yield* ProviderKeys
    const lookUps = yield* LookUps
    return ProviderKeys.of({
      ...keys,
      list: (organization) =>
        Effect.suspend(() => {
          lookUps.count++
          return Effect.andThen(lookUps.first, keys.list(organization))
        })
    })
  })
)

const layer = ProviderKeyRing.layer.pipe(
  Layer.provideMerge(Counted),
  Layer.provideMerge(LookUps.layer),
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provideMerge(SecretsLive.layerKey(Redacted.make(new Uint8Array(32))))
)

const openai = ProviderName.make("openai")
const anthropic = ProviderName.make("anthropic")
const text = "sk-canary-0123456789"

const set = (organization: OrganizationId, key = text, provider = openai) =>
  Effect.flatMap(ProviderKeyRing, (ring) => ring.set(organization, provider, Redacted.make(key)))

const find = (organization: OrganizationId, provider = openai) =>
  Effect.flatMap(ProviderKeyRing, (ring) =>
    Effect.map(ring.find(organization, provider), (found) => Option.getOrUndefined(Option.map(found, Redacted.value)))
  )

describe("ProviderKeyRing", () => {
  it.effect("gives a key back to its organization only, for its provider only", () =>
    Effect.gen(function* () {
      const ring = yield* ProviderKeyRing
      const [mine, foreign] = [yield* account(), yield* account()]
      yield* TestClock.setTime(5)
      const key = providerKey(mine, { hint: "6789", createdAt: 5 })
      assert.deepStrictEqual(yield* set(mine), key)
      assert.deepStrictEqual(yield* ring.list(mine), [key])
      assert.deepStrictEqual(yield* ring.providers(mine), [openai])
      assert.strictEqual(yield* find(mine), text)
      assert.isUndefined(yield* find(mine, anthropic))
      assert.isUndefined(yield* find(foreign))
      assert.deepStrictEqual(yield* ring.list(foreign), [])
    }).pipe(Effect.provide(layer))
  )

  it.effect("stores nothing that can be read, and shows none of a short key", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      yield* set(mine)
      assert.strictEqual((yield* set(mine, "canary", anthropic)).hint, "")
      const stored = yield* (yield* ProviderKeys).list(mine)
      assert.lengthOf(stored, 2)
      for (const { sealed } of stored) assert.notInclude(Buffer.from(sealed, "base64").toString("latin1"), "canary")
      assert.notInclude(inspect(stored, { depth: 9 }), "canary")
    }).pipe(Effect.provide(layer))
  )

  it.effect("refuses what cannot be a key, in words that do not have it", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      for (const bad of ["", "canary key", "canary\n", "canary\u0000", "canaryé", "x".repeat(4097)]) {
        const error = yield* Effect.flip(set(mine, bad))
        assert.strictEqual(error._tag, "InvalidProviderKey")
        assert.notInclude(inspect(error, { depth: 9 }), "canary")
      }
      assert.deepStrictEqual(yield* (yield* ProviderKeyRing).list(mine), [])
    }).pipe(Effect.provide(layer))
  )

  it.effect("reads the store once in two seconds, however many look a key up", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const mine = yield* account()
      yield* set(mine)
      yield* Effect.all(
        Array.from({ length: 100 }, () => find(mine)),
        { concurrency: "unbounded" }
      )
      yield* TestClock.adjust("1999 millis")
      yield* find(mine, anthropic)
      yield* (yield* ProviderKeyRing).providers(mine)
      assert.strictEqual(lookUps.count, 1)
      yield* TestClock.adjust("1 millis")
      yield* find(mine)
      assert.strictEqual(lookUps.count, 2)
    }).pipe(Effect.provide(layer))
  )

  it.effect("sees what it did itself at once, what another replica did within five seconds", () =>
    Effect.gen(function* () {
      const ring = yield* ProviderKeyRing
      const mine = yield* account()
      assert.isUndefined(yield* find(mine))
      yield* set(mine)
      assert.strictEqual(yield* find(mine), text)
      yield* set(mine, "sk-2")
      assert.strictEqual(yield* find(mine), "sk-2")
      assert.strictEqual((yield* ring.remove(mine, openai)).provider, openai)
      assert.isUndefined(yield* find(mine))
      assert.deepInclude(yield* Effect.flip(ring.remove(mine, openai)), { _tag: "NoProviderKey", provider: openai })

      yield* set(mine)
      yield* find(mine)
      yield* (yield* ProviderKeys).remove(mine, openai)
      let passed = 0
      for (; (yield* find(mine)) !== undefined; passed += 100) yield* TestClock.adjust("100 millis")
      assert.isAtMost(passed, 5_000)
    }).pipe(Effect.provide(layer))
  )

  it.effect("asks a store again at once that was away", () =>
    Effect.gen(function* () {
      const lookUps = yield* LookUps
      const mine = yield* account()
      yield* set(mine)
      lookUps.first = Effect.die(new Error("away"))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(find(mine))))
      lookUps.first = Effect.void
      assert.strictEqual(yield* find(mine), text)
    }).pipe(Effect.provide(layer))
  )

  it.effect("does not open a row that was moved to another organization or provider", () =>
    Effect.gen(function* () {
      const keys = yield* ProviderKeys
      const [mine, foreign] = [yield* account(), yield* account()]
      yield* set(mine)
      const [stored] = yield* keys.list(mine)
      if (stored === undefined) return assert.fail("the key is not stored")
      yield* keys.put({ key: providerKey(foreign), sealed: stored.sealed })
      yield* keys.put({ key: providerKey(mine, { provider: "anthropic" }), sealed: stored.sealed })
      yield* TestClock.adjust("2 seconds")
      for (const moved of [find(foreign), find(mine, anthropic)]) {
        const exit = yield* Effect.exit(moved)
        assert.instanceOf(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined, SecretUnreadable)
      }
      assert.strictEqual(yield* find(mine), text)
    }).pipe(Effect.provide(layer))
  )
})
