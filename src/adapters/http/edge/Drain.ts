import { Clock, Context, Deferred, Duration, Effect, type Fiber, Layer } from "effect"
import type { Server } from "node:http"
import * as Net from "node:net"

export interface DrainOptions {
  /** The listener stays open so long after readiness has turned, until load balancers have noticed. */
  readonly delay: Duration.Duration
  /** What runs then may finish within this time. */
  readonly timeout: Duration.Duration
}

/** What busy connections take to end by themselves, and what ended requests take to say so. */
const parting = Duration.seconds(2)

/** How the service stops without failing what it is serving (decisions 9). */
export class Drain extends Context.Service<
  Drain,
  {
    readonly isDraining: () => boolean
    /** The listener is closed: an answer takes its connection along. */
    readonly isClosing: () => boolean
    /** The server whose listener closes after the delay. */
    readonly guard: (server: Server) => Server
    /** A request begins to run on this fiber, which the deadline interrupts. */
    readonly enter: (request: Fiber.Fiber<unknown, unknown>) => void
    /** The request ends by itself at the deadline, as a stream does with an error event. */
    readonly spare: (request: Fiber.Fiber<unknown, unknown>) => void
    readonly leave: (request: Fiber.Fiber<unknown, unknown>) => void
    readonly isOver: () => boolean
    /** The request would go on for ever: it is not waited for, and ends by itself at the deadline. */
    readonly dismiss: (request: Fiber.Fiber<unknown, unknown>) => void
    /** What ends when requests have, or at the deadline: WebSockets. */
    readonly atDeadline: (end: Effect.Effect<void>) => void
    /** Done at the deadline: what still runs has to end now. */
    readonly deadline: Deferred.Deferred<void>
    readonly run: Effect.Effect<void>
  }
>()("gateway/http/Drain") {
  static readonly layer = (options: DrainOptions) =>
    Layer.effect(
      Drain,
      Effect.gen(function* () {
        const deadline = yield* Deferred.make<void>()
        let draining = false
        let closing = false
        const running = new Set<Fiber.Fiber<unknown, unknown>>()
        const spared = new WeakSet<Fiber.Fiber<unknown, unknown>>()
        const dismissed = new Set<Fiber.Fiber<unknown, unknown>>()
        const ends: Array<Effect.Effect<void>> = []
        let over = false
        let server: Server | undefined

        /** Until the number is zero, or the time is up. */
        const noneWithin = (time: Duration.Duration, number: Effect.Effect<number>) =>
          Effect.gen(function* () {
            const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(time)
            while ((yield* number) > 0 && (yield* Clock.currentTimeMillis) < until) yield* Effect.sleep("20 millis")
          })

        const requests = Effect.sync(() => running.size)
        const all = Effect.sync(() => running.size + dismissed.size)

        const connections = Effect.callback<number>((resume) => {
          if (server === undefined) return resume(Effect.succeed(0))
          server.getConnections((_error, count) => resume(Effect.succeed(count ?? 0)))
        })

        const run = Effect.gen(function* () {
          draining = true
          yield* Effect.logInfo("Draining: not ready for new requests.")
          yield* Effect.sleep(options.delay)
          // Open any longer it would be sent new requests without end. Node's own `close` would also cut connections
          // that look idle while a request is on its way: only the listener closes, and answers end their connections.
          closing = true
          if (server !== undefined) Net.Server.prototype.close.call(server)
          yield* noneWithin(Duration.min(parting, options.timeout), connections)
          server?.closeIdleConnections()
          yield* noneWithin(options.timeout, requests)
          if (running.size > 0) yield* Effect.logWarning(`Ending ${running.size} requests at the drain deadline.`)
          over = true
          for (const request of running) if (!spared.has(request)) request.interruptUnsafe()
          yield* Deferred.succeed(deadline, undefined)
          yield* Effect.all([noneWithin(parting, all), ...ends], { concurrency: "unbounded", discard: true })
          // Idle connections, and clients that do not read what they asked for.
          server?.closeAllConnections()
        })

        return Drain.of({
          isDraining: () => draining,
          isClosing: () => closing,
          guard: (guarded) => (server = guarded),
          enter: (request) => void running.add(request),
          spare: (request) => void spared.add(request),
          dismiss: (request) => {
            running.delete(request)
            dismissed.add(request)
          },
          leave: (request) => {
            running.delete(request)
            dismissed.delete(request)
          },
          isOver: () => over,
          atDeadline: (end) => void ends.push(end),
          deadline,
          run
        })
      })
    )

  /** Built after the server, so that it runs before the listener closes. */
  static readonly onStop = Layer.effectDiscard(Effect.flatMap(Drain, (drain) => Effect.addFinalizer(() => drain.run)))
}
