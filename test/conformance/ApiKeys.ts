import { assert, layer } from "@effect/vitest"
import { Cause, Clock, Effect, Exit, type Layer, Option } from "effect"
import { ApiKeys } from "../../src/application/ports/storage/ApiKeys.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Members } from "../../src/application/ports/storage/Members.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { ApiKey, Caller } from "../../src/domain/identity/ApiKey.ts"
import { ApiKeyId } from "../../src/domain/shared/Ids.ts"
import { apiKey, digest, signedUp } from "./Samples.ts"

/** What every store of API keys must do. */
export const apiKeysSuite = (name: string, store: Layer.Layer<ApiKeys | Members | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("finds a key by its digest, with whom it stands for", () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const holder = yield* signedUp({ role: "admin" })
        const key = apiKey(holder, { createdAt: Date.UTC(2026, 0), expiresAt: Date.UTC(2027, 0) })
        const ofKey = digest()
        yield* keys.insert(key, ofKey)
        const caller = new Caller({
          organizationId: holder.organizationId,
          memberId: holder.id,
          role: "admin",
          keyId: key.id
        })
        const { usableFor, ...found } = Option.getOrThrow(yield* keys.findByDigest(ofKey))
        assert.deepStrictEqual(found, { key, caller })
        assert.isAbove(usableFor, 0)
        assert.deepStrictEqual(yield* keys.findByDigest(digest()), Option.none())
      })
    )

    it.effect("says for how long a key may be used", () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const holder = yield* signedUp()
        const now = yield* Clock.currentTimeMillis
        const usableFor = Effect.fnUntraced(function* (fields: Partial<ApiKey>) {
          const ofKey = digest()
          yield* keys.insert(apiKey(holder, fields), ofKey)
          return Option.getOrThrow(yield* keys.findByDigest(ofKey)).usableFor
        })
        const anHour = 3_600_000
        assert.closeTo(yield* usableFor({ expiresAt: now + anHour }), anHour, 10_000)
        assert.strictEqual(yield* usableFor({ expiresAt: now - anHour }), 0)
        assert.strictEqual(yield* usableFor({ revokedAt: now }), 0)
      })
    )

    it.effect("lists an organization's own keys, the oldest first", () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const [holder, stranger] = [yield* signedUp(), yield* signedUp()]
        const [old, young] = [apiKey(holder, { createdAt: 5 }), apiKey(holder, { createdAt: 6 })]
        for (const each of [young, old, apiKey(stranger)]) yield* keys.insert(each, digest())
        assert.deepStrictEqual(yield* keys.list(holder.organizationId), [old, young])
      })
    )

    it.effect("sets the time of a revocation once", () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const holder = yield* signedUp()
        const [key, other] = [apiKey(holder), apiKey(holder, { createdAt: 2 })]
        const ofKey = digest()
        yield* keys.insert(key, ofKey)
        yield* keys.insert(other, digest())
        const revoked = new ApiKey({ ...key, revokedAt: 1_000 })
        assert.deepStrictEqual(yield* keys.revoke(key.id, 1_000), Option.some(revoked))
        assert.deepStrictEqual(yield* keys.revoke(key.id, 2_000), Option.some(revoked))
        assert.deepStrictEqual(Option.getOrThrow(yield* keys.findByDigest(ofKey)).key, revoked)
        assert.deepStrictEqual(yield* keys.list(holder.organizationId), [revoked, other])
      })
    )

    it.effect("cannot revoke what is not there", () =>
      Effect.gen(function* () {
        const unknown = ApiKeyId.make(crypto.randomUUID())
        assert.deepStrictEqual(yield* (yield* ApiKeys).revoke(unknown, 1), Option.none())
      })
    )

    it.effect("takes no second key of the same digest", () =>
      Effect.gen(function* () {
        const keys = yield* ApiKeys
        const holder = yield* signedUp()
        const first = apiKey(holder)
        const shared = digest()
        yield* keys.insert(first, shared)
        const exit = yield* Effect.exit(keys.insert(apiKey(holder), shared))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* keys.list(holder.organizationId), [first])
      })
    )
  })
