import { Effect, Layer } from "effect"
import { lookup } from "node:dns/promises"
import { isIP } from "node:net"
import type { ReadableStream as NodeStream } from "node:stream/web"
import { Agent, buildConnector, fetch } from "undici"
import { Egress, ForbiddenAddress } from "../../application/ports/runtime/Egress.ts"
import { blockedPorts } from "./BlockedPorts.ts"
import { isPublicAddress } from "./PublicAddress.ts"

type Answer = Awaited<ReturnType<typeof fetch>>

/** A request in a form that can be sent again. */
interface Sent {
  readonly body: Uint8Array<ArrayBuffer> | undefined
  readonly headers: Array<[string, string]>
  readonly method: string
  readonly redirect: RequestRedirect
  readonly signal: AbortSignal | null | undefined
}

/** Answers that lead to another address. */
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** As many as browsers follow. */
const mostRedirects = 20

/** What another host may know of a request. Any other header can be a key, whatever it is called. */
const harmless: ReadonlySet<string> = new Set([
  "accept",
  "accept-language",
  "content-type",
  "last-event-id",
  "mcp-protocol-version",
  // The server's own, not a key of ours.
  "mcp-session-id",
  "user-agent"
])

/** How long a connection may take to come about, in milliseconds. */
const connectTimeout = 10_000

/** With `allowPrivate` every address may be called: on one's own machine a caller's are one's own. */
export const layer = ({ allowPrivate }: { readonly allowPrivate: boolean }): Layer.Layer<Egress> =>
  Layer.effect(
    Egress,
    Effect.gen(function* () {
      const isAllowed = (address: string) => allowPrivate || isPublicAddress(address)
      const isAllowedHost = (host: string) => allowPrivate || (isIP(host) === 0 ? !isOwnName(host) : isAllowed(host))

      const resolve: Egress["Service"]["resolve"] = async (hostname) => {
        const host = bare(hostname)
        if (!isAllowedHost(host)) throw new ForbiddenAddress({ host })
        if (isIP(host) !== 0) return [{ address: host, family: isIP(host) }]
        const [first, ...others] = await lookup(host, { all: true })
        if (first === undefined || ![first, ...others].every(({ address }) => isAllowed(address))) {
          throw new ForbiddenAddress({ host })
        }
        return [first, ...others]
      }

      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => agentOf(resolve)),
        (made) => Effect.promise(() => made.destroy())
      )

      const check = Effect.fn("Egress.check")(function* (url: string) {
        const target = httpUrl(url)
        if (target === undefined) return yield* new ForbiddenAddress({ host: nameOf(url) })
        const host = bare(target.hostname)
        if (!isAllowedHost(host)) return yield* new ForbiddenAddress({ host })
        if (!allowPrivate && blockedPorts.has(Number(target.port)))
          return yield* new ForbiddenAddress({ host: target.host })
        const addresses = yield* Effect.orElseSucceed(
          Effect.tryPromise(() => lookup(host, { all: true })),
          () => []
        )
        if (!addresses.every(({ address }) => isAllowed(address))) return yield* new ForbiddenAddress({ host })
      })

      /** One request, of which an answer that leads elsewhere is an answer. */
      const request = async (
        url: string | URL,
        { body, headers, method, signal }: Omit<Sent, "redirect">
      ): Promise<Answer> => {
        if (httpUrl(url) === undefined) throw new ForbiddenAddress({ host: nameOf(url) })
        try {
          return await fetch(url, {
            dispatcher: agent,
            headers,
            method,
            redirect: "manual",
            ...(body === undefined ? {} : { body }),
            ...(signal === undefined ? {} : { signal })
          })
        } catch (error) {
          throw forbiddenIn(error) ?? error
        }
      }

      const followed = async (url: string | URL, sent: Sent): Promise<Answer> => {
        let to: string | URL = url
        let next = sent
        for (let hops = 0; ; hops++) {
          const answer = await request(to, next)
          const location = redirects.has(answer.status) ? answer.headers.get("location") : null
          if (location === null || next.redirect === "manual") return answer
          await answer.body?.cancel()
          if (next.redirect === "error") throw new TypeError("it redirects, and is not to be followed")
          if (hops === mostRedirects) throw new TypeError(`it redirects more than ${mostRedirects} times`)
          if (!URL.canParse(location, to)) throw new TypeError("it redirects to what is no address")
          const target = new URL(location, to)
          next = redirected(next, answer.status, new URL(to).origin === target.origin)
          to = target
        }
      }

      return Egress.of({
        check,
        resolve,
        fetch: async (url, { body, headers, method = "GET", redirect = "follow", signal } = {}) => {
          const answer = await followed(url, {
            body: body == null ? undefined : await new Response(body).bytes(),
            headers: [...new Headers(headers)],
            method,
            redirect,
            signal
          })
          return new Response(answer.body === null ? null : relayed(answer.body), {
            status: answer.status,
            statusText: answer.statusText,
            headers: [...answer.headers]
          })
        }
      })
    })
  )

