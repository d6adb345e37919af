import { Duration, Effect, Predicate, Schedule, type Scope } from "effect"
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
    Effect.sync(() =>
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
    /**
     * Posts JSON; gives the answer once its head has come with status 200. The scope's end closes the connection if
     * anything of the answer is unread. Connect errors, 429 and 5xx are tried again, at most twice.
     */
    const post = (
      upstream: Upstream,
      path: string,
      body: object,
      errorText: (body: unknown) => string | undefined
    ): Effect.Effect<Dispatcher.ResponseData, UpstreamFailed | UpstreamRefused, Scope.Scope> => {
      const url = new URL(`${upstream.baseUrl.replace(/\/+$/, "")}${path}`)
      const text = JSON.stringify(body)

      const send = Effect.callback<Dispatcher.ResponseData, Attempt>((resume) => {
        const abort = new AbortController()
        agent.request({
          origin: url.origin,
          path: `${url.pathname}${url.search}`,
          method: "POST",
          headers: {
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            ...upstream.apiKey === undefined ? {} : { authorization: `Bearer ${upstream.apiKey}` }
          },
          body: text,
          signal: abort.signal
        }).then(
          (answer) => resume(Effect.succeed(answer)),
          (cause) => resume(Effect.fail(attempt(connectionFailure(upstream, cause))))
        )
        return Effect.sync(() => abort.abort())
      })

      const open = Effect.acquireRelease(
        Effect.interruptible(send),
        (answer) =>
          Effect.sync(() => {
            // Whoever reads the body learns of its errors; a body dropped unread has nobody to tell.
            answer.body.on("error", () => undefined)
            answer.body.destroy()
          })
      )

      return Effect.flatMap(open, (answer) =>
        answer.statusCode === 200
          ? Effect.succeed(answer)
          : Effect.flatMap(readText(upstream, answer, mostErrorBytes, "cut"), (said) =>
            Effect.fail(statusFailure(upstream, answer, said, errorText)))).pipe(
          Effect.mapError((error) => Predicate.isTagged(error, "Attempt") ? error : attempt(error)),
          Effect.retry({
            while: ({ error, retryAfter }) =>
              error._tag === "UpstreamFailed" && isTransient(error) && (retryAfter ?? 0) <= longestWait,
            times: 2,
            schedule: backoff
          }),
          Effect.mapError(({ error }) => error)
        )
    }

    return { post }
  }
)

export type Transport = Effect.Success<typeof make>

/** The whole body as text. Past the bound it is cut, or a failure. */
export const readText = (
  upstream: Upstream,
  answer: Dispatcher.ResponseData,
  mostBytes = mostAnswerBytes,
  beyond: "fail" | "cut" = "fail"
): Effect.Effect<string, UpstreamFailed> =>
  Effect.tryPromise({
    try: async () => {
      const parts: Array<Buffer> = []
      let bytes = 0
      for await (const part of answer.body as AsyncIterable<Buffer>) {
        parts.push(part)
        bytes += part.length
        if (bytes > mostBytes) {
          if (beyond === "fail") throw new RangeError(`the answer is longer than ${mostBytes} bytes`)
          break
        }
      }
      return Buffer.concat(parts).toString("utf8")
    },
    catch: (cause) => connectionFailure(upstream, cause, "cut_off")
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
    reason: cause instanceof RangeError
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
  errorText: (body: unknown) => string | undefined
): Attempt => {
  const status = answer.statusCode
  const said = redact(errorText(parseOrUndefined(body)) ?? "", upstream.apiKey)
  if (status === 400 || status === 413 || status === 422) {
    return attempt(
      new UpstreamRefused({ upstream: upstream.id, status, said: said === "" ? `status ${status}, no reason given.` : said })
    )
  }
  return attempt(
    new UpstreamFailed({
      upstream: upstream.id,
      reason: status === 429
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
