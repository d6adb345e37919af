import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Logger, Option, Redacted, Scope, Stream } from "effect"
import * as Catalogue from "../../src/adapters/catalogue/Catalogue.ts"
import * as IdsLive from "../../src/adapters/crypto/IdsLive.ts"
import * as SecretsLive from "../../src/adapters/crypto/SecretsLive.ts"
import * as EgressLive from "../../src/adapters/egress/EgressLive.ts"
import * as TokenizerLive from "../../src/adapters/tokenizer/TokenizerLive.ts"
import * as VendorsLive from "../../src/adapters/vendors/VendorsLive.ts"
import { HoldKeeper } from "../../src/application/billing/HoldKeeper.ts"
import { Models } from "../../src/application/catalog/Models.ts"
import { CompleteChat } from "../../src/application/completion/CompleteChat.ts"
import { CallModel, type ModelCall } from "../../src/application/conversation/CallModel.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { Members } from "../../src/application/ports/storage/Members.ts"
import { UsageEvents } from "../../src/application/ports/storage/UsageEvents.ts"
import { type ExternalCall, ExternalModels } from "../../src/application/ports/vendor/ExternalModels.ts"
import { Providers } from "../../src/application/ports/vendor/Providers.ts"
import { UpstreamFailed } from "../../src/domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../src/domain/completion/CompletionEvent.ts"
import { Folded } from "../../src/domain/completion/Folded.ts"
import { Caller, noKey } from "../../src/domain/identity/ApiKey.ts"
import { ApiKeyId, type OrganizationId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { account, member } from "../conformance/Samples.ts"
import { llm, model, providers } from "../domain/llm/Samples.ts"
import { LedgerWatch, stores } from "./Ledgers.ts"
import { cutOff, delta, layer as vendor, price, sending, usageReported, Vendor } from "./Vendor.ts"

const externalCalls: Array<ExternalCall> = []

const ports = Layer.mergeAll(
  EgressLive.layer({ allowPrivate: false }),
  Layer.succeed(ExternalModels, {
    stream: (call) =>
      Effect.sync(() => {
        externalCalls.push(call)
        return Stream.make(delta("from outside"))
      })
  }),
  Layer.succeed(Providers, {
    vendors: providers
      .filter(({ id }) => id !== "service")
      .map((provider) =>
        provider.id === "alpha"
          ? {
              ...provider,
              models: [
                model("large", { fileTypes: ["pdf", "image"], maxInputTokens: 900 }),
                model("plain", { supportsToolCall: false, maxOutputTokens: 123 })
              ]
            }
          : provider
      )
  })
)

const layer = Layer.suspend(() =>
  CallModel.layer.pipe(
    Layer.provideMerge(CompleteChat.layer),
    Layer.provideMerge(Layer.mergeAll(HoldKeeper.layer, Models.layer, ProviderKeyRing.layer, ports)),
    Layer.provideMerge(stores),
    Layer.provideMerge(vendor),
    Layer.provideMerge(Logger.layer([]))
  )
)

const behave = (script: Vendor["Service"]["script"]) =>
  Effect.map(Vendor, (vendor) => {
    vendor.script = script
  })

const call = (
  workspace: OrganizationId,
  settings: Partial<ModelCall["llm"]> = {},
  more: Partial<ModelCall> = {}
): ModelCall => ({
  workspace,
  llm: llm({ provider: "service", model: "priced", apiKey: "", ...settings }),
  caller: null,
  requestId: "request",
  request: { messages: [{ role: "user", content: "one two three" }] },
  ...more
})

const answerTo = (asked: ModelCall) =>
  Effect.gen(function* () {
    return yield* Stream.runCollect(yield* (yield* CallModel).stream(asked))
  }).pipe(Effect.scoped)

const rich = 1_000_000_000n

/** An organization with credit and an owner. */
const owned = Effect.gen(function* () {
  const organization = yield* account(rich)
  const members = yield* Members
  yield* members.insert(member(organization, { role: "admin" }))
  const owner = member(organization, { role: "owner" })
  yield* members.insert(owner)
  return { organization, owner }
})

const usage = { input: 10, cacheRead: 4, output: 3, reasoning: 2 }
const events: ReadonlyArray<CompletionEvent> = [delta("hello "), delta("world"), usageReported(usage)]

describe("models of provider service", () => {
  it.effect("are metered like any request: the ledger's entry is the usage", () =>
    Effect.gen(function* () {
      const { organization, owner } = yield* owned
      const caller = new Caller({
        organizationId: organization,
        memberId: owner.id,
        role: "owner",
        keyId: ApiKeyId.make("key")
      })
      yield* behave({ events: sending(...events) })
      assert.deepStrictEqual(yield* answerTo(call(organization, {}, { caller })), [...events])
      const cost = 14n * price.input + 5n * price.output
      assert.deepStrictEqual(yield* (yield* Ledger).credit(organization), {
        balance: nanoUsd(rich - cost),
        held: nanoUsd(0n)
      })
      const [event, ...others] = yield* (yield* UsageEvents).recent(
        { organizationId: organization, memberId: owner.id },
        10
      )
      assert.lengthOf(others, 0)
      assert.deepInclude(event, { model: "priced", cost: nanoUsd(cost), inputTokens: 14, outputTokens: 5 })
      assert.deepInclude((yield* LedgerWatch).settled[0]?.usage, usage)
    }).pipe(Effect.provide(layer))
  )

  it.effect("are the owner's to pay, under no key, while the runtime is open", () =>
    Effect.gen(function* () {
      const { organization, owner } = yield* owned
      yield* behave({ events: sending(...events) })
      yield* answerTo(call(organization))
      const { recent } = yield* UsageEvents
      assert.lengthOf(yield* recent({ organizationId: organization, memberId: owner.id }, 10), 1)
      assert.strictEqual(noKey, ApiKeyId.make("none"))

      const nobodys = yield* account(rich)
      const failure = yield* Effect.flip(answerTo(call(nobodys)))
      assert.strictEqual(failure.code, "invalid_request")
      assert.include(failure.message, "owner")
    }).pipe(Effect.provide(layer))
  )

  it.effect("are paid for as far as they were heard when nobody listens any more", () =>
    Effect.gen(function* () {
      const { organization } = yield* owned
      yield* behave({ events: Stream.concat(sending(delta("hello"), delta("world")), Stream.never) })
      const scope = yield* Scope.make()
      const answer = yield* Scope.provide((yield* CallModel).stream(call(organization)), scope)
      assert.deepStrictEqual(yield* Stream.runCollect(Stream.take(answer, 1)), [delta("hello")])
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Vendor).open, 0)
      assert.lengthOf((yield* LedgerWatch).settled, 1)
      assert.strictEqual((yield* LedgerWatch).settled[0]?.estimated, true)
    }).pipe(Effect.provide(layer))
  )

  it.effect("take the limit and the temperature of the agent", () =>
    Effect.gen(function* () {
      const { organization } = yield* owned
      yield* behave({ events: sending(...events) })
      yield* answerTo(call(organization, { maxOutputTokens: 7, temperature: 0.25 }))
      assert.deepInclude((yield* Vendor).calls[0]?.request, {
        model: "priced",
        max_completion_tokens: 7,
        temperature: 0.25,
        stream: true
      })
    }).pipe(Effect.provide(layer))
  )

  it.effect("say why there is no answer", () =>
    Effect.gen(function* () {
      const { organization } = yield* owned
      const poor = yield* account(0n)
      yield* (yield* Members).insert(member(poor, { role: "owner" }))
      const failing = Effect.fnUntraced(function* (asked: ModelCall) {
        const { code, recoverable } = yield* Effect.flip(answerTo(asked))
        return [code, recoverable]
      })
      assert.deepStrictEqual(yield* failing(call(poor)), ["insufficient_credits", false])
      assert.deepStrictEqual(yield* failing(call(organization, { model: "nothing" })), ["unknown_model", false])
      yield* behave({ before: Effect.fail(cutOff) })
      assert.deepStrictEqual(yield* failing(call(organization)), ["upstream_error", true])
      yield* behave({
        before: Effect.fail(new UpstreamFailed({ upstream: "scripted", reason: "rate_limited", detail: "" }))
      })
      assert.deepStrictEqual(yield* failing(call(organization)), ["rate_limited", true])
      yield* behave({ events: Stream.concat(sending(delta("hello")), Stream.fail(cutOff)) })
      assert.deepStrictEqual(yield* failing(call(organization)), ["upstream_error", true])
    }).pipe(Effect.provide(layer))
  )
})

