import { Duration, Effect, Predicate, Schedule } from "effect"
import { Agent, type Dispatcher } from "undici"
import { UpstreamFailed, UpstreamRefused } from "../../domain/completion/CompletionErrors.ts"
import type { Upstream } from "./Driver.ts"
import { redact } from "./Redaction.ts"

/** Deadlines of an upstream call. Models think long before their first byte, but not between two. */
const connectTimeout = Duration.seconds(10)
const firstByteTimeout = Duration.minutes(5)
const idleTimeout = Duration.minutes(2)

/** What a whole answer, or the body of an error, may weigh. */
const mostAnswerBytes = 64 * 1024 * 1024
const mostErrorBytes = 64 * 1024

/** A failed attempt, and how long the upstream asked to be left alone. */
interface Attempt {
  readonly _tag: "Attempt"
  readonly error: UpstreamFailed | UpstreamRefused
  readonly retryAfter: number | undefined
}

/** Beyond this a caller is better served by an error than by waiting. */
const longestWait = Duration.toMillis(Duration.seconds(10))

/**
 * The connections to all upstreams: kept alive, undici underneath. An `HttpClient` with streams costs several times
 * more, and this is the path that every token takes.
 */
export const make = Effect.map(
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new Agent({
          connect: { timeout: Duration.toMillis(connectTimeout) },
          headersTimeout: Duration.toMillis(firstByteTimeout),
          bodyTimeout: Duration.toMillis(idleTimeout),
          maxHeaderSize: 64 * 1024,
          pipelining: 1
        })
    ),
    (agent) => Effect.promise(() => agent.destroy())
  ),
  (agent) => {
    /** The head of an answer. Interrupting it closes the connection. */
    const send = (upstream: Upstream, path: string, text: string): Effect.Effect<Dispatcher.ResponseData, Attempt> => {
      const url = new URL(`${upstream.baseUrl.replace(/\/+$/, "")}${path}`)
      return Effect.callback((resume) => {
        const abort = new AbortController()
        agent
          .request({
            origin: url.origin,
            path: `${url.pathname}${url.search}`,
            method: "POST",
            headers: {
              "content-type": "application/json",
              accept: "application/json, text/event-stream",
              ...(upstream.apiKey === undefined ? {} : { authorization: `Bearer ${upstream.apiKey}` })
            },
            body: text,
            signal: abort.signal
          })
          .then(
            (answer) => resume(Effect.succeed(answer)),
            (cause) => resume(Effect.fail(attempt(connectionFailure(upstream, cause))))
          )
        return Effect.sync(() => abort.abort())
      })
    }

    /** An answer that is not 200 is a failed attempt, with what its body says. */
    const refuse = (upstream: Upstream, answer: Dispatcher.ResponseData, errorText: ErrorText) =>
      Effect.matchEffect(readText(upstream, answer, mostErrorBytes, "cut"), {
        onFailure: (error) => Effect.fail(attempt(error)),
        onSuccess: (said) => Effect.fail(statusFailure(upstream, answer, said, errorText))
      })

    /** Posts JSON; gives the body of the answer. */
    const post = (upstream: Upstream, path: string, body: object, errorText: ErrorText) =>
      retried(
        Effect.acquireUseRelease(
          Effect.interruptible(send(upstream, path, JSON.stringify(body))),
          (answer) =>
            answer.statusCode === 200
              ? Effect.mapError(readText(upstream, answer), (error) => attempt(error))
              : refuse(upstream, answer, errorText),
          discard
        )
      )

    /** Posts JSON; gives the answer once its head has come. The scope's end closes what of it is unread. */
    const open = (upstream: Upstream, path: string, body: object, errorText: ErrorText) =>
      retried(
        Effect.flatMap(
          Effect.acquireRelease(Effect.interruptible(send(upstream, path, JSON.stringify(body))), discard),
          (answer) => (answer.statusCode === 200 ? Effect.succeed(answer) : refuse(upstream, answer, errorText))
        )
      )

    return { post, open }
  }
)

export type Transport = Effect.Success<typeof make>

type ErrorText = (body: unknown) => string | undefined

