import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { inspect } from "node:util"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Environment } from "../../src/application/agent/Environment.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { WorkspaceFiles } from "../../src/application/ports/files/WorkspaceFiles.ts"
import { ProviderKey, ProviderName } from "../../src/domain/identity/ProviderKey.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { environmentPath } from "../../src/domain/workspace/WorkspacePath.ts"
import { account } from "../conformance/Samples.ts"

const layer = ProviderKeyRing.layer.pipe(
  Layer.provideMerge(Environment.layer),
  Layer.provideMerge(Layer.fresh(InMemoryLive.layer))
)

const [openai, anthropic, chat] = ["openai", "anthropic", "openai-chat"].map((name) => ProviderName.make(name)) as [
  ProviderName,
  ProviderName,
  ProviderName
]
const text = "sk-canary-0123456789"

const set = (organization: OrganizationId, key = text, provider = openai) =>
  Effect.flatMap(ProviderKeyRing, (ring) => ring.set(organization, provider, Redacted.make(key)))

const find = (organization: OrganizationId, provider = openai) =>
  Effect.flatMap(ProviderKeyRing, (ring) =>
    Effect.map(ring.find(organization, provider), (found) => Option.getOrUndefined(Option.map(found, Redacted.value)))
  )

/** The text of the workspace's `.env`; null: there is none. */
const environmentOf = (organization: OrganizationId) =>
  Effect.flatMap(WorkspaceFiles, (files) =>
    Effect.map(
      files.read(organization, environmentPath),
      Option.match({ onNone: () => null, onSome: ({ content }) => new TextDecoder().decode(content) })
    )
  )

describe("ProviderKeyRing", () => {
  it.effect("gives a key back to its organization only, for its provider only", () =>
    Effect.gen(function* () {
      const ring = yield* ProviderKeyRing
      const [mine, foreign] = [yield* account(), yield* account()]
      const key = new ProviderKey({ organizationId: mine, provider: openai, hint: "6789" })
      assert.deepStrictEqual(yield* set(mine), key)
      assert.deepStrictEqual(yield* ring.list(mine), [key])
      assert.deepStrictEqual(yield* ring.providers(mine), [openai])
      assert.strictEqual(yield* find(mine), text)
      assert.isUndefined(yield* find(mine, anthropic))
      assert.isUndefined(yield* find(foreign))
      assert.deepStrictEqual(yield* ring.list(foreign), [])
    }).pipe(Effect.provide(layer))
  )

  it.effect("keeps keys in .env, beside what else is there", () =>
    Effect.gen(function* () {
      const ring = yield* ProviderKeyRing
      const mine = yield* account()
      yield* (yield* WorkspaceFiles).commit(mine, [
        {
          path: environmentPath,
          content: new TextEncoder().encode(
            "# by hand\nXAI_API_KEY=xai-by-hand-0123456789\nOPENAI_BASE_URL=http://localhost\nOTHER=1\n" +
              "GROQ_API_KEY=\nMISTRAL_API_KEY='two words'\nOPENAI_CHAT_API_KEY=1\nOPENAI_TOKEN=1\n1_API_KEY=1\n"
          ),
          basedOn: null
        }
      ])
      yield* set(mine)
      yield* set(mine, "token", chat)
      const written = yield* environmentOf(mine)
      assert.match(written ?? "", /^# by hand\n/)
      assert.match(written ?? "", /\nOPENAI_API_KEY=sk-canary-0123456789\nOPENAI_CHAT_TOKEN=token\n$/)
      assert.deepStrictEqual(
        (yield* ring.list(mine)).map(({ hint, provider }) => [provider, hint]),
        [
          ["openai", "6789"],
          ["openai-chat", ""],
          ["xai", "6789"]
        ]
      )
      assert.strictEqual(yield* find(mine, ProviderName.make("xai")), "xai-by-hand-0123456789")
      for (const none of ["groq", "mistral"]) assert.isUndefined(yield* find(mine, ProviderName.make(none)))
    }).pipe(Effect.provide(layer))
  )

  it.effect("shows none of a short key, and no key's text", () =>
    Effect.gen(function* () {
      const mine = yield* account()
      yield* set(mine)
      assert.strictEqual((yield* set(mine, "canary", anthropic)).hint, "")
      const ring = yield* ProviderKeyRing
      assert.notInclude(inspect([yield* ring.list(mine), yield* ring.find(mine, openai)], { depth: 9 }), "canary")
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
      assert.isNull(yield* environmentOf(mine))
    }).pipe(Effect.provide(layer))
  )

  it.effect("replaces a key, and removes it once", () =>
    Effect.gen(function* () {
      const ring = yield* ProviderKeyRing
      const mine = yield* account()
      assert.isUndefined(yield* find(mine))
      yield* set(mine)
      yield* set(mine, "sk-2")
      assert.strictEqual(yield* find(mine), "sk-2")
      assert.strictEqual((yield* ring.remove(mine, openai)).provider, openai)
      assert.isUndefined(yield* find(mine))
      assert.deepInclude(yield* Effect.flip(ring.remove(mine, openai)), { _tag: "NoProviderKey", provider: openai })
      assert.strictEqual(yield* environmentOf(mine), "")
    }).pipe(Effect.provide(layer))
  )
})
