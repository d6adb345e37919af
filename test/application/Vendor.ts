import { Context, Effect, Layer, Option, Stream } from "effect"
import { Ids } from "../../src/application/ports/runtime/Ids.ts"
import { Tokenizer } from "../../src/application/ports/runtime/Tokenizer.ts"
import { type CatalogEntry, ModelCatalog } from "../../src/application/ports/vendor/ModelCatalog.ts"
import { type CallError, type UpstreamCall, Upstreams } from "../../src/application/ports/vendor/Upstreams.ts"
import type { Usage } from "../../src/domain/billing/Usage.ts"
import { none } from "../../src/domain/billing/Usage.ts"
import type { Model } from "../../src/domain/catalog/Model.ts"
import { free, type Pricing } from "../../src/domain/catalog/Pricing.ts"
import type { Completion } from "../../src/domain/completion/Completion.ts"
import { UpstreamFailed } from "../../src/domain/completion/CompletionErrors.ts"
import type { CompletionEvent, UsageReported } from "../../src/domain/completion/CompletionEvent.ts"
import { ModelId } from "../../src/domain/shared/Ids.ts"

/** How the vendor behaves at its next call. */
export interface Script {
  /** Runs before the first event or the whole answer; a failure here is one of the call. */
  readonly before?: Effect.Effect<void, CallError>
  /** What a stream sends, each when it is pulled. */
  readonly events?: Stream.Stream<CompletionEvent, UpstreamFailed>
  readonly completion?: Completion
}

/** A vendor that does what a test tells it, and remembers what it was asked and which connections are still open. */
export class Vendor extends Context.Service<
  Vendor,
  { script: Script; readonly calls: Array<UpstreamCall>; open: number }
>()("test/Vendor") {
  static readonly layer = Layer.sync(Vendor, () => Vendor.of({ script: {}, calls: [], open: 0 }))
}

const upstreams = Layer.effect(
  Upstreams,
  Effect.map(Vendor, (vendor) => {
    const connect = (call: UpstreamCall) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          vendor.calls.push(call)
          vendor.open++
          return vendor.script
        }),
        () => Effect.sync(() => vendor.open--)
      )
    return Upstreams.of({
      complete: (call) =>
        Effect.scoped(
          Effect.gen(function* () {
            const { before = Effect.void, completion = saying("hello") } = yield* connect(call)
            yield* before
            return completion
          })
        ),
      stream: (call) =>
        Effect.gen(function* () {
          const { before = Effect.void, events = Stream.empty } = yield* connect(call)
          yield* before
          return events
        })
    })
  })
)

/** 1,000 nano-USD for a token of input, 2,000 for one of output, twice that above 1,000 tokens of input. */
export const price = { input: 1_000n, output: 2_000n }
const million = 1_000_000n
export const pricing: Pricing = {
  ...free,
  input: price.input * million,
  output: price.output * million,
  longContext: {
    inputTokensAbove: 1_000,
    input: 2n * price.input * million,
    output: 2n * price.output * million,
    cacheRead: null,
    cacheWrite: null
  }
}

const entry = (id: string, { pricing, routes }: { pricing: Pricing | null; routes: CatalogEntry["routes"] }) => {
  const model: Model = {
    id: ModelId.make(id),
    name: id,
    created: 0,
    accessMethods: ["service", "vendor-b-api-key"],
    input: ["text"],
    output: ["text"],
    maxInputTokens: 10_000,
    maxOutputTokens: 100,
    reasoning: true,
    supportsToolCall: true,
    pricing
  }
  return { model, routes }
}

const service = { method: "service", upstream: "scripted", upstreamModel: "upstream-model" } as const
const entries = [
  entry("priced", { pricing, routes: [service, { ...service, method: "vendor-b-api-key" }] }),
  entry("free", { pricing: null, routes: [service] })
]

const catalog = Layer.succeed(ModelCatalog, {
  entries,
  find: (id) => Option.fromUndefinedOr(entries.find(({ model }) => model.id === id))
})

const words = Layer.succeed(Tokenizer, { count: (text) => text.split(/\s+/).filter((word) => word !== "").length })

const countingIds = Layer.sync(Ids, () => {
  let last = 0
  return Ids.of({ next: Effect.sync(() => `id-${++last}`) })
})

/** Everything that a chat needs but the stores. A token is a word. */
export const layer = Layer.mergeAll(upstreams, catalog, words, countingIds).pipe(Layer.provideMerge(Vendor.layer))

/** A whole answer of one choice. Without a usage, the vendor reports none. */
export const saying = (content: string, usage?: Partial<Usage>): Completion => ({
  choices: [{ index: 0, finishReason: "stop", content }],
  ...(usage === undefined ? {} : { usage: { ...none, ...usage } })
})

export const delta = (content: string): CompletionEvent => ({ _tag: "Delta", index: 0, content })

export const usageReported = (usage: Partial<Usage>): UsageReported => ({
  _tag: "Usage",
  usage: { ...none, ...usage }
})

/** These events, one by one, with a pause before each so that others come in between. */
export const sending = (...events: ReadonlyArray<CompletionEvent>): Stream.Stream<CompletionEvent> =>
  Stream.fromIterable(events).pipe(
    Stream.rechunk(1),
    Stream.tap(() => Effect.yieldNow)
  )

export const cutOff = new UpstreamFailed({ upstream: "scripted", reason: "cut_off", detail: "the connection broke" })
