import { Cause, Effect, Predicate } from "effect"
import type { Dispatcher } from "undici"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import { redact } from "../../domain/shared/Redaction.ts"
import type { DeadlineMillis } from "./Deadlines.ts"
import type { Upstream } from "./Driver.ts"

/** Bytes that may wait for whoever reads the answer before the upstream is told to pause. */
const mostWaitingBytes = 256 * 1024

/** What follows the last event of a complete answer is its end: so long it may take, in milliseconds. */
const mostLinger = 1_000

/** What a whole answer, or the body of an error, may weigh. */
const mostAnswerBytes = 64 * 1024 * 1024
const mostErrorBytes = 64 * 1024

/**
 * One request to an upstream and its answer, as undici's parser reports it. Mutable on purpose, one per call: it is fed
 * on the path that every token takes. `onHead` runs once, when the status is known or nothing will come.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #upstream: Upstream
  readonly #apiKey: string | undefined
  readonly #deadlines: DeadlineMillis
  readonly #deadline: number
  readonly #onHead: (exchange: Exchange) => void
  #controller: Dispatcher.DispatchController | undefined
  #waiting: Array<Buffer> = []
  #waitingBytes = 0
  #closed = false
  #isComplete = false
  #ended = false
  #paused = false
  /** When the last piece of the body came; undefined before the first. As `performance.now()`. */
  #lastPiece: number | undefined
  #timer: NodeJS.Timeout | undefined
  #wake: (() => void) | undefined
  status = 0
  /** The header `Retry-After`, as it came. */
  retryAfter: string | undefined
  failure: UpstreamFailed | undefined

  constructor(
    upstream: Upstream,
    apiKey: string | undefined,
    deadlines: DeadlineMillis,
    onHead: (exchange: Exchange) => void
  ) {
    this.#upstream = upstream
    this.#apiKey = apiKey
    this.#deadlines = deadlines
    this.#deadline = performance.now() + deadlines.total
    this.#onHead = onHead
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#closed) return controller.abort(abandoned)
    this.#watch(this.#deadlines.firstByte)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return
    this.status = status
    const { "retry-after": retryAfter } = headers
    if (typeof retryAfter === "string") this.retryAfter = retryAfter
    // Nobody thinks about an error.
    if (status !== 200) this.#watch(this.#deadlines.idle)
    this.#onHead(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#closed) return
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    const now = performance.now()
    if (this.#lastPiece === undefined) this.#watch(this.#deadlines.idle)
    this.#lastPiece = now
    if (now > this.#deadline) return this.#fail("stalled", "the whole answer took too long")
    if (this.#wake === undefined && this.#waitingBytes > mostWaitingBytes) {
      this.#paused = true
      controller.pause()
    }
    this.#wake?.()
  }

  onResponseEnd(): void {
    this.#ended = true
    clearTimeout(this.#timer)
    this.#wake?.()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#timer)
    if (this.#closed || this.#ended || this.failure !== undefined) return
    this.failure = failureOf(this.#upstream, this.#apiKey, error, this.status === 0 ? "unreachable" : "cut_off")
    if (this.status === 0) this.#onHead(this)
    else this.#wake?.()
  }

  #watch(millis: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#onTimer, millis)
  }

  /** One timer a phase, set on when it finds that something came meanwhile: a token must not cost a timer. */
  readonly #onTimer = (): void => {
    const { idle } = this.#deadlines
    if (this.#lastPiece === undefined) return this.#fail("timeout", "no byte of an answer came in time")
    // Whoever reads keeps a paused upstream waiting, not the other way round.
    const left = this.#paused ? idle : Math.ceil(this.#lastPiece + idle - performance.now())
    if (left > 0) this.#watch(left)
    else this.#fail("stalled", "the answer began, then nothing came for too long")
  }

  /** All that counts of the answer has been read, whatever its body still says. */
  complete(): void {
    this.#isComplete = true
  }

  /** Ends the connection unless the answer is complete: then it is left for the next one. Nothing is reported any more. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#waiting = []
    clearTimeout(this.#timer)
    if (this.#ended || this.failure !== undefined) return
    if (!this.#isComplete) return this.#controller?.abort(abandoned)
    this.#resume()
    this.#timer = setTimeout(() => this.#controller?.abort(abandoned), mostLinger)
  }

  /**
   * What has arrived since the last pull, at least one piece; what came before a failure is given first. One
   * suspension at most, since every token passes here.
   */
  readonly pull = Effect.callback<ReadonlyArray<Buffer>, UpstreamFailed | Cause.Done>((resume) => {
    const give = () => {
      this.#wake = undefined
      if (this.#waiting.length > 0) resume(Effect.succeed(this.#take()))
      else if (this.failure !== undefined) resume(Effect.fail(this.failure))
      else if (this.#ended) resume(Cause.done())
      else {
        this.#wake = give
        this.#resume()
      }
    }
    give()
    return Effect.sync(() => {
      this.#wake = undefined
    })
  })

  /** The silence that counts begins when the upstream may write again. */
  #resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#lastPiece = performance.now()
    this.#controller?.resume()
  }

  /** The whole body as text. */
  get text(): Effect.Effect<string, UpstreamFailed> {
    return this.#body(mostAnswerBytes, () => {
      this.#fail("malformed_answer", `the answer is longer than ${mostAnswerBytes} bytes`)
    })
  }

  /** The body of an error as text: its beginning, when it is long or breaks off. */
  get errorText(): Effect.Effect<string> {
    return Effect.catch(
      this.#body(mostErrorBytes, () => {
        this.#ended = true
        this.#controller?.abort(abandoned)
      }),
      () => Effect.sync(() => Buffer.concat(this.#take()).toString("utf8"))
    )
  }

  /** Collects in the background of one suspension: a fiber that woke for every packet would cost more than the packet. */
  #body(most: number, tooLong: () => void): Effect.Effect<string, UpstreamFailed> {
    return Effect.callback((resume) => {
      const collect = () => {
        this.#wake = undefined
        if (this.#waitingBytes > most) tooLong()
        if (this.failure !== undefined) resume(Effect.fail(this.failure))
        else if (this.#ended) resume(Effect.succeed(Buffer.concat(this.#take()).toString("utf8")))
        else {
          this.#wake = collect
          this.#resume()
        }
      }
      collect()
      return Effect.sync(() => this.close())
    })
  }

  #take(): ReadonlyArray<Buffer> {
    const taken = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    return taken
  }

  #fail(reason: UpstreamFailed["reason"], detail: string): void {
    this.failure ??= new UpstreamFailed({ upstream: this.#upstream.id, reason, detail })
    clearTimeout(this.#timer)
    this.#controller?.abort(abandoned)
    if (this.status === 0) this.#onHead(this)
    else this.#wake?.()
  }
}

type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2]

const abandoned = new Error("the answer is not wanted any more")

const failureOf = (
  upstream: Upstream,
  apiKey: string | undefined,
  cause: Error,
  otherwise: "unreachable" | "cut_off"
): UpstreamFailed => {
  const code = Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""
  return new UpstreamFailed({
    upstream: upstream.id,
    reason: reasons.get(code) ?? otherwise,
    detail: redact(`${code} ${cause.message}`.trim(), apiKey)
  })
}

const reasons = new Map<string, UpstreamFailed["reason"]>([["UND_ERR_HEADERS_OVERFLOW", "malformed_answer"]])
