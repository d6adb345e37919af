import { Array, Cause, Duration, Effect, Layer, Pull, Random, Redacted, Stream } from "effect"
import { Egress } from "../../application/ports/runtime/Egress.ts"
import { type ExternalCall, ExternalModels } from "../../application/ports/vendor/ExternalModels.ts"
import type { CallError } from "../../application/ports/vendor/Upstreams.ts"
import { outputLimit } from "../../domain/completion/ChatRequest.ts"
import type { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import { boundedFetch } from "./BoundedFetch.ts"
import { type Attempt, attemptOf, brokenOff, type Callee, failed } from "./Failures.ts"
import { libraryOf } from "./Models.ts"
import { PartReader } from "./Parts.ts"
import { callOptions } from "./Prompt.ts"
import type { CallOptions, Model, StreamPart } from "./Sdk.ts"

/** How long a vendor may take until its answer begins, between two pieces of it, and for all of it. */
export interface Patience {
  readonly firstByte: Duration.Duration
  readonly idle: Duration.Duration
  readonly total: Duration.Duration
}

const usual: Patience = {
  firstByte: Duration.minutes(5),
  idle: Duration.minutes(2),
  total: Duration.minutes(60)
}

/** How often a call is tried again, and the pause before the first time in milliseconds; it doubles. */
const mostRetries = 2
const firstPause = 200

/** Beyond this a caller is better served by an error than by waiting. In milliseconds. */
const longestPause = 10_000

type Events = readonly [CompletionEvent, ...ReadonlyArray<CompletionEvent>]

/**
 * The vendors by the libraries of the Vercel AI SDK: they write requests and read answers, which is all that is taken of
 * the SDK. `addresses` are the vendors' own, by the ids of providers. What is not given of `patience` is as usual.
 */
export const layer = (
  addresses: ReadonlyMap<string, string>,
  patience: Partial<Patience> = {}
): Layer.Layer<ExternalModels, never, Egress> =>
  Layer.effect(
    ExternalModels,
    Effect.gen(function* () {
      const egress = yield* Egress
      const { firstByte, idle, total } = { ...usual, ...patience }
      const chosen = boundedFetch(egress.fetch)
      const own = boundedFetch((url, init) => globalThis.fetch(url, init))

      const modelOf = ({ baseUrl, provider, request }: ExternalCall, { apiKey = "" }: Callee) => {
        const address = baseUrl ?? addresses.get(provider)
        return address === undefined
          ? Effect.die(new Error(`Nobody knows the address of ${provider}`))
          : Effect.promise(() =>
              libraryOf(provider).model({
                model: request.model,
                apiKey,
                baseUrl: address,
                fetch: baseUrl === undefined ? own : chosen
              })
            )
      }

      /** The parts of an answer. The scope's end closes the connection. */
      const open = Effect.fnUntraced(function* (model: Model, options: CallOptions, callee: Callee) {
        const abort = yield* Effect.acquireRelease(
          Effect.sync(() => new AbortController()),
          (abort) => Effect.sync(() => abort.abort())
        )
        const { stream } = yield* Effect.tryPromise({
          try: async () => model.doStream({ ...options, abortSignal: abort.signal }),
          catch: (error) => attemptOf(error, callee)
        }).pipe(
          Effect.timeoutOrElse({
            duration: firstByte,
            orElse: () => Effect.fail(once(silent(callee)))
          })
        )
        return stream.getReader()
      })

      /** The events of an answer, at least one at a time. Silence is that of the vendor: parts of a call are no events. */
      const eventsOf = (
        parts: ReadableStreamDefaultReader<StreamPart>,
        callee: Callee
      ): Pull.Pull<Events, UpstreamFailed> => {
        const reader = new PartReader(callee.provider)
        const deadline = performance.now() + Duration.toMillis(total)
        let hasBegun = false
        const read = Effect.tryPromise({
          try: () => parts.read(),
          catch: (error) => brokenOff(error, callee, "cut_off")
        })
        const awaited = Effect.suspend(() =>
          Effect.timeoutOrElse(read, {
            duration: hasBegun ? idle : firstByte,
            orElse: () =>
              Effect.fail(
                hasBegun
                  ? failed(callee, "stalled", "the answer began, then nothing came for too long")
                  : silent(callee)
              )
          })
        )
        const next: Pull.Pull<Events, UpstreamFailed> = Effect.flatMap(awaited, ({ done, value }) => {
          if (done) return reader.isComplete ? Cause.done() : Effect.fail(cutOff(callee))
          if (performance.now() > deadline) {
            return Effect.fail(failed(callee, "stalled", "the whole answer took too long"))
          }
          // The library's own, before a byte has come.
          if (value.type === "stream-start") return Effect.andThen(logLeftOut(callee, value.warnings), next)
          hasBegun = true
          const events = reader.read(value)
          if ("_tag" in events) {
            return Effect.fail(
              events._tag === "CutOff" ? cutOff(callee) : brokenOff(events.error, callee, "server_error")
            )
          }
          return Array.isReadonlyArrayNonEmpty(events) ? Effect.succeed(events) : next
        })
        return next
      }

      /** Everything up to the first event is an error of the call, not of the stream. */
      const begun = Effect.fnUntraced(function* (model: Model, options: CallOptions, callee: Callee) {
        const pull = eventsOf(yield* open(model, options, callee), callee)
        const first = yield* Pull.catchDone(pull, () =>
          Effect.fail(failed(callee, "malformed_answer", "the stream ended before its first event"))
        ).pipe(Effect.mapError(once))
        return Stream.concat(Stream.fromArray(first), Stream.fromPull(Effect.succeed(pull)))
      })

      return ExternalModels.of({
        stream: Effect.fn("ExternalModels.stream")(function* (call) {
          const { apiKey, outputLimit: most, provider, request } = call
          const callee: Callee = { provider, apiKey: apiKey === undefined ? undefined : Redacted.value(apiKey) }
          const { options, takesThoughts = false, wantsLimit = false } = libraryOf(provider)
          const written = yield* Effect.fromResult(callOptions(request, { provider, takesThoughts }))
          const model = yield* modelOf(call, callee)
          return yield* retried(
            begun(
              model,
              {
                ...written,
                ...(wantsLimit && outputLimit(request) === undefined ? { maxOutputTokens: most } : {}),
                ...(options === undefined ? {} : { providerOptions: options })
              },
              callee
            )
          )
        })
      })
    })
  )

/** An attempt that is not made again: the vendor has begun to answer, or thought for as long as it may. */
const once = (error: UpstreamFailed): Attempt => ({ _tag: "Attempt", error, retryAfter: Number.POSITIVE_INFINITY })

const silent = (callee: Callee): UpstreamFailed => failed(callee, "timeout", "no byte of an answer came in time")

const cutOff = (callee: Callee): UpstreamFailed =>
  failed(callee, "cut_off", "the stream ended before the answer was complete")

const logLeftOut = ({ provider }: Callee, warnings: ReadonlyArray<unknown>): Effect.Effect<void> =>
  warnings.length === 0
    ? Effect.void
    : Effect.logDebug("A library of the SDK left out some of a request.", { provider, warnings })

/** Connect errors, 429 and 5xx are tried again: nothing of an answer has come yet. */
const retried = <A, R>(call: Effect.Effect<A, Attempt, R>, retries = 0): Effect.Effect<A, CallError, R> =>
  Effect.catch(call, (attempt) =>
    retries < mostRetries && mayBeTransient(attempt)
      ? Effect.flatMap(Random.next, (random) =>
          Effect.delay(
            retried(call, retries + 1),
            Math.max(firstPause * 2 ** retries * (0.8 + 0.4 * random), attempt.retryAfter)
          )
        )
      : Effect.fail(attempt.error)
  )

const mayBeTransient = ({ error, retryAfter }: Attempt): boolean =>
  error._tag === "UpstreamFailed" &&
  (error.reason === "unreachable" || error.reason === "rate_limited" || error.reason === "server_error") &&
  retryAfter <= longestPause
