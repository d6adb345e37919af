import { Array, Cause, Effect, Layer, Pull, Redacted, Result, Stream } from "effect"
import { Tokenizer } from "../../application/ports/runtime/Tokenizer.ts"
import { type UpstreamCall, Upstreams } from "../../application/ports/vendor/Upstreams.ts"
import type { Completion } from "../../domain/completion/Completion.ts"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import { Folded } from "../../domain/completion/Folded.ts"
import type { Upstream } from "./Driver.ts"
import { completeEcho, echoId, streamEcho } from "./Echo.ts"
import type { Exchange } from "./Exchange.ts"
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

      const open = Effect.fnUntraced(function* (upstream: Upstream, call: UpstreamCall) {
        const request = yield* Effect.fromResult(upstream.protocol.write(call, upstream.dialect))
        const apiKey = keyOf(upstream, call)
        return events(upstream, apiKey, yield* transport.open(upstream, apiKey, JSON.stringify(request)))
      })

      /** The whole answer of a vendor that only streams. */
      const folded = Effect.fnUntraced(function* (upstream: Upstream, call: UpstreamCall) {
        const answer = new Folded()
        yield* Stream.runForEachArray(Stream.fromPull(open(upstream, call)), (events) =>
          Effect.sync(() => events.forEach((event) => answer.add(event)))
        )
        return answer.completion
      })

      const complete = Effect.fnUntraced(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return completeEcho(call.request, call.outputCap, count)
        const upstream = yield* upstreamOf(call)
        if (upstream.protocol.streamsOnly === true) return yield* Effect.scoped(folded(upstream, call))
        const { dialect, protocol } = upstream
        const request = yield* Effect.fromResult(protocol.write(call, dialect))
        const apiKey = keyOf(upstream, call)
        const text = yield* transport.post(upstream, apiKey, JSON.stringify(request))
        const completion = readAnswer(upstream, apiKey, text)
        return completion instanceof UpstreamFailed ? yield* completion : completion
      })

      const stream = Effect.fnUntraced(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return streamEcho(call.request, call.outputCap, count)
        const upstream = yield* upstreamOf(call)
        const pull = yield* open(upstream, call)
        // Everything up to the first event is an error of the call, not of the stream.
        const first = yield* Pull.catchDone(pull, () =>
          Effect.fail(
            failed(upstream, keyOf(upstream, call), "malformed_answer", "the stream ended before its first event")
          )
        )
        return Stream.concat(Stream.fromArray(first), Stream.fromPull(Effect.succeed(pull)))
      })

      return Upstreams.of({ complete, stream })
    })
  )

/** The organization's own key, or else the operator's. */
const keyOf = (upstream: Upstream, { apiKey }: UpstreamCall): string | undefined =>
  apiKey === undefined ? upstream.apiKey : Redacted.value(apiKey)

/** The completion in a whole answer, or why there is none. */
const readAnswer = (upstream: Upstream, apiKey: string | undefined, text: string): Completion | UpstreamFailed => {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return failed(upstream, apiKey, "malformed_answer", `an answer of ${text.length} characters is not JSON`)
  }
  const completion = upstream.protocol.read(body)
  return Result.isSuccess(completion)
    ? completion.success
    : completion.failure._tag === "UpstreamSaid"
      ? failed(upstream, apiKey, "server_error", completion.failure.detail)
      : failed(upstream, apiKey, "malformed_answer", completion.failure.message)
}

/** The events of a streamed answer: frames, then the protocol's state machine. */
const events = (
  upstream: Upstream,
  apiKey: string | undefined,
  answer: Exchange
): Pull.Pull<readonly [CompletionEvent, ...Array<CompletionEvent>], UpstreamFailed> => {
  const frames = new ServerSentEvents()
  const reader = upstream.protocol.reader()
  let ended = false

  /** Nothing good follows it. What arrived before it is delivered first, however the packets were cut. */
  let failure: UpstreamFailed | undefined

  const read = (data: ReadonlyArray<string>, events: Array<CompletionEvent>): void => {
    for (const item of data) {
      if (reader.isDone()) return
      const result = reader.read(item)
      if (Result.isFailure(result)) {
        failure = streamFailure(upstream, apiKey, result.failure)
        return
      }
      for (const event of result.success) events.push(event)
    }
  }

  const take = (chunks: ReadonlyArray<Uint8Array>): Array<CompletionEvent> => {
    const events: Array<CompletionEvent> = []
    for (const chunk of chunks) {
      const data = frames.push(chunk)
      if (data === null) failure = failed(upstream, apiKey, "malformed_answer", "a line of the stream has no end")
      else read(data, events)
      if (failure !== undefined) break
    }
    return events
  }

  const last = (): Array<CompletionEvent> => {
    const events: Array<CompletionEvent> = []
    read(frames.end(), events)
    ended = true
    if (failure !== undefined) return events
    if (reader.isComplete()) events.push(...reader.finish())
    else failure = failed(upstream, apiKey, "cut_off", "the stream ended before the answer was complete")
    return events
  }

  const some = Pull.catchDone(Effect.map(answer.pull, take), () => Effect.sync(last))

  const next: Pull.Pull<readonly [CompletionEvent, ...Array<CompletionEvent>], UpstreamFailed> = Effect.suspend(() => {
    if (failure !== undefined) return Effect.fail(failure)
    if (ended) return Cause.done()
    return Effect.flatMap(reader.isDone() ? Effect.sync(last) : some, (events) =>
      Array.isArrayNonEmpty(events) ? Effect.succeed(events) : next
    )
  })
  return next
}

const streamFailure = (
  upstream: Upstream,
  apiKey: string | undefined,
  failure: Malformed | UpstreamSaid
): UpstreamFailed =>
  failed(upstream, apiKey, failure._tag === "UpstreamSaid" ? "server_error" : "malformed_answer", failure.detail)

const failed = (
  upstream: Upstream,
  apiKey: string | undefined,
  reason: UpstreamFailed["reason"],
  detail: string
): UpstreamFailed => new UpstreamFailed({ upstream: upstream.id, reason, detail: redact(detail, apiKey) })
