import { Array, Cause, Clock, Effect, Layer, Pull, Redacted, Result, Stream } from "effect"
import { Egress } from "../../application/ports/runtime/Egress.ts"
import { Tokenizer } from "../../application/ports/runtime/Tokenizer.ts"
import { type UpstreamCall, Upstreams } from "../../application/ports/vendor/Upstreams.ts"
import type { Completion } from "../../domain/completion/Completion.ts"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { CompletionEvent } from "../../domain/completion/CompletionEvent.ts"
import { Folded } from "../../domain/completion/Folded.ts"
import { redact } from "../../domain/shared/Redaction.ts"
import { type Deadlines, usualDeadlines } from "./Deadlines.ts"
import type { Upstream } from "./Driver.ts"
import { completeEcho, echoId, streamEcho } from "./Echo.ts"
import type { Exchange } from "./Exchange.ts"
import { withFallbacks } from "./Fallbacks.ts"
import { ServerSentEvents } from "./framing/ServerSentEvents.ts"
import { Guard } from "./Guard.ts"
import type { Malformed, UpstreamSaid } from "./Protocol.ts"
import * as Transport from "./Transport.ts"

/**
 * The vendors that this deployment has keys for, and `echo`. Deadlines that are not given are the usual ones. `providers`
 * are those that agents call with keys of their own, by their ids in `Providers`.
 */
export const layer = (
  upstreams: ReadonlyArray<Upstream>,
  deadlines: Partial<Deadlines> = {},
  providers: ReadonlyArray<Upstream> = []
): Layer.Layer<Upstreams, never, Tokenizer | Egress> =>
  Layer.effect(
    Upstreams,
    Effect.gen(function* () {
      const transport = yield* Transport.make({ ...usualDeadlines, ...deadlines }, yield* Egress)
      const { count } = yield* Tokenizer
      const clock = yield* Clock.Clock
      const lines = new Map(upstreams.map((upstream) => [upstream.id, lineTo(upstream, clock)]))
      const agents = new AgentLines(providers, clock)
      for (const { operator, organization } of lines.values()) {
        yield* operator.show
        yield* organization.show
      }

      /** Routes come from the catalogue, which is made of the same upstreams. */
      const lineOf = ({ apiKey, provider, route }: UpstreamCall): Effect.Effect<Line> => {
        const known = provider === undefined ? lines.get(route.upstream) : agents.line(route, provider, apiKey)
        if (known === undefined) return Effect.die(new Error(`There is no upstream ${route.upstream}`))
        if ("guard" in known) return Effect.succeed(known)
        const { operator, organization, upstream } = known
        return Effect.succeed(
          apiKey === undefined
            ? { upstream, guard: operator, apiKey: upstream.apiKey }
            : { upstream, guard: organization, apiKey: Redacted.value(apiKey) }
        )
      }

      const write = ({ dialect, protocol }: Upstream, call: UpstreamCall) =>
        Effect.fromResult(Result.map(protocol.write(call, dialect), (request) => JSON.stringify(request)))

      /** The whole answer of a vendor that only streams. */
      const folded = Effect.fnUntraced(function* ({ apiKey, guard, upstream }: Line, body: string) {
        const answer = new Folded()
        const pull = Effect.map(transport.open(upstream, guard, apiKey, body), (exchange) =>
          events(upstream, apiKey, exchange)
        )
        yield* Stream.runForEachArray(Stream.fromPull(pull), (events) =>
          Effect.sync(() => events.forEach((event) => answer.add(event)))
        )
        return answer.completion
      }, Effect.scoped)

      const whole = ({ apiKey, guard, upstream }: Line, body: string) =>
        Effect.flatMap(transport.post(upstream, guard, apiKey, body), (text) => {
          const completion = readAnswer(upstream, apiKey, text)
          return completion instanceof UpstreamFailed ? Effect.fail(completion) : Effect.succeed(completion)
        })

      const complete = Effect.fnUntraced(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return completeEcho(call.request, call.outputCap, count)
        const line = yield* lineOf(call)
        const body = yield* write(line.upstream, call)
        return yield* line.guard.run((line.upstream.protocol.streamsOnly === true ? folded : whole)(line, body))
      })

      /** Everything up to the first event is an error of the call, not of the stream. */
      const begun = Effect.fnUntraced(function* ({ apiKey, guard, upstream }: Line, body: string) {
        const exchange = yield* transport.open(upstream, guard, apiKey, body)
        const pull = events(upstream, apiKey, exchange)
        const first = yield* Pull.catchDone(pull, () =>
          Effect.fail(failed(upstream, apiKey, "malformed_answer", "the stream ended before its first event"))
        ).pipe(
          // The call may go on elsewhere, in the same scope.
          Effect.tapError(() => Effect.sync(() => exchange.close()))
        )
        let isFirst = true
        return Stream.fromPull(
          Effect.succeed(
            Effect.suspend(() => {
              if (!isFirst) return pull
              isFirst = false
              return Effect.succeed(first)
            })
          )
        )
      })

      const stream = Effect.fnUntraced(function* (call: UpstreamCall) {
        if (call.route.upstream === echoId) return streamEcho(call.request, call.outputCap, count)
        const line = yield* lineOf(call)
        const body = yield* write(line.upstream, call)
        return yield* line.guard.run(begun(line, body))
      })

      return Upstreams.of({
        complete: (call) => withFallbacks(call, complete),
        stream: (call) => withFallbacks(call, stream)
      })
    })
  )

