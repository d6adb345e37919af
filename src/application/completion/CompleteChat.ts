import { Cause, Context, Deferred, Effect, Layer, Pull, Scope, Stream } from "effect"
import type { InsufficientCredits } from "../../domain/billing/BillingErrors.ts"
import { affordableOutput, costOf, worstCost } from "../../domain/billing/Cost.ts"
import type { Settlement } from "../../domain/billing/CreditHold.ts"
import { none, type Usage } from "../../domain/billing/Usage.ts"
import type { AccessMethodNotOffered, ModelNotFound, NoKeyForAccessMethod } from "../../domain/catalog/CatalogErrors.ts"
import type { Pricing } from "../../domain/catalog/Pricing.ts"
import { type ChatRequest, outputLimit } from "../../domain/completion/ChatRequest.ts"
import type { Completion } from "../../domain/completion/Completion.ts"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import { Delivered } from "../../domain/completion/Delivered.ts"
import type { Caller } from "../../domain/identity/ApiKey.ts"
import type { RateLimited } from "../../domain/ratelimit/RatePolicy.ts"
import { HoldId } from "../../domain/shared/Ids.ts"
import { type NanoUsd, toUsd, zero } from "../../domain/shared/Money.ts"
import { HoldKeeper } from "../billing/HoldKeeper.ts"
import { Models } from "../catalog/Models.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { Tokenizer } from "../ports/runtime/Tokenizer.ts"
import { Ledger, type RateClaim } from "../ports/storage/Ledger.ts"
import { type CallError, type UpstreamCall, Upstreams } from "../ports/vendor/Upstreams.ts"
import { spans } from "../Spans.ts"
import { countInput } from "./InputTokens.ts"

export interface ChatCall {
  readonly caller: Caller
  readonly request: ChatRequest
  readonly requestId: string
  /** Where the caller's requests are limited: counted with the hold, in one write. */
  readonly rate?: RateClaim
}

/** What a request used and what the account was charged for it. */
export interface Charged {
  readonly usage: Usage
  readonly cost: NanoUsd
}

/** What a stream gives: the vendor's events, and at its good end one `Settled`. */
export type ChatEvent = CompletionEvent | ({ readonly _tag: "Settled" } & Charged)

export type ChatError =
  | ModelNotFound
  | AccessMethodNotOffered
  | NoKeyForAccessMethod
  | InsufficientCredits
  | RateLimited
  | CallError

/**
 * One chat completion, paid for exactly once: a hold for the worst case, the upstream call, then one settlement at what
 * was used, or a release. However a request ends (error, interruption, the death of the process) its hold ends too.
 */
export class CompleteChat extends Context.Service<
  CompleteChat,
  {
    readonly complete: (call: ChatCall) => Effect.Effect<{ readonly completion: Completion } & Charged, ChatError>
    /**
     * Succeeds when the first event is there. Closing the scope early stops the upstream and charges what was delivered.
     */
    readonly stream: (call: ChatCall) => Effect.Effect<Stream.Stream<ChatEvent, UpstreamFailed>, ChatError, Scope.Scope>
  }
>()("gateway/completion/CompleteChat") {
  static readonly layer = Layer.effect(
    CompleteChat,
    Effect.gen(function* () {
      const models = yield* Models
      const ledger = yield* Ledger
      const upstreams = yield* Upstreams
      const keeper = yield* HoldKeeper
      const tokenizer = yield* Tokenizer
      const ids = yield* Ids
      const spanned = yield* spans

      /** Resolves the model and takes the hold. */
      const begin = Effect.fnUntraced(function* ({ caller, rate, request, requestId }: ChatCall) {
        const { organizationId } = caller
        const { apiKey, model, route } = yield* models.resolve(request.model, request.access_method, organizationId)
        const pricing = route.method === "service" ? model.pricing : null
        const input = countInput(request, tokenizer.count)
        const wanted = outputLimit(request)
        const most = Math.min(wanted ?? model.maxOutputTokens, model.maxOutputTokens)
        const holdId = HoldId.make(yield* ids.next)
        const meter = new Meter(holdId, requestId, pricing, input, tokenizer.count)

        const granted = yield* ledger.hold({
          id: holdId,
          purpose: {
            organizationId,
            memberId: caller.memberId,
            keyId: caller.keyId,
            requestId,
            model: model.id,
            accessMethod: route.method
          },
          least: worstCost(pricing, input, wanted === undefined ? 1 : most),
          most: worstCost(pricing, input, most),
          ...(rate === undefined ? {} : { rate })
        })
        yield* keeper.keep(holdId, () => meter.settlement)
        const affordable = affordableOutput(pricing, input, granted, most)
        const outputCap = wanted === undefined && affordable < most ? affordable : undefined
        const upstreamCall: UpstreamCall = { route, request, apiKey, outputCap, outputLimit: outputCap ?? most }
        return { meter, upstreamCall }
      })

      /** Ends the hold by what the meter has seen. */
      const settle = Effect.fnUntraced(function* (meter: Meter): Effect.fn.Return<Charged> {
        const { settlement } = meter
        if (settlement === null) {
          yield* keeper.release(meter.holdId)
          return { usage: none, cost: zero }
        }
        const { cost, usage } = settlement
        const charged = yield* keeper.settle(settlement)
        if (charged < cost) {
          yield* Effect.logWarning("A request was charged less than it cost.", {
            requestId: meter.requestId,
            costUsd: toUsd(cost),
            chargedUsd: toUsd(charged),
            ...usage
          })
        }
        return { usage, cost: charged }
      })

      /** Does so once: a caller who leaves while the stream's end is settled waits for that. */
      const end = (meter: Meter): Effect.Effect<Charged> =>
        Effect.uninterruptible(
          Effect.suspend(() => {
            if (meter.ending !== undefined) return Deferred.await(meter.ending)
            const ending = (meter.ending = Deferred.makeUnsafe<Charged>())
            return Effect.onExit(settle(meter), (exit) => Effect.sync(() => Deferred.doneUnsafe(ending, exit)))
          })
        )

      const complete = (call: ChatCall) =>
        spanned(
          "CompleteChat.complete",
          Effect.acquireUseRelease(
            begin(call),
            ({ meter, upstreamCall }) =>
              Effect.flatMap(
                Effect.mapError(upstreams.complete(upstreamCall), withOwner(upstreamCall)),
                (completion) => {
                  meter.addWhole(completion)
                  return Effect.map(end(meter), (charged) => ({ completion, ...charged }))
                }
              ),
            ({ meter }) => end(meter)
          ).pipe(Effect.tapError(logUpstream(call)))
        )

      /** Until the scope's end. As `acquireRelease`, which would copy the whole context for a release that has its services. */
      const heldOpen = (call: ChatCall) =>
        Effect.uninterruptible(
          Effect.flatMap(Effect.scope, (scope) =>
            Effect.tap(begin(call), ({ meter }) => Scope.addFinalizer(scope, end(meter)))
          )
        )

      const stream = (call: ChatCall) =>
        spanned(
          "CompleteChat.stream",
          heldOpen(call).pipe(
            Effect.flatMap(({ meter, upstreamCall }) =>
              Effect.map(Effect.mapError(upstreams.stream(upstreamCall), withOwner(upstreamCall)), (events) =>
                Stream.transformPull(events, (pull) =>
                  Effect.sync(() => metered(pull, meter, end(meter), logUpstream(call)))
                )
              )
            ),
            Effect.tapError(logUpstream(call))
          )
        )

      return CompleteChat.of({ complete, stream })
    })
  )
}

