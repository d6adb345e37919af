import { Cause, Effect, Predicate } from "effect"
import type { Dispatcher } from "undici"
import { UpstreamFailed } from "../../domain/completion/CompletionErrors.ts"
import type { Upstream } from "./Driver.ts"
import { redact } from "./Redaction.ts"

/** Bytes that may wait for whoever reads the answer before the upstream is told to pause. */
const mostWaitingBytes = 256 * 1024

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
  readonly #deadline: number
  readonly #onHead: (exchange: Exchange) => void
  #controller: Dispatcher.DispatchController | undefined
  #waiting: Array<Buffer> = []
  #waitingBytes = 0
  #closed = false
  #ended = false
  #wake: (() => void) | undefined
  status = 0
  /** The header `Retry-After`, as it came. */
  retryAfter: string | undefined
  failure: UpstreamFailed | undefined

  /** `total` is how long the whole answer may take, in milliseconds. */
  constructor(upstream: Upstream, apiKey: string | undefined, total: number, onHead: (exchange: Exchange) => void) {
    this.#upstream = upstream
    this.#apiKey = apiKey
    this.#deadline = Date.now() + total
    this.#onHead = onHead
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#closed) controller.abort(abandoned)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return
    this.status = status
    const { "retry-after": retryAfter } = headers
    if (typeof retryAfter === "string") this.retryAfter = retryAfter
    this.#onHead(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#closed) return
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    if (Date.now() > this.#deadline) return this.#fail("timeout", "the answer took too long")
    if (this.#wake === undefined && this.#waitingBytes > mostWaitingBytes) controller.pause()
    this.#wake?.()
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#wake?.()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#closed || this.#ended || this.failure !== undefined) return
    this.failure = failureOf(this.#upstream, this.#apiKey, error, this.status === 0 ? "unreachable" : "cut_off")
    if (this.status === 0) this.#onHead(this)
    else this.#wake?.()
  }

  /** Ends the connection unless the answer is complete. Nothing is reported any more. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#waiting = []
    if (!this.#ended && this.failure === undefined) this.#controller?.abort(abandoned)
  }

  /** What has arrived since the last pull, at least one piece; what came before a failure is given first. */
  readonly pull: Effect.Effect<ReadonlyArray<Buffer>, UpstreamFailed | Cause.Done> = Effect.suspend(() => {
    if (this.#waiting.length > 0) return Effect.succeed(this.#take())
    if (this.failure !== undefined) return Effect.fail(this.failure)
    if (this.#ended) return Cause.done()
    return Effect.flatMap(this.#more, () => this.pull)
  })

  readonly #more = Effect.callback<void>((resume) => {
    this.#wake = () => {
      this.#wake = undefined
      resume(Effect.void)
    }
    this.#controller?.resume()
    return Effect.sync(() => {
      this.#wake = undefined
    })
  })

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
        if (this.#waitingBytes > most) tooLong()
        if (this.failure !== undefined) resume(Effect.fail(this.failure))
        else if (this.#ended) resume(Effect.succeed(Buffer.concat(this.#take()).toString("utf8")))
        else this.#wake = collect
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
    this.#controller?.abort(abandoned)
    this.#wake?.()
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

const reasons = new Map<string, UpstreamFailed["reason"]>([
  ["UND_ERR_HEADERS_OVERFLOW", "malformed_answer"],
  ["UND_ERR_HEADERS_TIMEOUT", "timeout"],
  ["UND_ERR_BODY_TIMEOUT", "timeout"]
])
