import { Effect, Random, Scope } from "effect"
import { isIP } from "node:net"
import { Agent, buildConnector } from "undici"
import type { Egress } from "../../application/ports/runtime/Egress.ts"
import { UpstreamFailed, UpstreamRefused } from "../../domain/completion/CompletionErrors.ts"
import { redact } from "../../domain/shared/Redaction.ts"
import { type Deadlines, toMillis } from "./Deadlines.ts"
import { keyHeaders, type Upstream } from "./Driver.ts"
import { Exchange } from "./Exchange.ts"
import { type Guard, outcomeOf } from "./Guard.ts"

/** A failed attempt, and how long the upstream asked to be left alone, in milliseconds. */
interface Attempt {
  readonly _tag: "Attempt"
  readonly error: UpstreamFailed | UpstreamRefused
  readonly retryAfter: number
}

/** How often a call is tried again, and the pause before the first time in milliseconds; it doubles. */
const mostRetries = 2
const firstPause = 200

/** Beyond this a caller is better served by an error than by waiting. In milliseconds. */
const longestPause = 10_000

/**
 * The connections to all upstreams: kept alive, undici underneath by its lowest interface. Its streams and promises, or
 * an `HttpClient`, cost several times more, and this is the path that every token takes. Addresses that callers chose are
 * connected to as `Egress` resolves them.
 */
export const make = Effect.fnUntraced(function* (deadlines: Deadlines, { resolve }: Egress["Service"]) {
  const millis = toMillis(deadlines)
  const ownAddresses = yield* agent({ timeout: millis.connect })
  const chosenAddresses = yield* agent(connectorBy(resolve, millis.connect))
  const targets = new WeakMap<Upstream, Target>()

  const targetOf = (upstream: Upstream): Target => {
    const known = targets.get(upstream)
    if (known !== undefined) return known
    const url = new URL(`${upstream.baseUrl.replace(/\/+$/, "")}${upstream.protocol.path}`)
    const made = { origin: url.origin, path: `${url.pathname}${url.search}` }
    targets.set(upstream, made)
    return made
  }

  /** Sends a request; `onHead` makes of the answer's head what the call goes on with. */
  const send = <A>(
    upstream: Upstream,
    apiKey: string | undefined,
    body: string,
    onHead: (exchange: Exchange) => Effect.Effect<A, Attempt>
  ): Effect.Effect<A, Attempt> =>
    Effect.callback((resume) => {
      const exchange = new Exchange(upstream, apiKey, millis, () =>
        resume(
          exchange.status === 200
            ? onHead(exchange)
            : exchange.failure !== undefined
              ? Effect.fail(attempt(exchange.failure))
              : Effect.flatMap(exchange.errorText, (said) =>
                  Effect.fail(statusFailure(upstream, apiKey, exchange, said))
                )
        )
      )
      const target = targetOf(upstream)
      const headers = headersOf(upstream, apiKey)
      const connections = upstream.isChosenByCaller === true ? chosenAddresses : ownAddresses
      connections.dispatch({ ...target, method: "POST", headers, body }, exchange)
      return Effect.sync(() => exchange.close())
    })

  const wholeText = (exchange: Exchange) => Effect.mapError(exchange.text, attempt)

  /** Posts JSON; gives the text of the answer's body. Interrupting it closes the connection. */
  const post = (upstream: Upstream, guard: Guard, apiKey: string | undefined, body: string) =>
    retried(guard, send(upstream, apiKey, body, wholeText))

  /**
   * Posts JSON; gives the answer once its head has come. The scope's end closes the connection of an answer under way,
   * as `acquireRelease` would, which copies the whole context for a release that needs none.
   */
  const open = (upstream: Upstream, guard: Guard, apiKey: string | undefined, body: string) =>
    retried(
      guard,
      Effect.uninterruptible(
        Effect.flatMap(Effect.scope, (scope) =>
          Effect.tap(Effect.interruptible(send(upstream, apiKey, body, Effect.succeed)), (exchange) =>
            Scope.addFinalizer(
              scope,
              Effect.sync(() => exchange.close())
            )
          )
        )
      )
    )

  return { post, open }
})

const agent = (connect: Agent.Options["connect"]) =>
  Effect.acquireRelease(
    Effect.sync(
      () =>
        new Agent({
          ...(connect === undefined ? {} : { connect }),
          // An exchange keeps its deadlines itself: it knows when a body has begun.
          headersTimeout: 0,
          bodyTimeout: 0,
          maxHeaderSize: 64 * 1024,
          pipelining: 1
        })
    ),
    (agent) => Effect.promise(() => agent.destroy())
  )

/** Connects to no address but those that `resolve` gives for the connection. One that is given as such is not looked up. */
const connectorBy = (resolve: Egress["Service"]["resolve"], timeout: number): buildConnector.connector => {
  const connect = buildConnector({
    timeout,
    lookup: (host, { all }, callback) => {
      resolve(host).then(
        (found) => (all === true ? callback(null, [...found]) : callback(null, found[0].address, found[0].family)),
        (error: Error) => callback(error, [])
      )
    }
  })
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, "")
    if (isIP(host) === 0) return connect(options, callback)
    resolve(host).then(
      () => connect(options, callback),
      (error: Error) => callback(error, null)
    )
  }
}

/** Where a protocol's requests to an upstream go. */
interface Target {
  readonly origin: string
  readonly path: string
}

const headersOf = (upstream: Upstream, apiKey: string | undefined): Record<string, string> => ({
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  ...upstream.protocol.headers,
  ...keyHeaders(upstream, apiKey)
})

/**
 * Connect errors, 429 and 5xx are tried again, at most twice: nothing of an answer has come yet. A model that thought
 * for too long would do so again.
 */
const retried = <A, R>(
  guard: Guard,
  call: Effect.Effect<A, Attempt, R>,
  retries = 0
): Effect.Effect<A, UpstreamFailed | UpstreamRefused, R> =>
  Effect.catch(call, (failed) =>
    retries < mostRetries && mayBeTransient(failed) && guard.mayRetry
      ? Effect.flatMap(Effect.andThen(guard.count(outcomeOf(failed.error)), Random.next), (random) =>
          Effect.delay(
            retried(guard, call, retries + 1),
            Math.max(firstPause * 2 ** retries * (0.8 + 0.4 * random), failed.retryAfter)
          )
        )
      : Effect.fail(failed.error)
  )

const mayBeTransient = ({ error, retryAfter }: Attempt): boolean =>
  error._tag === "UpstreamFailed" &&
  (error.reason === "unreachable" || error.reason === "rate_limited" || error.reason === "server_error") &&
  retryAfter <= longestPause

const attempt = (error: UpstreamFailed | UpstreamRefused, retryAfter = 0): Attempt => ({
  _tag: "Attempt",
  error,
  retryAfter
})

/** What an answer that is not 200 means. */
const statusFailure = (
  upstream: Upstream,
  apiKey: string | undefined,
  { retryAfter, status }: Exchange,
  body: string
): Attempt => {
  const said = redact(upstream.protocol.errorText(parseOrUndefined(body)) ?? "", apiKey)
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
      detail: `status ${status}: ${redact(said === "" ? body : said, apiKey)}`
    }),
    retryAfterMillis(retryAfter)
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
const retryAfterMillis = (header: string | undefined): number => {
  if (header === undefined) return 0
  const seconds = Number(header)
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000)
  const date = Date.parse(header)
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now())
}
