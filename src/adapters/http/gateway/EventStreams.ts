import { Cause, Clock, Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, Schedule, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import type { ChatEvent } from "../../../application/completion/CompleteChat.ts"
import { ServiceStopping, type UpstreamFailed } from "../../../domain/completion/CompletionErrors.ts"
import type { Delta } from "../../../domain/completion/CompletionEvent.ts"
import { Drain } from "../edge/Drain.ts"
import type { RequestState } from "../edge/RequestState.ts"
import { UnexpectedFailure } from "../edge/RouteErrors.ts"
import { type Answer, chunkHead, deltaToWire, usageToWire } from "./ChatWire.ts"
import { envelopeOf, type GatewayFailure } from "./GatewayEnvelope.ts"
import type { Outlet } from "./Outlet.ts"

/** After so long a silence a comment shows proxies and clients that the stream lives. */
const silence = Duration.seconds(15)

/** A line that clients pass over. A blank line after it would make some of them parse an empty event. */
const ping = ": ping\n"

/** A reader that takes nothing for so long is gone, or means harm: its upstream has waited all the while. */
const patience = Duration.minutes(5)

export const streamHeaders = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-accel-buffering": "no"
}

/** Is told what a client is sent of a stream, without the pings. */
export interface Recorder {
  readonly add: (text: string) => void
  /** The stream ends well, with this piece. The client gets it afterwards. */
  readonly complete: (last: string) => Effect.Effect<void>
  /** The stream ends with an error. The client learns of it afterwards. */
  readonly discard: Effect.Effect<void>
}

/** A stream that is being answered. */
interface Open {
  readonly response: Outlet
  lastPiece: number
  readonly forwarding: Fiber.Fiber<void, UpstreamFailed>
}

/** Event streams to clients (section 6, decisions 2), with the pings of silent ones and the end of all at a shutdown. */
export class EventStreams extends Context.Service<
  EventStreams,
  {
    /**
     * Answers the request with these events; gives the answer when all of it is written. Straight to Node's response:
     * every frame passes here, and one that went through a stream and a queue would cost several times more. A client
     * that leaves interrupts it: then a recorder is not told of any end.
     */
    readonly respond: (
      events: Stream.Stream<ChatEvent, UpstreamFailed>,
      answer: Answer,
      includeUsage: boolean,
      to: Outlet,
      state: RequestState,
      recorder?: Recorder
    ) => Effect.Effect<HttpServerResponse.HttpServerResponse>
  }
>()("gateway/http/EventStreams") {
  static readonly layer = Layer.effect(
    EventStreams,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const drain = yield* Drain
      const open = new Set<Open>()

      /** A reader with a full buffer needs no sign of life. */
      yield* Clock.currentTimeMillis.pipe(
        Effect.map((now) => {
          for (const stream of open) {
            if (now - stream.lastPiece >= Duration.toMillis(silence) && !stream.response.writableNeedDrain) {
              stream.lastPiece = now
              stream.response.write(ping)
            }
          }
        }),
        Effect.repeat(Schedule.spaced("1 second")),
        Effect.forkScoped
      )

      yield* Deferred.await(drain.deadline).pipe(
        Effect.andThen(
          Effect.sync(() => {
            for (const { forwarding } of open) forwarding.interruptUnsafe()
          })
        ),
        Effect.forkScoped
      )

      const respond = Effect.fnUntraced(function* (
        events: Stream.Stream<ChatEvent, UpstreamFailed>,
        answer: Answer,
        includeUsage: boolean,
        response: Outlet,
        state: RequestState,
        recorder?: Recorder
      ) {
        drain.spare(yield* Effect.fiber)
        const writer = new ChunkWriter(answer, includeUsage)
        response.writeHead(200, {
          ...streamHeaders,
          ...state.headers,
          ...(drain.isClosing() ? { connection: "close" } : {})
        })

        const forwarding = yield* Effect.forkChild(
          Stream.runForEachArray(events, (batch) => {
            const text = writer.write(batch)
            if (text === "") return Effect.void
            recorder?.add(text)
            stream.lastPiece = clock.currentTimeMillisUnsafe()
            return response.write(text) ? Effect.void : drained(response)
          })
        )
        const stream: Open = { response, lastPiece: clock.currentTimeMillisUnsafe(), forwarding }
        open.add(stream)
        const exit = yield* Effect.onExit(Fiber.await(forwarding), () => Effect.sync(() => open.delete(stream)))
        const last = yield* lastPiece(writer, exit, state.id)
        if (recorder !== undefined) yield* Exit.isSuccess(exit) ? recorder.complete(last) : recorder.discard
        response.end(last)
        return answered
      })

      return EventStreams.of({ respond })
    })
  )
}