describe("models with keys of the organization", () => {
  it.effect("cost no credit, by either router", () =>
    Effect.gen(function* () {
      const { organization } = yield* owned
      yield* behave({ events: sending(...events) })
      const settings = { provider: "alpha", model: "large", apiKey: "the key" }
      assert.deepStrictEqual(yield* answerTo(call(organization, settings)), [...events])
      const asked = (yield* Vendor).calls[0]
      assert.deepStrictEqual(asked?.route, { upstream: "alpha", upstreamModel: "large" })
      assert.deepStrictEqual(asked?.provider, { baseUrl: undefined })
      assert.strictEqual(
        Option.getOrUndefined(Option.map(Option.fromUndefinedOr(asked?.apiKey), Redacted.value)),
        "the key"
      )

      externalCalls.length = 0
      const outside = yield* answerTo(call(organization, { ...settings, model: "plain", router: "external-sdk" }))
      assert.deepStrictEqual(outside, [delta("from outside")])
      assert.deepInclude(externalCalls[0], { provider: "alpha", baseUrl: undefined, outputLimit: 123 })
      assert.deepStrictEqual(yield* (yield* Ledger).credit(organization), {
        balance: nanoUsd(rich),
        held: nanoUsd(0n)
      })
    }).pipe(Effect.provide(layer))
  )
})