/** What one request has delivered, as the bill sees it. */
class Meter {
  readonly holdId: HoldId
  readonly requestId: string
  readonly #pricing: Pricing | null
  readonly #input: number
  readonly #count: (text: string) => number
  readonly #delivered = new Delivered()
  #reported: Usage | undefined
  /** Of the input alone, from vendors that tell it before they answer. */
  #reportedInput: Usage | undefined
  ending: Deferred.Deferred<Charged> | undefined

  constructor(
    holdId: HoldId,
    requestId: string,
    pricing: Pricing | null,
    input: number,
    count: (text: string) => number
  ) {
    this.holdId = holdId
    this.requestId = requestId
    this.#pricing = pricing
    this.#input = input
    this.#count = count
  }

  add(event: CompletionEvent): void {
    if (event._tag === "Delta") this.#delivered.add(event)
    else if (event.isOfInput === true) this.#reportedInput = event.usage
    else this.#reported = event.usage
  }

  addWhole(completion: Completion): void {
    this.#reported = completion.usage
    this.#delivered.addWhole(completion)
  }

  /** Null while nothing was delivered and nothing reported: then there is nothing to pay. */
  get settlement(): Settlement | null {
    const reported = this.#reported ?? this.#reportedInput
    if (reported === undefined && this.#delivered.isEmpty) return null
    const usage = this.#reported ?? {
      ...(this.#reportedInput ?? { ...none, input: this.#input }),
      output: this.#count(this.#delivered.text),
      reasoning: this.#count(this.#delivered.reasoning)
    }
    return {
      holdId: this.holdId,
      usage,
      cost: costOf(this.#pricing, usage),
      estimated: this.#reported === undefined
    }
  }
}

type Batch<A> = readonly [A, ...Array<A>]

/** The events as they come, through the meter, and at their good end `Settled`. One layer, since every token passes it. */
const metered = (
  pull: Pull.Pull<Batch<CompletionEvent>, UpstreamFailed>,
  meter: Meter,
  end: Effect.Effect<Charged>,
  failed: (error: UpstreamFailed) => Effect.Effect<void>
): Pull.Pull<Batch<ChatEvent>, UpstreamFailed> => {
  let isSettled = false
  const next = Pull.matchEffect(pull, {
    onSuccess: (batch): Effect.Effect<Batch<ChatEvent>> => {
      for (const event of batch) meter.add(event)
      return Effect.succeed(batch)
    },
    onDone: () =>
      Effect.map(end, (charged): Batch<ChatEvent> => {
        isSettled = true
        return [{ _tag: "Settled", ...charged }]
      }),
    onFailure: (cause) => Effect.tapError(Effect.failCause(cause), failed)
  })
  return Effect.suspend((): Pull.Pull<Batch<ChatEvent>, UpstreamFailed> => (isSettled ? Cause.done() : next))
}

/** Says of a failure whose key it was. */
const withOwner =
  ({ apiKey }: UpstreamCall) =>
  (error: CallError): CallError =>
    apiKey !== undefined && error._tag === "UpstreamFailed"
      ? new UpstreamFailed({ upstream: error.upstream, reason: error.reason, detail: error.detail, ownKey: true })
      : error

const logUpstream =
  ({ requestId }: ChatCall) =>
  (error: ChatError): Effect.Effect<void> =>
    error._tag === "UpstreamFailed"
      ? Effect.logWarning("An upstream failed.", {
          requestId,
          upstream: error.upstream,
          reason: error.reason,
          detail: error.detail
        })
      : Effect.void