/**
 * What is sent to the address that an answer leads to, as browsers do it, with one difference: at another host (or
 * port, or without TLS) nothing of the caller's headers arrives that could be a key (decisions 10).
 */
const redirected = ({ body, headers, method, ...rest }: Sent, status: number, isSameOrigin: boolean): Sent => {
  const isGet = status === 303 ? method !== "HEAD" : (status === 301 || status === 302) && method === "POST"
  const kept = headers.filter(
    ([name]) => (isSameOrigin || harmless.has(name)) && !(isGet && name.startsWith("content-"))
  )
  return { ...rest, headers: kept, ...(isGet ? { method: "GET", body: undefined } : { method, body }) }
}

/**
 * Its connections go to addresses that were looked at: those of a name are checked as they are resolved for this very
 * connection, so that a name cannot lead elsewhere a moment later. A host that is an address itself is never resolved.
 */
const agentOf = (resolve: Egress["Service"]["resolve"]): Agent => {
  const connect = buildConnector({
    timeout: connectTimeout,
    lookup: (host, { all }, callback) => {
      resolve(host).then(
        (addresses) =>
          all === true ? callback(null, [...addresses]) : callback(null, addresses[0].address, addresses[0].family),
        (error: Error) => callback(error, [])
      )
    }
  })
  return new Agent({
    connect: (options, callback) => {
      if (isIP(bare(options.hostname)) === 0) return connect(options, callback)
      resolve(options.hostname).then(
        () => connect(options, callback),
        (error: Error) => callback(error, null)
      )
    },
    // A stream of events may be silent for as long as nothing happens.
    bodyTimeout: 0,
    maxHeaderSize: 64 * 1024
  })
}

/** Without a user's name and password: `fetch` takes none in an address. */
const httpUrl = (url: string | URL): URL | undefined => {
  if (!URL.canParse(String(url))) return undefined
  const parsed = new URL(url)
  const isHttp = parsed.protocol === "http:" || parsed.protocol === "https:"
  return isHttp && parsed.username === "" && parsed.password === "" ? parsed : undefined
}

/** As much of an address as a message may tell: what stands besides the host can be a secret. */
const nameOf = (url: string | URL): string => {
  const { host, protocol } = URL.canParse(String(url)) ? new URL(url) : { host: "", protocol: "This" }
  return `${protocol}${host === "" ? "" : `//${host}`}`
}

/** Resolvers differ in what they know of these. */
const isOwnName = (host: string): boolean => /(?:^|\.)localhost\.?$/i.test(host)

/** An IPv6 address without its brackets. */
const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, "")

/** The same bytes as the stream that the global `Response` knows: this one is of another library. */
const relayed = (body: NodeStream<Uint8Array<ArrayBuffer>>): ReadableStream<Uint8Array<ArrayBuffer>> => {
  const reader = body.getReader()
  return new ReadableStream({
    pull: async (controller) => {
      const { done, value } = await reader.read()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: (reason) => reader.cancel(reason)
  })
}

/** What stopped a connection is the cause of what `fetch` rejects with. */
const forbiddenIn = (error: unknown): ForbiddenAddress | undefined => {
  if (error instanceof ForbiddenAddress) return error
  return error instanceof Error && error.cause !== undefined ? forbiddenIn(error.cause) : undefined
}
