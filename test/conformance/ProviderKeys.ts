import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import { SealedText } from "../../src/application/ports/runtime/Secrets.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { ProviderKeys } from "../../src/application/ports/storage/ProviderKeys.ts"
import { ProviderName } from "../../src/domain/identity/ProviderKey.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account, providerKey } from "./Samples.ts"

const sealed = (text: string) => SealedText.make(text)

/** What every store of organizations' own provider keys must do. */
export const providerKeysSuite = (name: string, store: Layer.Layer<ProviderKeys | Organizations | Ledger, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("lists an organization's own keys by provider, with what it cannot read", () =>
      Effect.gen(function* () {
        const keys = yield* ProviderKeys
        const [mine, foreign] = [yield* account(), yield* account()]
        const [first, second, third] = [
          { key: providerKey(mine, { provider: "openai", createdAt: Date.UTC(2026, 0) }), sealed: sealed("AQ==") },
          { key: providerKey(mine, { provider: "openai-chat" }), sealed: sealed("Ag==") },
          { key: providerKey(mine, { provider: "xai", hint: "" }), sealed: sealed("Aw==") }
        ]
        for (const each of [third, first, second]) yield* keys.put(each)
        yield* keys.put({ key: providerKey(foreign), sealed: sealed("BA==") })
        assert.deepStrictEqual(yield* keys.list(mine), [first, second, third])
        assert.deepStrictEqual(yield* keys.list(OrganizationId.make(crypto.randomUUID())), [])
      })
    )

    it.effect("has one key of a provider: the last one put", () =>
      Effect.gen(function* () {
        const keys = yield* ProviderKeys
        const [mine, foreign] = [yield* account(), yield* account()]
        const kept = { key: providerKey(foreign), sealed: sealed("AA==") }
        yield* keys.put(kept)
        yield* keys.put({ key: providerKey(mine), sealed: sealed("AQ==") })
        const later = { key: providerKey(mine, { hint: "wxyz", createdAt: 2 }), sealed: sealed("Ag==") }
        yield* keys.put(later)
        assert.deepStrictEqual(yield* keys.list(mine), [later])
        assert.deepStrictEqual(yield* keys.list(foreign), [kept])
      })
    )

    it.effect("removes a key of one organization and provider, once", () =>
      Effect.gen(function* () {
        const keys = yield* ProviderKeys
        const [mine, foreign] = [yield* account(), yield* account()]
        const [removed, kept, others] = [
          { key: providerKey(mine), sealed: sealed("AQ==") },
          { key: providerKey(mine, { provider: "anthropic" }), sealed: sealed("Ag==") },
          { key: providerKey(foreign), sealed: sealed("Aw==") }
        ]
        for (const each of [removed, kept, others]) yield* keys.put(each)
        const openai = ProviderName.make("openai")
        assert.deepStrictEqual(yield* keys.remove(mine, openai), Option.some(removed.key))
        assert.deepStrictEqual(yield* keys.remove(mine, openai), Option.none())
        assert.deepStrictEqual(yield* keys.list(mine), [kept])
        assert.deepStrictEqual(yield* keys.list(foreign), [others])
      })
    )

    it.effect("takes no key without an organization", () =>
      Effect.gen(function* () {
        const nowhere = OrganizationId.make(crypto.randomUUID())
        const put = (yield* ProviderKeys).put({ key: providerKey(nowhere), sealed: sealed("AQ==") })
        const exit = yield* Effect.exit(put)
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* (yield* ProviderKeys).list(nowhere), [])
      })
    )
  })
