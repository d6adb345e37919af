import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Redacted, Schema, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { HoldKeeper } from "../../src/application/billing/HoldKeeper.ts"
import { Models } from "../../src/application/catalog/Models.ts"
import { type ChatCall, type ChatEvent, CompleteChat } from "../../src/application/completion/CompleteChat.ts"
import { ProviderKeyRing } from "../../src/application/identity/ProviderKeyRing.ts"
import { type Credit, Ledger } from "../../src/application/ports/storage/Ledger.ts"
import { UsageEvents } from "../../src/application/ports/storage/UsageEvents.ts"
import type { ChatRequest } from "../../src/domain/completion/ChatRequest.ts"
import { UpstreamRefused } from "../../src/domain/completion/CompletionErrors.ts"
import { Caller } from "../../src/domain/identity/ApiKey.ts"
import { ProviderName } from "../../src/domain/identity/ProviderKey.ts"
import { ApiKeyId, MemberId, type OrganizationId } from "../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../src/domain/shared/Money.ts"
import { account } from "../conformance/Samples.ts"
import { LedgerWatch, stores } from "./Ledgers.ts"
import { cutOff, delta, layer as vendor, price, saying, sending, usageReported, Vendor } from "./Vendor.ts"

const layer = Layer.suspend(() =>
  CompleteChat.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(HoldKeeper.layer, Models.layer, ProviderKeyRing.layer)),
    Layer.provideMerge(stores),
    Layer.provideMerge(vendor)
  )
)

/** Three words; with what vendors add around them, ten tokens. */
const question = "one two three"
const inputTokens = 10
const costOf = (output: number, input = inputTokens) => BigInt(input) * price.input + BigInt(output) * price.output

const call = (organizationId: OrganizationId, request: Partial<ChatRequest> = {}): ChatCall => ({
  caller: new Caller({
    organizationId,
    memberId: MemberId.make("member"),
    role: "member",
    keyId: ApiKeyId.make("key")
  }),
  request: { model: "priced", messages: [{ role: "user", content: question }], ...request },
  requestId: "request"
})

const behave = (script: Vendor["Service"]["script"]) =>
  Effect.map(Vendor, (vendor) => {
    vendor.script = script
  })

const creditOf = (organization: OrganizationId) => Effect.flatMap(Ledger, ({ credit }) => credit(organization))

const assertCredit = Effect.fnUntraced(function* (organization: OrganizationId, balance: bigint, held = 0n) {
  const expected: Credit = { balance: nanoUsd(balance), held: nanoUsd(held) }
  assert.deepStrictEqual(yield* creditOf(organization), expected)
})

/** The hold ended once, in this way, the upstream's connection is closed, and nothing changes any more. */
const assertEnded = Effect.fnUntraced(function* (how: "settled" | "released") {
  const watch = yield* LedgerWatch
  assert.strictEqual((yield* Vendor).open, 0)
  yield* TestClock.adjust("2 minutes")
  assert.deepStrictEqual(
    { settled: watch.settled.length, released: watch.released.length },
    how === "settled" ? { settled: 1, released: 0 } : { settled: 0, released: 1 }
  )
})

/** What the ledger says while the upstream is being asked. */
const creditDuringCall = Effect.fnUntraced(function* (chat: ChatCall) {
  const seen: Array<Credit> = []
  const ledger = yield* Ledger
  yield* behave({
    before: Effect.map(ledger.credit(chat.caller.organizationId), (credit) => void seen.push(credit)),
    completion: saying("", { input: 1 })
  })
  yield* (yield* CompleteChat).complete(chat)
  return seen[0]
})

const rich = 1_000_000_000n

