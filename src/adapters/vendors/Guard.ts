import { type Clock, Effect, Exit, Metric, Option } from "effect"
import { UpstreamFailed, type UpstreamRefused } from "../../domain/completion/CompletionErrors.ts"
import { type BreakerState, CircuitBreaker, type Pass } from "./CircuitBreaker.ts"

/**
 * Whose keys calls bear: those that agents have in their `.env` are an organization's too. The troubles that come from a
 * key are not those of other keys.
 */
export type KeyOwner = "operator" | "organization" | "agent"

/** What became of a request: `ok` once its answer has begun well, or is there as a whole. */
type Outcome = "ok" | "refused" | UpstreamFailed["reason"]

const requests = Metric.counter("upstream_requests_total", {
  description: "Requests to upstreams, every attempt, and those that a circuit breaker turned away",
  incremental: true
})

const states = Metric.gauge("upstream_breaker_state", {
  description: "Circuit breaker of an upstream: 0 closed, 1 half open, 2 open"
})

const gaugeOf: Readonly<Record<BreakerState, number>> = { closed: 0, "half-open": 1, open: 2 }

/** The circuit breaker of an upstream with its log lines, and the figures of its requests. */
export class Guard {
  readonly #upstream: string
  readonly #keys: KeyOwner
  readonly #breaker: CircuitBreaker
  readonly #gauge: Metric.Gauge<number>
  readonly #counters = new Map<Outcome, Metric.Counter<number>>()

  constructor(upstream: string, keys: KeyOwner, clock: Clock.Clock) {
    this.#upstream = upstream
    this.#keys = keys
    this.#breaker = new CircuitBreaker(clock)
    this.#gauge = Metric.withAttributes(states, { upstream, keys })
  }

  /** Whether a failed attempt may be made again: one that tries an open breaker is the only one. */
  get mayRetry(): boolean {
    return this.#breaker.state === "closed"
  }

  /** Publishes the state of the breaker. Of agents there is one for every address, and none of them is the operator's. */
  readonly show: Effect.Effect<void> = Effect.suspend(() =>
    this.#keys === "agent" ? Effect.void : Metric.update(this.#gauge, gaugeOf[this.#breaker.state])
  )

  /** Makes a call, its retries included, unless the breaker is open: then it fails at once. */
  run<A, R>(
    call: Effect.Effect<A, UpstreamFailed | UpstreamRefused, R>
  ): Effect.Effect<A, UpstreamFailed | UpstreamRefused, R> {
    return Effect.suspend(() => {
      const pass = this.#breaker.admit()
      if (pass === undefined) return this.#turnedAway
      const guarded = Effect.onExit(call, (exit) => this.#ended(pass, exit))
      return this.#breaker.state === "closed" ? guarded : Effect.andThen(this.show, guarded)
    })
  }

  /** Counts an attempt. */
  count(outcome: Outcome): Effect.Effect<void> {
    return Metric.update(this.#counterOf(outcome), 1)
  }

  readonly #turnedAway: Effect.Effect<never, UpstreamFailed> = Effect.suspend(() =>
    Effect.andThen(
      this.count("circuit_open"),
      Effect.fail(
        new UpstreamFailed({
          upstream: this.#upstream,
          reason: "circuit_open",
          detail: "it failed repeatedly: nothing was sent"
        })
      )
    )
  )

  #ended(pass: Pass, exit: Exit.Exit<unknown, UpstreamFailed | UpstreamRefused>): Effect.Effect<void> {
    const before = this.#breaker.state
    const outcome = Exit.isSuccess(exit)
      ? "ok"
      : Option.getOrUndefined(Option.map(Exit.findErrorOption(exit), outcomeOf))
    switch (outcome === undefined ? "unknown" : verdict(outcome, this.#keys)) {
      case "succeeded":
        this.#breaker.succeeded(pass)
        break
      case "failed":
        this.#breaker.failed(pass)
        break
      case "unknown":
        this.#breaker.unknown(pass)
        break
    }
    const counted = outcome === undefined ? Effect.void : this.count(outcome)
    const after = this.#breaker.state
    return after === before ? counted : Effect.andThen(counted, this.#changed(before, after))
  }

  #changed(before: BreakerState, after: BreakerState): Effect.Effect<void> {
    const about = { upstream: this.#upstream, keys: this.#keys }
    return Effect.andThen(
      this.show,
      after === "closed"
        ? Effect.logInfo("The circuit breaker of an upstream closed: it serves again.", about)
        : before === "closed"
          ? Effect.logWarning("The circuit breaker of an upstream opened: it failed repeatedly.", about)
          : Effect.void
    )
  }

  #counterOf(outcome: Outcome): Metric.Counter<number> {
    const known = this.#counters.get(outcome)
    if (known !== undefined) return known
    const made = Metric.withAttributes(requests, { upstream: this.#upstream, outcome })
    this.#counters.set(outcome, made)
    return made
  }
}

export const outcomeOf = (error: UpstreamFailed | UpstreamRefused): Outcome =>
  error._tag === "UpstreamRefused" ? "refused" : error.reason

/** What the outcome of a call says of its upstream. */
const verdict = (outcome: Outcome, keys: KeyOwner): "succeeded" | "failed" | "unknown" => {
  switch (outcome) {
    case "unreachable":
    case "timeout":
    case "stalled":
    case "server_error":
    case "cut_off":
      return "failed"
    // The limits of the operator's key are those of all who call with it; an organization's are its own.
    case "rate_limited":
      return keys === "operator" ? "failed" : "succeeded"
    // It answers. That the key or the model is wrong there mends no pause.
    case "ok":
    case "refused":
    case "credentials_refused":
    case "unexpected_status":
      return "succeeded"
    // What cannot be read may be due to the request.
    case "malformed_answer":
    case "circuit_open":
      return "unknown"
  }
}