/** An upstream and what is known of it. */
const lineTo = (upstream: Upstream, clock: Clock.Clock) => ({
  upstream,
  operator: new Guard(upstream.id, "operator", clock),
  organization: new Guard(upstream.id, "organization", clock)
})

/** How agents reach vendors: each vendor, and each address that a caller chose, with a circuit breaker of its own. */
class AgentLines {
  readonly #providers: ReadonlyMap<string, Upstream>
  readonly #clock: Clock.Clock
  readonly #guards = new Map<string, Guard>()

  constructor(providers: ReadonlyArray<Upstream>, clock: Clock.Clock) {
    this.#providers = new Map(providers.map((upstream) => [upstream.id, { ...upstream, apiKey: undefined }]))
    this.#clock = clock
  }

  line(
    { upstream: id }: UpstreamCall["route"],
    { baseUrl }: NonNullable<UpstreamCall["provider"]>,
    apiKey: UpstreamCall["apiKey"]
  ): Line | undefined {
    const vendor = this.#providers.get(id)
    if (vendor === undefined) return undefined
    return {
      upstream: baseUrl === undefined ? vendor : { ...vendor, baseUrl, isChosenByCaller: true },
      guard: this.#guardOf(id, baseUrl),
      apiKey: apiKey === undefined ? undefined : Redacted.value(apiKey)
    }
  }

  #guardOf(id: string, baseUrl = ""): Guard {
    const name = `${id} ${baseUrl}`
    const guard = this.#guards.get(name) ?? new Guard(id, "agent", this.#clock)
    // The latest used stands last.
    this.#guards.delete(name)
    this.#guards.set(name, guard)
    const [oldest] = this.#guards.keys()
    if (this.#guards.size > mostGuards && oldest !== undefined) this.#guards.delete(oldest)
    return guard
  }
}

/** Addresses are of callers' choice, so there may be any number of them: a forgotten one begins anew. */
const mostGuards = 1_000

/** How one call reaches its upstream. */
interface Line {
  readonly upstream: Upstream
  readonly guard: Guard
  /** The organization's own key, or else the operator's. */
  readonly apiKey: string | undefined
}

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
      if (data === null)
        failure = failed(upstream, apiKey, "malformed_answer", "a line or an event of the stream has no end")
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

  const give = (events: Array<CompletionEvent>): typeof next =>
    Array.isArrayNonEmpty(events) ? Effect.succeed(events) : next

  const some: typeof next = Pull.matchEffect(answer.pull, {
    onSuccess: (chunks) => give(take(chunks)),
    onDone: () => give(last()),
    onFailure: Effect.failCause
  })

  const next: Pull.Pull<readonly [CompletionEvent, ...Array<CompletionEvent>], UpstreamFailed> = Effect.suspend(() => {
    if (failure !== undefined) return Effect.fail(failure)
    if (ended) return Cause.done()
    if (!reader.isDone()) return some
    answer.complete()
    return give(last())
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