describe("CompleteChat", () => {
  describe("holds", () => {
    it.effect("the input and max_tokens while the upstream works", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        for (const limit of [{ max_tokens: 5 }, { max_completion_tokens: 5 }]) {
          assert.strictEqual((yield* creditDuringCall(call(organization, limit)))?.held, costOf(5))
        }
        const { calls } = yield* Vendor
        assert.deepStrictEqual(
          calls.map(({ outputCap }) => outputCap),
          [undefined, undefined]
        )
      }).pipe(Effect.provide(layer))
    )

    it.effect("no more output than the model can give, asked for or not", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        for (const limit of [{ max_tokens: 5_000 }, {}]) {
          assert.strictEqual((yield* creditDuringCall(call(organization, limit)))?.held, costOf(100))
        }
        assert.isTrue((yield* Vendor).calls.every(({ outputCap }) => outputCap === undefined))
      }).pipe(Effect.provide(layer))
    )

    it.effect("what there is when max_tokens is absent, and caps the upstream by it", () =>
      Effect.gen(function* () {
        const organization = yield* account(costOf(20) + price.output - 1n)
        const during = yield* creditDuringCall(call(organization))
        assert.strictEqual(during?.held, during?.balance)
        assert.deepStrictEqual(
          (yield* Vendor).calls.map(({ outputCap }) => outputCap),
          [20]
        )
      }).pipe(Effect.provide(layer))
    )

    it.effect("the tier that a long input selects", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const long = call(organization, {
          messages: [{ role: "user", content: "word ".repeat(1_000) }],
          max_tokens: 5
        })
        assert.strictEqual((yield* creditDuringCall(long))?.held, 2n * costOf(5, 1_007))
      }).pipe(Effect.provide(layer))
    )

    it.effect("nothing for a model without a price, or by the organization's own key", () =>
      Effect.gen(function* () {
        const poor = yield* account()
        yield* (yield* ProviderKeyRing).set(poor, ProviderName.make("openai"), Redacted.make("sk-own"))
        for (const request of [{ model: "free" }, { access_method: "vendor-b-api-key" }] as const) {
          assert.strictEqual((yield* creditDuringCall(call(poor, request)))?.held, 0n)
        }
        yield* assertCredit(poor, 0n)
        const totals = yield* (yield* UsageEvents).totals({ organizationId: poor, memberId: null }, 0)
        assert.deepStrictEqual(totals, { cost: nanoUsd(0n), events: 2 })
        const keys = (yield* Vendor).calls.map(({ apiKey }) => apiKey && Redacted.value(apiKey))
        assert.deepStrictEqual(keys, [undefined, "sk-own"])
      }).pipe(Effect.provide(layer))
    )
  })

  describe("without enough credit", () => {
    for (const [title, request, credit] of [
      ["max_tokens", { max_tokens: 5 }, costOf(5) - 1n],
      ["one token of output", {}, costOf(1) - 1n]
    ] as const) {
      it.effect(`for ${title} refuses before any upstream is called`, () =>
        Effect.gen(function* () {
          const organization = yield* account(credit)
          const chat = yield* CompleteChat
          const refused = yield* Effect.flip(chat.complete(call(organization, request)))
          assert.strictEqual(refused._tag, "InsufficientCredits")
          const alsoRefused = yield* Effect.flip(Effect.scoped(chat.stream(call(organization, request))))
          assert.strictEqual(alsoRefused._tag, "InsufficientCredits")
          assert.deepStrictEqual((yield* Vendor).calls, [])
          yield* assertCredit(organization, credit)
        }).pipe(Effect.provide(layer))
      )
    }

    it.effect("serves as many parallel requests as there is credit for", () =>
      Effect.gen(function* () {
        const organization = yield* account(costOf(5))
        yield* behave({ before: Effect.yieldNow, completion: saying("a b c d e", { input: inputTokens, output: 5 }) })
        const chat = yield* CompleteChat
        const exits = yield* Effect.all(
          Array.from({ length: 100 }, () => Effect.exit(chat.complete(call(organization, { max_tokens: 5 })))),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(exits.filter(Exit.isSuccess).length, 1)
        assert.strictEqual((yield* Vendor).calls.length, 1)
        yield* assertCredit(organization, 0n)
      }).pipe(Effect.provide(layer))
    )
  })

  describe("a whole answer", () => {
    it.effect("costs what the vendor reports, every bucket at its price", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const usage = { input: 7, cacheRead: 2, cacheWrite: 1, output: 3, reasoning: 4 }
        yield* behave({ completion: saying("whatever it says", usage) })
        const answer = yield* (yield* CompleteChat).complete(call(organization))
        assert.deepStrictEqual(answer.usage, usage)
        assert.strictEqual(answer.cost, costOf(7))
        yield* assertCredit(organization, rich - costOf(7))
        yield* assertEnded("settled")
        assert.isFalse((yield* LedgerWatch).settled[0]?.estimated)
      }).pipe(Effect.provide(layer))
    )

    it.effect("is counted here when the vendor reports no usage", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ completion: saying("four words of answer") })
        const answer = yield* (yield* CompleteChat).complete(call(organization))
        assert.strictEqual(answer.cost, costOf(4))
        yield* assertCredit(organization, rich - costOf(4))
        yield* assertEnded("settled")
        assert.isTrue((yield* LedgerWatch).settled[0]?.estimated)
      }).pipe(Effect.provide(layer))
    )

    it.effect("is never charged above the hold", () =>
      Effect.gen(function* () {
        const organization = yield* account(costOf(5) + 1n)
        yield* behave({ completion: saying("too much", { input: inputTokens, output: 1_000 }) })
        const answer = yield* (yield* CompleteChat).complete(call(organization, { max_tokens: 5 }))
        assert.strictEqual(answer.cost, costOf(5))
        yield* assertCredit(organization, 1n)
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs nothing when the upstream fails or refuses", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const { complete } = yield* CompleteChat
        const refused = new UpstreamRefused({ upstream: "scripted", status: 400, said: "no" })
        for (const error of [cutOff, refused]) {
          yield* behave({ before: Effect.fail(error) })
          assert.strictEqual(yield* Effect.flip(complete(call(organization))), error)
          yield* assertCredit(organization, rich)
        }
        assert.strictEqual((yield* LedgerWatch).released.length, 2)
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs nothing when the caller leaves before it", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ before: Effect.never })
        const request = yield* Effect.forkChild((yield* CompleteChat).complete(call(organization)))
        yield* TestClock.adjust("3 minutes")
        yield* assertCredit(organization, rich, costOf(100))
        yield* Fiber.interrupt(request)
        yield* assertCredit(organization, rich)
        yield* assertEnded("released")
      }).pipe(Effect.provide(layer))
    )
  })

  describe("a stream", () => {
    it.effect("passes everything on and ends with what it cost", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const usage = { input: 9, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 1 }
        const events = [delta("hello"), delta("world"), usageReported({ input: 1 }), usageReported(usage)]
        yield* behave({ events: sending(...events) })
        const { stream } = yield* CompleteChat
        const received = yield* Effect.scoped(Effect.flatMap(stream(call(organization)), Stream.runCollect))
        const settled: ChatEvent = { _tag: "Settled", usage, cost: nanoUsd(costOf(3, 9)) }
        assert.deepStrictEqual(received, [...events, settled])
        yield* assertCredit(organization, rich - costOf(3, 9))
        yield* assertEnded("settled")
        assert.isFalse((yield* LedgerWatch).settled[0]?.estimated)
      }).pipe(Effect.provide(layer))
    )

    it.effect("has ended its hold when its last event is there", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ events: sending(delta("one two")) })
        const { stream } = yield* CompleteChat
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* Stream.runDrain(yield* stream(call(organization)))
            yield* assertCredit(organization, rich - costOf(2))
          })
        )
        yield* assertEnded("settled")
      }).pipe(Effect.provide(layer))
    )

    it.effect("counts text, refusals, reasoning and tool calls when the vendor reports no usage", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({
          events: sending(
            { _tag: "Delta", index: 0, role: "assistant" },
            delta("one "),
            delta("two "),
            { _tag: "Delta", index: 0, refusal: "three " },
            { _tag: "Delta", index: 0, reasoning: "four five" },
            { _tag: "Delta", index: 0, toolCalls: [{ index: 0, id: "call", name: "six ", arguments: "seven" }] },
            { _tag: "Delta", index: 0, finishReason: "tool_calls" }
          )
        })
        const { stream } = yield* CompleteChat
        const received = yield* Effect.scoped(Effect.flatMap(stream(call(organization)), Stream.runCollect))
        const last = received.at(-1)
        assert.deepStrictEqual(last?._tag === "Settled" ? last.usage : undefined, {
          input: inputTokens,
          cacheRead: 0,
          cacheWrite: 0,
          output: 5,
          reasoning: 2
        })
        yield* assertCredit(organization, rich - costOf(7))
        assert.isTrue((yield* LedgerWatch).settled[0]?.estimated)
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs nothing when the upstream fails before the first event", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ before: Effect.fail(cutOff) })
        const { stream } = yield* CompleteChat
        assert.strictEqual(yield* Effect.flip(Effect.scoped(stream(call(organization)))), cutOff)
        yield* assertCredit(organization, rich)
        yield* assertEnded("released")
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs what was delivered when the upstream breaks off", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ events: Stream.concat(sending(delta("one "), delta("two")), Stream.fail(cutOff)) })
        const { stream } = yield* CompleteChat
        const received: Array<ChatEvent> = []
        const error = yield* Effect.scoped(
          Effect.flatMap(stream(call(organization)), (events) =>
            Effect.flip(Stream.runForEach(events, (event) => Effect.sync(() => received.push(event))))
          )
        )
        assert.strictEqual(error, cutOff)
        assert.deepStrictEqual(received, [delta("one "), delta("two")])
        yield* assertCredit(organization, rich - costOf(2))
        yield* assertEnded("settled")
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs the input that the vendor told, with the text that was delivered, when it breaks off", () =>
      Effect.gen(function* () {
        for (const said of [[], [delta("one "), delta("two")]]) {
          const organization = yield* account(rich)
          const told = { ...usageReported({ input: 30, cacheRead: 4, output: 1 }), isOfInput: true as const }
          yield* behave({ events: Stream.concat(sending(told, ...said), Stream.fail(cutOff)) })
          const { stream } = yield* CompleteChat
          yield* Effect.flip(Effect.scoped(Effect.flatMap(stream(call(organization)), Stream.runDrain)))
          yield* assertCredit(organization, rich - costOf(said.length, 34))
          assert.deepInclude((yield* LedgerWatch).settled.at(-1)?.usage, {
            input: 30,
            cacheRead: 4,
            output: said.length
          })
        }
      }).pipe(Effect.provide(layer))
    )

    it.effect("stops the upstream and costs what was delivered, once, when the caller leaves", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ events: Stream.concat(sending(delta("one "), delta("two ")), Stream.never) })
        const { stream } = yield* CompleteChat
        const reader = yield* Effect.forkChild(
          Effect.scoped(Effect.flatMap(stream(call(organization)), Stream.runDrain))
        )
        yield* TestClock.adjust("3 minutes")
        assert.strictEqual((yield* Vendor).open, 1)
        yield* assertCredit(organization, rich, costOf(100))
        yield* Fiber.interrupt(reader)
        yield* assertCredit(organization, rich - costOf(2))
        yield* assertEnded("settled")
      }).pipe(Effect.provide(layer))
    )

    it.effect("is ended once, at whatever moment the caller leaves", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const watch = yield* LedgerWatch
        yield* behave({ events: sending(delta("one "), delta("two ")) })
        const { stream } = yield* CompleteChat
        // As an answer is written: by a child of the request, whose scope closes first.
        const answered = Effect.scoped(
          Effect.gen(function* () {
            const events = yield* stream(call(organization))
            const writing = yield* Effect.forkChild(Stream.runDrain(events), { startImmediately: true })
            yield* Fiber.await(writing)
          })
        )
        let moments = 0
        for (let isOver = false; !isOver; moments++) {
          const reader = yield* Effect.forkChild(answered, { startImmediately: true })
          for (let moment = 0; moment < moments; moment++) yield* Effect.yieldNow
          yield* Fiber.interrupt(reader)
          isOver = Exit.isSuccess(yield* Fiber.await(reader))
        }
        assert.isAbove(moments, 4)
        const ended = [...watch.settled.map(({ holdId }) => holdId), ...watch.released]
        assert.strictEqual(new Set(ended).size, ended.length)
        assert.isAbove(watch.settled.length, 1)
      }).pipe(Effect.provide(layer))
    )

    it.effect("costs nothing when the caller leaves before the first event", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ before: Effect.never })
        const { stream } = yield* CompleteChat
        const reader = yield* Effect.forkChild(Effect.scoped(stream(call(organization))))
        yield* TestClock.adjust("1 minute")
        yield* Fiber.interrupt(reader)
        yield* assertCredit(organization, rich)
        yield* assertEnded("released")
      }).pipe(Effect.provide(layer))
    )

    it.effect("is charged by its last checkpoint when its process is killed", () =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        yield* behave({ events: Stream.concat(sending(delta("one "), delta("two ")), Stream.never) })
        const killed = yield* Scope.make()
        const ofProcess = yield* Layer.buildWithScope(
          CompleteChat.layer.pipe(Layer.provide(HoldKeeper.layer), Layer.fresh),
          killed
        )
        const { stream } = yield* Effect.provide(CompleteChat, ofProcess)
        yield* Effect.forkChild(Effect.scoped(Effect.flatMap(stream(call(organization)), Stream.runDrain)))
        yield* Effect.repeat(Effect.yieldNow, { times: 100 })
        yield* TestClock.adjust("10 seconds")
        yield* Scope.close(killed, Exit.void)
        yield* assertCredit(organization, rich, costOf(100))
        yield* TestClock.adjust("1 minute")
        yield* assertCredit(organization, rich - costOf(2))
      }).pipe(Effect.provide(layer))
    )
  })

  it.effect.prop(
    "ends every request once, wherever it is interrupted, and charges what was delivered",
    {
      pieces: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 }))).check(
        Schema.isMaxLength(12)
      ),
      ending: Schema.Literals(["well", "with usage", "cut off", "never"]),
      patience: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 120 }))
    },
    ({ ending, patience, pieces }) =>
      Effect.gen(function* () {
        const organization = yield* account(rich)
        const watch = yield* LedgerWatch
        const sent = pieces.map((words) => delta("word ".repeat(words)))
        const last = {
          well: Stream.empty,
          "with usage": sending(usageReported({ input: 50, output: 60 })),
          "cut off": Stream.fail(cutOff),
          never: Stream.never
        }[ending]
        yield* behave({ before: Effect.yieldNow, events: Stream.concat(sending(...sent), last) })

        const { stream } = yield* CompleteChat
        let seen = 0
        let bill: bigint | undefined
        const reader = yield* Effect.forkChild(
          Effect.scoped(
            Effect.flatMap(stream(call(organization)), (events) =>
              Stream.runForEach(events, (event) =>
                Effect.sync(() => {
                  if (event._tag === "Delta") seen++
                  if (event._tag === "Settled") bill = event.cost
                })
              )
            )
          )
        )
        yield* Effect.repeat(Effect.yieldNow, { times: patience })
        yield* Fiber.interrupt(reader)

        const { balance, held } = yield* creditOf(organization)
        const charged = rich - balance
        const words = (count: number) => pieces.slice(0, count).reduce((sum, piece) => sum + piece, 0)
        // The event that was on its way when the reader left may be on the bill or not.
        const bills = new Set(
          watch.settled.length === 0
            ? [0n]
            : [costOf(words(seen)), costOf(words(seen + 1)), ...(ending === "with usage" ? [costOf(60, 50)] : [])]
        )
        assert.isTrue(bills.has(charged), `charged ${charged} of ${[...bills].join(" or ")}`)
        assert.strictEqual(held, 0n)
        assert.isTrue(bill === undefined || bill === charged)
        assert.isAtMost(watch.settled.length + watch.released.length, 1)
        assert.isTrue(words(seen) === 0 || watch.settled.length === 1)
        assert.strictEqual((yield* Vendor).open, 0)
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* creditOf(organization)).balance, balance)
        assert.isAtMost(watch.settled.length + watch.released.length, 1)
      }).pipe(Effect.provide(layer)),
    { arbitrary: { runs: 300 } }
  )
})
