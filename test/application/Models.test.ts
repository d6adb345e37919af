import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { Models } from "../../src/application/catalog/Models.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { type CatalogEntry, ModelCatalog } from "../../src/application/ports/vendor/ModelCatalog.ts"
import type { AccessMethod } from "../../src/domain/catalog/AccessMethod.ts"
import { free } from "../../src/domain/catalog/Pricing.ts"
import { ProviderName } from "../../src/domain/identity/ProviderKey.ts"
import { ModelId, type OrganizationId } from "../../src/domain/shared/Ids.ts"
import { account } from "../conformance/Samples.ts"

const entry = (id: string, ...methods: readonly [AccessMethod, ...ReadonlyArray<AccessMethod>]): CatalogEntry => ({
  model: {
    id: ModelId.make(id),
    name: id,
    created: 0,
    accessMethods: methods,
    input: ["text"],
    output: ["text"],
    maxInputTokens: 10,
    maxOutputTokens: 10,
    reasoning: false,
    supportsToolCall: false,
    pricing: free
  },
  routes: methods.map((method) => ({ method, upstream: `upstream of ${method}`, upstreamModel: id }))
})

/** What the operator has a key for, what it has none for, and what takes no keys but the operator's. */
const entries = [
  entry("echo", "service"),
  entry("both", "service", "vendor-b-api-key", "vendor-b-chat"),
  entry("only-b", "vendor-b-api-key", "vendor-b-chat"),
  entry("only-a", "vendor-a-api-key")
]

const layer = Models.layer.pipe(
  Layer.provideMerge(ProviderKeyRing.layer),
  Layer.provideMerge(InMemoryLive.layer),
  Layer.provide(
    Layer.succeed(ModelCatalog, {
      entries,
      find: (id) => Option.fromUndefinedOr(entries.find(({ model }) => model.id === id))
    })
  )
)

/** An organization with a key of its own of each of these providers. */
const organizationWith = Effect.fnUntraced(function* (...providers: ReadonlyArray<string>) {
  const organization = yield* account()
  const ring = yield* ProviderKeyRing
  for (const provider of providers) {
    yield* ring.set(organization, ProviderName.make(provider), Redacted.make(`key-of-${provider}`))
  }
  return organization
})

const listed = (organization: OrganizationId) =>
  Effect.flatMap(Models, (models) => Effect.map(models.list(organization), (list) => list.map(({ id }) => String(id))))

/** The method that is taken, and the key; or what is wrong. */
const reached = (organization: OrganizationId, id: string, method?: AccessMethod) =>
  Effect.flatMap(Models, (models) => models.resolve(id, method, organization)).pipe(
    Effect.map(({ apiKey, route }): unknown => [
      route.method,
      apiKey === undefined ? undefined : Redacted.value(apiKey)
    ]),
    Effect.catch(({ _tag }) => Effect.succeed<unknown>(_tag))
  )

describe("the models of an organization", () => {
  it.effect("are those that the operator has a key for, and those that it has one for itself", () =>
    Effect.gen(function* () {
      const none = yield* organizationWith("groq")
      assert.deepStrictEqual(yield* listed(none), ["echo", "both"])
      assert.deepStrictEqual(yield* listed(yield* organizationWith("anthropic")), ["echo", "both", "only-a"])
      assert.deepStrictEqual(yield* listed(yield* organizationWith("openai-chat")), ["echo", "both", "only-b"])
      const all = yield* organizationWith("openai", "anthropic")
      assert.deepStrictEqual(yield* listed(all), ["echo", "both", "only-b", "only-a"])

      yield* (yield* ProviderKeyRing).remove(all, ProviderName.make("openai"))
      assert.deepStrictEqual(yield* listed(all), ["echo", "both", "only-a"])
    }).pipe(Effect.provide(layer))
  )

  it.effect("are listed with every access method, and once for all organizations that can use the same", () =>
    Effect.gen(function* () {
      const { list } = yield* Models
      const [one, other] = [yield* organizationWith(), yield* organizationWith("groq")]
      const [, both] = yield* list(one)
      assert.deepStrictEqual(both?.accessMethods, ["service", "vendor-b-api-key", "vendor-b-chat"])
      assert.strictEqual(yield* list(one), yield* list(other))
    }).pipe(Effect.provide(layer))
  )
})

describe("without an access method", () => {
  it.effect("a model is reached by `service`, whatever keys there are", () =>
    Effect.gen(function* () {
      const organization = yield* organizationWith("openai")
      assert.deepStrictEqual(yield* reached(organization, "both"), ["service", undefined])
    }).pipe(Effect.provide(layer))
  )

  it.effect("a model that the operator has no key for by the first method that the organization has one for", () =>
    Effect.gen(function* () {
      const [both, chat, none] = [
        yield* organizationWith("openai-chat", "openai"),
        yield* organizationWith("openai-chat", "anthropic"),
        yield* organizationWith("anthropic")
      ]
      assert.deepStrictEqual(yield* reached(both, "only-b"), ["vendor-b-api-key", "key-of-openai"])
      assert.deepStrictEqual(yield* reached(chat, "only-b"), ["vendor-b-chat", "key-of-openai-chat"])
      assert.strictEqual(yield* reached(none, "only-b"), "NoKeyForAccessMethod")
    }).pipe(Effect.provide(layer))
  )
})

describe("with an access method", () => {
  it.effect("a model is reached by it, with the organization's own key", () =>
    Effect.gen(function* () {
      const organization = yield* organizationWith("openai", "openai-chat")
      const api = yield* reached(organization, "both", "vendor-b-api-key")
      assert.deepStrictEqual(api, ["vendor-b-api-key", "key-of-openai"])
      const chat = yield* reached(organization, "both", "vendor-b-chat")
      assert.deepStrictEqual(chat, ["vendor-b-chat", "key-of-openai-chat"])
      assert.deepStrictEqual(yield* reached(organization, "both", "service"), ["service", undefined])
    }).pipe(Effect.provide(layer))
  )

  it.effect("the model must list it, and the organization must have a key", () =>
    Effect.gen(function* () {
      const organization = yield* organizationWith("anthropic")
      assert.strictEqual(yield* reached(organization, "echo", "vendor-a-api-key"), "AccessMethodNotOffered")
      assert.strictEqual(yield* reached(organization, "only-a", "service"), "AccessMethodNotOffered")
      assert.strictEqual(yield* reached(organization, "both", "vendor-b-api-key"), "NoKeyForAccessMethod")
      assert.strictEqual(yield* reached(organization, "nothing", "service"), "ModelNotFound")
    }).pipe(Effect.provide(layer))
  )
})