/** Connect errors, 429 and 5xx are tried again, at most twice: nothing of an answer has come yet. */
const retried = <A, R>(call: Effect.Effect<A, Attempt, R>): Effect.Effect<A, UpstreamFailed | UpstreamRefused, R> =>
  call.pipe(
    Effect.retry({
      while: ({ error, retryAfter }) =>
        error._tag === "UpstreamFailed" && isTransient(error) && (retryAfter ?? 0) <= longestWait,
      times: 2,
      schedule: backoff
    }),
    Effect.mapError(({ error }) => error)
  )

/** Closes the connection of an answer that was not read to its end. */
const discard = ({ body }: Dispatcher.ResponseData): Effect.Effect<void> =>
  Effect.sync(() => {
    if (body.readableEnded) return
    // Whoever reads the body learns of its errors; a body dropped unread has nobody to tell.
    body.on("error", () => undefined)
    body.destroy()
  })

/** The whole body as text. Past the bound it is cut, or a failure. */
const readText = (
  upstream: Upstream,
  { body }: Dispatcher.ResponseData,
  mostBytes = mostAnswerBytes,
  beyond: "fail" | "cut" = "fail"
): Effect.Effect<string, UpstreamFailed> =>
  Effect.callback((resume) => {
    const parts: Array<Buffer> = []
    let bytes = 0
    const end = () => resume(Effect.succeed(Buffer.concat(parts).toString("utf8")))
    const fail = (cause: unknown) => resume(Effect.fail(connectionFailure(upstream, cause, "cut_off")))
    body.on("data", (part: Buffer) => {
      bytes += part.length
      if (bytes <= mostBytes) return parts.push(part)
      body.pause()
      return beyond === "cut" ? end() : fail(new RangeError(`the answer is longer than ${mostBytes} bytes`))
    })
    body.on("end", end)
    body.on("error", fail)
  })

const attempt = (error: UpstreamFailed | UpstreamRefused, retryAfter?: number): Attempt => ({
  _tag: "Attempt",
  error,
  retryAfter
})

const isTransient = ({ reason }: UpstreamFailed): boolean =>
  reason === "unreachable" || reason === "rate_limited" || reason === "server_error"

/** 200 ms, then 400, with jitter; longer when the upstream said so. */
const backoff = Schedule.exponential(Duration.millis(200)).pipe(
  Schedule.setInputType<Attempt>(),
  Schedule.jittered,
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(Duration.max(duration, Duration.millis(input.retryAfter ?? 0)))
  )
)

export const connectionFailure = (
  upstream: Upstream,
  cause: unknown,
  otherwise: "unreachable" | "cut_off" = "unreachable"
): UpstreamFailed => {
  const code = Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""
  return new UpstreamFailed({
    upstream: upstream.id,
    reason:
      cause instanceof RangeError
        ? "malformed_answer"
        : code === "UND_ERR_HEADERS_OVERFLOW"
          ? "malformed_answer"
          : code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT"
            ? "timeout"
            : otherwise,
    detail: redact(`${code} ${cause instanceof Error ? cause.message : String(cause)}`.trim(), upstream.apiKey)
  })
}

const statusFailure = (
  upstream: Upstream,
  answer: Dispatcher.ResponseData,
  body: string,
  errorText: ErrorText
): Attempt => {
  const status = answer.statusCode
  const said = redact(errorText(parseOrUndefined(body)) ?? "", upstream.apiKey)
  if (status === 400 || status === 413 || status === 422) {
    return attempt(
      new UpstreamRefused({
        upstream: upstream.id,
        status,
        said: said === "" ? `status ${status}, no reason given.` : said
      })
    )
  }
  return attempt(
    new UpstreamFailed({
      upstream: upstream.id,
      reason:
        status === 429
          ? "rate_limited"
          : status === 401 || status === 402 || status === 403
            ? "credentials_refused"
            : status >= 500
              ? "server_error"
              : "unexpected_status",
      detail: `status ${status}: ${redact(said === "" ? body : said, upstream.apiKey)}`
    }),
    retryAfterMillis(answer.headers["retry-after"])
  )
}

const parseOrUndefined = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** `Retry-After` in seconds or as a date. */
const retryAfterMillis = (header: string | ReadonlyArray<string> | undefined): number | undefined => {
  if (typeof header !== "string") return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000)
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}