describe("capabilities", () => {
  it.effect("are what the catalogue says; of what it does not know, everything", () =>
    Effect.gen(function* () {
      const { capabilities } = yield* CallModel
      assert.deepStrictEqual(yield* capabilities(llm({ provider: "alpha", model: "large" })), {
        takes: new Set(["file", "image"] as const),
        tools: true,
        maxInputTokens: 900
      })
      assert.deepInclude(yield* capabilities(llm({ provider: "alpha", model: "plain", maxInputTokens: 5 })), {
        takes: new Set<never>(),
        tools: false,
        maxInputTokens: 5
      })
      assert.deepStrictEqual(yield* capabilities(llm({ provider: "anywhere", model: "mine" })), {
        takes: new Set(["file", "audio", "image"] as const),
        tools: true,
        maxInputTokens: undefined
      })
      assert.deepStrictEqual(yield* capabilities(llm({ provider: "service", model: "priced" })), {
        takes: new Set<never>(),
        tools: true,
        maxInputTokens: 10_000
      })
    }).pipe(Effect.provide(layer))
  )

  it.effect("are looked at before anything is sent", () =>
    Effect.gen(function* () {
      const { organization } = yield* owned
      const failure = yield* Effect.flip(
        answerTo(
          call(
            organization,
            { provider: "alpha", model: "plain", apiKey: "key" },
            {
              request: {
                messages: [
                  {
                    role: "user",
                    content: [
                      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
                      { type: "file", file: { file_data: "data:application/pdf;base64,AAAA" } }
                    ]
                  },
                  {
                    role: "assistant",
                    tool_calls: [{ id: "call", type: "function", function: { name: "tool", arguments: "{}" } }]
                  },
                  {
                    role: "tool",
                    tool_call_id: "call",
                    content: [{ type: "media", data: "AAAA", mediaType: "audio/wav" }]
                  }
                ],
                tools: [{ type: "function", function: { name: "tool" } }]
              }
            }
          )
        )
      )
      assert.deepStrictEqual([failure.code, failure.recoverable], ["unsupported_input", false])
      assert.include(failure.message, 'The model "plain" takes no images and no files and no audio and no tools.')
      assert.lengthOf((yield* Vendor).calls, 0)
    }).pipe(Effect.provide(layer))
  )
})

it.live("the model echo answers an agent of a deployment that has no key at all", () =>
  Effect.gen(function* () {
    const { organization } = yield* owned
    const asked = call(organization, { model: "echo" })
    const { tools } = yield* (yield* CallModel).capabilities(asked.llm)
    assert.isTrue(tools)
    const folded = new Folded()
    for (const event of yield* answerTo(asked)) folded.add(event)
    assert.strictEqual(folded.completion.choices[0]?.content, "one two three")
    assert.strictEqual(folded.completion.choices[0]?.finishReason, "stop")
    assert.isAbove(folded.completion.usage?.output ?? 0, 0)
  }).pipe(
    Effect.provide(
      CallModel.layer.pipe(
        Layer.provideMerge(CompleteChat.layer),
        Layer.provide(ports),
        Layer.provide([HoldKeeper.layer, Models.layer]),
        Layer.provide([Catalogue.layer({ providers: [], modelsFile: undefined, echo: true }), VendorsLive.layer([])]),
        Layer.provide(EgressLive.layer({ allowPrivate: false })),
        Layer.provideMerge(stores),
        Layer.provide([TokenizerLive.layer, IdsLive.layer, SecretsLive.layerNone, NodeServices.layer])
      )
    )
  )
)
