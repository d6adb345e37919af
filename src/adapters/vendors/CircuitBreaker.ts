import type { Clock } from "effect"

/** Failed calls in a row that open the breaker. */
const mostFailures = 5

/** How long calls are turned away before one may try, and the next one if that says nothing. In nanoseconds. */
const pause = 10_000_000_000n

export type BreakerState = "closed" | "half-open" | "open"

/** That a call may be made. It is given back once, with what the call says of the upstream. */
export type Pass = number

/**
 * The circuit breaker of one upstream. Closed, it lets every call through. After five failures in a row it is open:
 * calls are turned away. Every ten seconds one of them tries (half open): its success closes the breaker, its failure
 * opens it for another ten. What is said of a call that was let through before the last opening or closing is not news.
 *
 * Mutable and without effects on purpose: every request passes it, at the price of two comparisons while it is closed.
 */
export class CircuitBreaker {
  readonly #clock: Clock.Clock
  #state: BreakerState = "closed"
  #failures = 0
  /** Counts openings and closings. */
  #generation = 0
  /** By the clock that nobody sets. */
  #nextTry = 0n

  constructor(clock: Clock.Clock) {
    this.#clock = clock
  }

  get state(): BreakerState {
    return this.#state
  }

  /** Undefined: the call is turned away. */
  admit(): Pass | undefined {
    if (this.#state === "closed") return this.#generation
    const now = this.#clock.monotonicTimeNanosUnsafe()
    if (now < this.#nextTry) return undefined
    this.#nextTry = now + pause
    this.#state = "half-open"
    return this.#generation
  }

  succeeded(pass: Pass): void {
    if (pass !== this.#generation) return
    this.#failures = 0
    if (this.#state === "closed") return
    this.#state = "closed"
    this.#generation++
  }

  failed(pass: Pass): void {
    if (pass !== this.#generation) return
    if (this.#state === "closed") {
      if (++this.#failures < mostFailures) return
      this.#generation++
    }
    this.#state = "open"
    this.#nextTry = this.#clock.monotonicTimeNanosUnsafe() + pause
  }

  /** The call said nothing of the upstream, as when its caller left: the next one may try at once. */
  unknown(pass: Pass): void {
    if (pass !== this.#generation || this.#state !== "half-open") return
    this.#state = "open"
    this.#nextTry = this.#clock.monotonicTimeNanosUnsafe()
  }
}
