import { NodeServices } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer, Result, Stream } from "effect"
import * as Catalogue from "model-gateway/adapters/catalogue/Catalogue"
import { parse } from "model-gateway/adapters/catalogue/ModelsFile"
import * as IdsLive from "model-gateway/adapters/crypto/IdsLive"
import * as KeyTextsLive from "model-gateway/adapters/crypto/KeyTextsLive"
import * as SecretsLive from "model-gateway/adapters/crypto/SecretsLive"
import * as EgressLive from "model-gateway/adapters/egress/EgressLive"
import * as InMemoryLive from "model-gateway/adapters/inmemory/InMemoryLive"
import * as PostgresLive from "model-gateway/adapters/postgres/PostgresLive"
import * as TokenizerLive from "model-gateway/adapters/tokenizer/TokenizerLive"
import * as VendorsLive from "model-gateway/adapters/vendors/VendorsLive"
import { GetBillingSummary } from "model-gateway/application/billing/GetBillingSummary"
import { HoldKeeper } from "model-gateway/application/billing/HoldKeeper"
import { Models } from "model-gateway/application/catalog/Models"
import { CompleteChat } from "model-gateway/application/completion/CompleteChat"
import { Accounts } from "model-gateway/application/identity/Accounts"
import { Authenticate } from "model-gateway/application/identity/Authenticate"
import { Ledger } from "model-gateway/application/ports/storage/Ledger"
import { fromUsd, nanoUsd } from "model-gateway/domain/shared/Money"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * The use cases in a program that serves nothing: imported by the package's name, over the stores that the program
 * chooses.
 */

/** USD per million tokens, so that a token costs whole micro-USD. */
const price = { input: 1, output: 2 }

const catalogue = Catalogue.layer({
  providers: [],
  echo: true,
  modelsFile: Result.getOrThrow(
    parse(`models: [{ id: echo, pricing: { input: ${price.input}, output: ${price.output} } }]`, "models.yml")
  )
})

const Runtime = Layer.mergeAll(IdsLive.layer, KeyTextsLive.layer, SecretsLive.layerNone, TokenizerLive.layer)

const useCases = Layer.mergeAll(CompleteChat.layer, GetBillingSummary.layer, Accounts.layer, Authenticate.layer).pipe(
  Layer.provide([HoldKeeper.layer, Models.layer]),
  Layer.provide([catalogue, VendorsLive.layer([])]),
  Layer.provide(EgressLive.layer({ allowPrivate: false })),
  Layer.provide([Runtime, NodeServices.layer])
)

const onPglite = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "gateway-embedding-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
    ),
    PostgresLive.layerEmbedded
  )
).pipe(Layer.provide([SecretsLive.layerNone, NodeServices.layer]))

const stores = [
  { store: "in-memory stores", storage: Layer.fresh(InMemoryLive.layer) },
  { store: "PGlite", storage: onPglite }
]

/** A caller of an organization of its own, with so much credit. */
const signUp = Effect.fnUntraced(function* (credit: number) {
  const accounts = yield* Accounts
  const { id, name: organization } = yield* accounts.createOrganization(crypto.randomUUID())
  yield* accounts.addMember({ organization, name: "worker", role: "owner" })
  yield* accounts.grantCredit({ organization, amount: fromUsd(credit), note: "test" })
  const { text } = yield* accounts.issueKey({ organization, name: "worker" })
  return { caller: yield* (yield* Authenticate).byKey(text), organization: id }
})

const request = (content: string, fields: { readonly max_tokens?: number } = {}) => ({
  model: "echo",
  messages: [{ role: "user", content }] as const,
  ...fields
})

describe.each(stores)("the use cases without HTTP, on $store", ({ storage }) => {
  layer(useCases.pipe(Layer.provideMerge(storage)), { timeout: "1 minute", excludeTestServices: true })((it) => {
    it.effect("a completion is paid for once", () =>
      Effect.gen(function* () {
        const { caller, organization } = yield* signUp(1)
        const chat = yield* CompleteChat
        const { completion, cost, usage } = yield* chat.complete({
          caller,
          request: request("Hello from a worker"),
          requestId: "job-1"
        })
        assert.strictEqual(completion.choices[0]?.content, "Hello from a worker")
        assert.strictEqual(cost, nanoUsd(BigInt(usage.input * price.input + usage.output * price.output) * 1000n))
        assert.isTrue(cost > 0n)

        const credit = yield* (yield* Ledger).credit(organization)
        assert.deepStrictEqual(credit, { balance: nanoUsd(fromUsd(1) - cost), held: nanoUsd(0n) })
        const summary = yield* (yield* GetBillingSummary).of(caller)
        assert.strictEqual(summary.balance, credit.balance)
        assert.deepStrictEqual(
          summary.recent.map(({ cost, model }) => ({ cost, model })),
          [{ cost, model: "echo" }]
        )
      })
    )

    it.effect("a stream ends with what it cost", () =>
      Effect.gen(function* () {
        const { caller, organization } = yield* signUp(1)
        const chat = yield* CompleteChat
        const events = yield* Effect.scoped(
          Effect.flatMap(
            chat.stream({ caller, request: request("one two three"), requestId: "job-2" }),
            Stream.runCollect
          )
        )
        const words = events.map((event) => (event._tag === "Delta" ? (event.content ?? "") : ""))
        assert.strictEqual(words.join(""), "one two three")
        assert.isAbove(words.filter((word) => word !== "").length, 1)
        const last = events.at(-1)
        if (last?._tag !== "Settled") return assert.fail("the stream did not end with its settlement")
        const { balance } = yield* (yield* Ledger).credit(organization)
        assert.strictEqual(balance, nanoUsd(fromUsd(1) - last.cost))
      })
    )

    it.effect("leaving a stream ends its hold with what was delivered", () =>
      Effect.gen(function* () {
        const { caller, organization } = yield* signUp(1)
        const chat = yield* CompleteChat
        const words = request("nobody waits for the end of this ".repeat(20))
        const whole = yield* chat.complete({ caller, request: words, requestId: "job-3" })
        yield* Effect.scoped(
          Effect.flatMap(chat.stream({ caller, request: words, requestId: "job-4" }), (events) =>
            Stream.runDrain(Stream.take(events, 10))
          )
        )
        const { balance, held } = yield* (yield* Ledger).credit(organization)
        const cost = fromUsd(1) - whole.cost - balance
        assert.strictEqual(held, 0n)
        assert.isTrue(cost > 0n && cost < whole.cost, `${cost} of ${whole.cost}`)
      })
    )

    it.effect("without credit there is no completion, and the error says so", () =>
      Effect.gen(function* () {
        const { caller } = yield* signUp(0.000_01)
        const chat = yield* CompleteChat
        const call = { caller, request: request("Hello", { max_tokens: 1000 }), requestId: "job-5" }
        const error = yield* Effect.flip(chat.complete(call))
        assert.strictEqual(error._tag, "InsufficientCredits")
      })
    )
  })
})
