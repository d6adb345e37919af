import * as NodeStream from "@effect/platform-node/NodeStream"
import { Cause, Effect, Layer, Pull, Result, Stream } from "effect"
import { Tokenizer } from "../../application/ports/runtime/Tokenizer.ts"
import { type UpstreamCall, Upstreams } from "../../application/ports/vendor/Upstreams.ts"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import type { Upstream } from "./Driver.ts"
import { completeEcho, echoId, streamEcho } from "./Echo.ts"
import { ServerSentEvents } from "./framing/ServerSentEvents.ts"
import type { Malformed, UpstreamSaid } from "./Protocol.ts"
import { redact } from "./Redaction.ts"
import * as Transport from "./Transport.ts"

/** The vendors that this deployment has keys for, and `echo`. */
export const layer = (upstreams: ReadonlyArray<Upstream>): Layer.Layer<Upstreams, never, Tokenizer> =>
  Layer.effect(
    Upstreams,
    Effect.gen(function* () {
      const transport = yield* Transport.make
      const { count } = yield* Tokenizer
      const byId = new Map(upstreams.map((upstream) => [upstream.id, upstream]))

      /** Routes come from the catalogue, which is made of the same upstreams. */
      const upstreamOf = ({ route }: UpstreamCall) =>
        Effect.fromNullishOr(byId.get(route.upstream)).pipe(
          Effect.catch(() => Effect.die(new Error(`The catalogue names an unknown upstream: ${route.upstream}`)))
        )

      const complete = Effect.fn("Upstreams.complete")(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return completeEcho(call.request, call.outputCap, count)
        const upstream = yield* upstreamOf(call)
        const { dialect, protocol } = upstream
        const request = yield* Effect.fromResult(protocol.write(call, dialect))
        const text = yield* transport.post(upstream, protocol.path, request, protocol.errorText)
        const body = yield* Effect.try({
          try: (): unknown => JSON.parse(text),
          catch: () => failed(upstream, "malformed_answer", `an answer of ${text.length} characters is not JSON`)
        })
        const completion = protocol.read(body)
        return Result.isSuccess(completion)
          ? completion.success
          : yield* completion.failure._tag === "UpstreamSaid"
              ? failed(upstream, "server_error", completion.failure.detail)
              : failed(upstream, "malformed_answer", completion.failure.message)
      })

      const stream = Effect.fn("Upstreams.stream")(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return streamEcho(call.request, call.outputCap, count)
        const upstream = yield* upstreamOf(call)
        const { dialect, protocol } = upstream
        const request = yield* Effect.fromResult(protocol.write(call, dialect))
        const answer = yield* transport.open(upstream, protocol.path, request, protocol.errorText)
        const pull = yield* Stream.toPull(events(upstream, answer.body))
        // Everything up to the first event is an error of the call, not of the stream.
        const first = yield* Pull.catchDone(pull, () =>
          Effect.fail(failed(upstream, "malformed_answer", "the stream ended before its first event"))
        )
        return Stream.concat(Stream.fromArray(first), Stream.fromPull(Effect.succeed(pull)))
      })

      return Upstreams.of({ complete, stream })
    })
  )

/** The events of a streamed answer: frames, then the protocol's state machine. */
const events = (upstream: Upstream, body: NodeJS.ReadableStream): Stream.Stream<CompletionEvent, UpstreamFailed> =>
  Stream.transformPull(
    NodeStream.fromReadable<Uint8Array, UpstreamFailed>({
      evaluate: () => body,
      onError: (cause) => Transport.connectionFailure(upstream, cause, "cut_off"),
      closeOnDone: false
    }),
    (pull) =>
      Effect.sync(() => {
        const frames = new ServerSentEvents()
        const reader = upstream.protocol.reader()
        let ended = false

        /** Nothing good follows it. What arrived before it is delivered first, however the packets were cut. */
        let failure: UpstreamFailed | undefined

        const read = (data: ReadonlyArray<string>): ReadonlyArray<CompletionEvent> => {
          const events: Array<CompletionEvent> = []
          for (const item of data) {
            if (reader.isDone()) break
            const result = reader.read(item)
            if (Result.isFailure(result)) {
              failure = streamFailure(upstream, result.failure)
              break
            }
            events.push(...result.success)
          }
          return events
        }

        const take = (chunks: ReadonlyArray<Uint8Array>): ReadonlyArray<CompletionEvent> =>
          chunks.flatMap((chunk) => {
            if (failure !== undefined) return []
            const data = frames.push(chunk)
            if (data !== null) return read(data)
            failure = failed(upstream, "malformed_answer", "a line of the stream has no end")
            return []
          })

        const last = (): ReadonlyArray<CompletionEvent> => {
          const events = read(frames.end())
          ended = true
          if (failure !== undefined) return events
          if (reader.isComplete()) return [...events, ...reader.finish()]
          failure = failed(upstream, "cut_off", "the stream ended before the answer was complete")
          return events
        }

        const next: Pull.Pull<readonly [CompletionEvent, ...Array<CompletionEvent>], UpstreamFailed> = Effect.suspend(
          () => {
            if (failure !== undefined) return Effect.fail(failure)
            if (ended) return Cause.done()
            const some = reader.isDone()
              ? Effect.sync(last)
              : pull.pipe(
                  Effect.map(take),
                  Pull.catchDone(() => Effect.sync(last))
                )
            return Effect.flatMap(some, ([head, ...rest]) =>
              head === undefined ? next : Effect.succeed([head, ...rest])
            )
          }
        )
        return next
      })
  )

const streamFailure = (upstream: Upstream, failure: Malformed | UpstreamSaid): UpstreamFailed =>
  failed(upstream, failure._tag === "UpstreamSaid" ? "server_error" : "malformed_answer", failure.detail)

const failed = (upstream: Upstream, reason: UpstreamFailed["reason"], detail: string): UpstreamFailed =>
  new UpstreamFailed({ upstream: upstream.id, reason, detail: redact(detail, upstream.apiKey) })
