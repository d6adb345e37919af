import { Context, Duration, Effect, Layer, Schedule } from "effect"
import type { IdempotencyKeyBusy, IdempotencyKeyReused } from "../../domain/completion/IdempotencyErrors.ts"
import { Ids } from "../ports/runtime/Ids.ts"
import { IdempotentAnswers, type KeyClaim } from "../ports/storage/IdempotentAnswers.ts"

/** How often claims are renewed: several times in a lease. */
const renewal = Duration.seconds(5)

/** How often what has expired is deleted. Until then it only takes space. */
const sweeping = Duration.minutes(1)

/** A request that is to be answered once, however often it is sent. */
export type KeyedRequest = Omit<KeyClaim, "id">

/** The key of a running request. What is done to it after its end changes nothing. */
export interface HeldKey {
  /**
   * Keeps the answer for repetitions. To be done before the client has the end of it, so that whoever has all of it finds
   * it stored. An answer that cannot be stored is still one to send: that is logged, and the key is free 30 s later.
   */
  readonly store: (answer: string) => Effect.Effect<void>
  /** The next request with this key runs. */
  readonly free: Effect.Effect<void>
}

/**
 * Answers a request with an idempotency key once (decisions 2): the first one runs, and its repetitions get what it
 * stored. A request that ends without an answer stored frees its key. The key of a process that dies is free when its
 * claim has lapsed.
 */
export class IdempotencyKeys extends Context.Service<
  IdempotencyKeys,
  {
    readonly once: <A, E, R, E2, R2>(
      request: KeyedRequest,
      run: (key: HeldKey) => Effect.Effect<A, E, R>,
      replay: (answer: string) => Effect.Effect<A, E2, R2>
    ) => Effect.Effect<A, E | E2 | IdempotencyKeyBusy | IdempotencyKeyReused, R | R2>
  }
>()("gateway/completion/IdempotencyKeys") {
  static readonly layer = Layer.effect(
    IdempotencyKeys,
    Effect.gen(function* () {
      const answers = yield* IdempotentAnswers
      const ids = yield* Ids
      const running = new Set<KeyClaim>()

      /** What fails here costs a repetition its replay, and no request its answer. */
      const forgiving = (task: string, effect: Effect.Effect<void>) =>
        Effect.catchCause(effect, (cause) => Effect.logWarning(`Could not ${task}.`, cause))

      /** The first end of a claim counts. */
      const end = (claim: KeyClaim, task: string, ending: Effect.Effect<void>) =>
        Effect.suspend(() => (running.delete(claim) ? forgiving(task, ending) : Effect.void)).pipe(
          Effect.uninterruptible
        )

      const warnOfLoss = (stored: boolean) =>
        stored
          ? Effect.void
          : Effect.logWarning("A request outlived its claim to its idempotency key: its answer is not stored.")

      const hold = (claim: KeyClaim): HeldKey => {
        running.add(claim)
        return {
          store: (answer) =>
            end(
              claim,
              "store an answer for its idempotency key",
              Effect.flatMap(answers.store(claim, answer), warnOfLoss)
            ),
          free: end(claim, "free an idempotency key", Effect.asVoid(answers.free(claim)))
        }
      }

      const claimed = Effect.fnUntraced(function* (request: KeyedRequest) {
        const claim = { ...request, id: yield* ids.next }
        return (yield* answers.claim(claim)) ?? hold(claim)
      })

      const renew = Effect.suspend(() => (running.size === 0 ? Effect.void : answers.renew([...running])))

      yield* forgiving("renew the claims to idempotency keys", renew).pipe(
        Effect.repeat(Schedule.spaced(renewal)),
        Effect.withTracerEnabled(false),
        Effect.forkScoped
      )

      yield* forgiving("delete old answers", Effect.asVoid(answers.sweep)).pipe(
        Effect.repeat(Schedule.spaced(sweeping)),
        Effect.withTracerEnabled(false),
        Effect.forkScoped
      )

      return IdempotencyKeys.of({
        once: <A, E, R, E2, R2>(
          request: KeyedRequest,
          run: (key: HeldKey) => Effect.Effect<A, E, R>,
          replay: (answer: string) => Effect.Effect<A, E2, R2>
        ) =>
          Effect.acquireUseRelease(
            claimed(request),
            (found): Effect.Effect<A, E | E2, R | R2> => (typeof found === "string" ? replay(found) : run(found)),
            (found) => (typeof found === "string" ? Effect.void : found.free)
          )
      })
    })
  )
}
