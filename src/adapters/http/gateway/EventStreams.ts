import {
  Cause,
  Clock,
  Context,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Layer,
  Option,
  Queue,
  Schedule,
  type Scope,
  Stream
} from "effect"
import { HttpServerResponse } from "effect/http"
import type { ChatEvent } from "../../../application/completion/CompleteChat.ts"
import { ServiceStopping, type UpstreamFailed } from "../../../domain/completion/CompletionErrors.ts"
import type { Delta } from "../../../domain/completion/CompletionEvent.ts"
import { Drain } from "../edge/Drain.ts"
import { UnexpectedFailure } from "../edge/RouteErrors.ts"
import { type Answer, chunkHead, deltaToWire, usageToWire } from "./ChatWire.ts"
import { envelopeOf, type GatewayFailure } from "./GatewayEnvelope.ts"

/** After so long a silence a comment shows proxies and clients that the stream lives. */
const silence = Duration.seconds(15)

/** A line that clients pass over. A blank line after it would make some of them parse an empty event. */
const ping = new TextEncoder().encode(": ping\n")

/** Pieces that may wait for a slow reader before the upstream is slowed down too. */
const waiting = 16

const headers = { "cache-control": "no-cache", "x-accel-buffering": "no" }

type Pieces = Queue.Queue<Uint8Array, Cause.Done>

/** A stream that is being answered. */
interface Open {
  readonly pieces: Pieces
  lastPiece: number
  readonly stop: Effect.Effect<unknown>
}

/** Event streams to clients (section 6, decisions 2), with the pings of silent ones and the end of all at a shutdown. */
export class EventStreams extends Context.Service<
  EventStreams,
  {
    /** The answer that forwards these events. Their scope has to outlive the response: it is the request's. */
    readonly respond: (
      events: Stream.Stream<ChatEvent, UpstreamFailed>,
      answer: Answer,
      includeUsage: boolean,
      requestId: string
    ) => Effect.Effect<HttpServerResponse.HttpServerResponse, never, Scope.Scope>
  }
>()("gateway/http/EventStreams") {
  static readonly layer = Layer.effect(
    EventStreams,
    Effect.gen(function* () {
      const drain = yield* Drain
      const open = new Set<Open>()

      /** Offers, not puts: a reader with a full queue needs no sign of life. */
      yield* Clock.currentTimeMillis.pipe(
        Effect.map((now) => {
          for (const stream of open) {
            if (now - stream.lastPiece >= Duration.toMillis(silence)) {
              stream.lastPiece = now
              Queue.offerUnsafe(stream.pieces, ping)
            }
          }
        }),
        Effect.repeat(Schedule.spaced("1 second")),
        Effect.forkScoped
      )

      yield* Deferred.await(drain.deadline).pipe(
        Effect.andThen(
          Effect.suspend(() =>
            Effect.forEach([...open], ({ stop }) => stop, { concurrency: "unbounded", discard: true })
          )
        ),
        Effect.forkScoped
      )

      const respond = Effect.fnUntraced(function* (
        events: Stream.Stream<ChatEvent, UpstreamFailed>,
        answer: Answer,
        includeUsage: boolean,
        requestId: string
      ) {
        drain.spare(yield* Effect.fiber)
        const pieces: Pieces = yield* Queue.bounded<Uint8Array, Cause.Done>(waiting)
        const writer = new ChunkWriter(answer, includeUsage)
        const end = (text: string) => Effect.andThen(Queue.offer(pieces, encoder.encode(text)), Queue.end(pieces))

        const stream: Open = { pieces, lastPiece: yield* Clock.currentTimeMillis, stop: Effect.suspend(() => stop) }

        const forward = Stream.runForEachArray(events, (batch) => {
          const text = writer.write(batch)
          if (text === "") return Effect.void
          return Effect.flatMap(Clock.currentTimeMillis, (now) => {
            stream.lastPiece = now
            return Queue.offer(pieces, encoder.encode(text))
          })
        })

        const forwarding = yield* Effect.matchCauseEffect(forward, {
          onSuccess: () => end("data: [DONE]\n\n"),
          onFailure: (cause) => {
            if (Cause.hasInterruptsOnly(cause)) return Effect.void
            const error = Cause.findErrorOption(cause)
            return Option.isSome(error)
              ? end(writer.error(error.value, requestId))
              : Effect.andThen(
                  Effect.logError("A stream broke off.", cause),
                  end(writer.error(new UnexpectedFailure(), requestId))
                )
          }
        }).pipe(Effect.forkScoped)

        const stop = Effect.andThen(
          Fiber.interrupt(forwarding),
          Effect.suspend(() => end(writer.error(new ServiceStopping(), requestId)))
        )

        yield* Effect.acquireRelease(
          Effect.sync(() => open.add(stream)),
          () => Effect.sync(() => open.delete(stream))
        )
        return HttpServerResponse.stream(Stream.fromQueue(pieces), { contentType: "text/event-stream", headers })
      })

      return EventStreams.of({ respond })
    })
  )
}

const encoder = new TextEncoder()

/** Writes a stream's chunks: one id, the role first, at its good end the usage if it was asked for. */
class ChunkWriter {
  readonly #answer: Answer
  readonly #includeUsage: boolean
  readonly #head: string
  /** What every chunk but the last has of the usage. */
  readonly #noUsage: object
  #first = true

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
          if (this.#includeUsage) text += this.#chunk({ choices: [], usage: usageToWire(event) })
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