/** The head and the body are written: nothing is left for the framework to send. */
const answered = HttpServerResponse.empty({ status: 200 })

/** What ends a stream: `[DONE]`, or the chunk that says why there is none. */
const lastPiece = (
  writer: ChunkWriter,
  exit: Exit.Exit<void, UpstreamFailed>,
  requestId: string
): Effect.Effect<string> => {
  if (Exit.isSuccess(exit)) return Effect.succeed(writer.end)
  if (Cause.hasInterruptsOnly(exit.cause)) return Effect.succeed(writer.error(new ServiceStopping(), requestId))
  const error = Cause.findErrorOption(exit.cause)
  return Option.isSome(error)
    ? Effect.succeed(writer.error(error.value, requestId))
    : Effect.as(
        Effect.logError("A stream broke off.", { requestId }, exit.cause),
        writer.error(new UnexpectedFailure(), requestId)
      )
}

/** Waits until a slow reader has taken what is written. Meanwhile nothing is pulled, so the upstream waits too. */
const drained = (response: Outlet): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const go = () => resume(Effect.void)
    // A fiber may give way to others after it wrote.
    if (!response.writableNeedDrain) return go()
    response.once("drain", go)
    return Effect.sync(() => response.off("drain", go))
  }).pipe(
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () =>
        Effect.andThen(
          Effect.sync(() => response.destroy()),
          Effect.never
        )
    })
  )

/** Writes a stream's chunks: one id, the role first, at its good end the usage if it was asked for. */
class ChunkWriter {
  readonly #answer: Answer
  readonly #includeUsage: boolean
  readonly #head: string
  /** What every chunk but the last has of the usage. */
  readonly #noUsage: object
  #first = true
  /** The chunk of the usage, once it is known. */
  #usage = ""

  constructor(answer: Answer, includeUsage: boolean) {
    this.#answer = answer
    this.#includeUsage = includeUsage
    this.#head = chunkHead(answer)
    this.#noUsage = includeUsage ? { usage: null } : {}
  }

  write(events: ReadonlyArray<ChatEvent>): string {
    let text = ""
    for (const event of events) {
      switch (event._tag) {
        case "Usage":
          break
        case "Settled":
          if (this.#includeUsage) this.#usage = this.#chunk({ choices: [], usage: usageToWire(event) })
          break
        case "Delta": {
          if (!this.#first && isText(event)) {
            text += this.#text(event.content)
            break
          }
          const delta = deltaToWire(this.#answer, event, this.#first)
          if (delta === undefined) break
          this.#first = false
          text += this.#chunk({
            ...(event.serviceTier === undefined ? {} : { service_tier: event.serviceTier }),
            choices: [{ index: event.index, delta, finish_reason: event.finishReason ?? null }],
            ...this.#noUsage
          })
        }
      }
    }
    return text
  }

  /** What ends a good stream, in one piece: the usage if it was asked for, and `[DONE]`. */
  get end(): string {
    return `${this.#usage}data: [DONE]\n\n`
  }

  /** The chunk that ends a failed stream; no `[DONE]` follows it. */
  error(error: GatewayFailure, requestId: string): string {
    return this.#chunk({ error: envelopeOf(error, requestId).error, choices: [], ...this.#noUsage })
  }

  /** The chunk of nothing but text, by far the most frequent one. */
  #text(content: string): string {
    return (
      `data: ${this.#head},"choices":[{"index":0,"delta":{"content":${JSON.stringify(content)}},` +
      `"finish_reason":null}]${this.#includeUsage ? ',"usage":null' : ""}}\n\n`
    )
  }

  #chunk(rest: object): string {
    return `data: ${this.#head},${JSON.stringify(rest).slice(1)}\n\n`
  }
}

type Text = Delta & { readonly content: string }

/** A delta with content for the first choice, and nothing else. Every field but these four would say more. */
const isText = (delta: Delta): delta is Text =>
  delta.content !== undefined &&
  delta.index === 0 &&
  delta.reasoning === undefined &&
  delta.refusal === undefined &&
  delta.toolCalls === undefined &&
  delta.finishReason === undefined &&
  delta.serviceTier === undefined
