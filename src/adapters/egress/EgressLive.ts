import { Effect, Layer } from "effect"
import { lookup as resolve } from "node:dns"
import { lookup } from "node:dns/promises"
import { isIP, type LookupFunction } from "node:net"
import type { ReadableStream as NodeStream } from "node:stream/web"
import { Agent, buildConnector, fetch } from "undici"
import { Egress, ForbiddenAddress } from "../../application/ports/runtime/Egress.ts"
import { isPublicAddress } from "./PublicAddress.ts"

/** How long a connection may take to come about, in milliseconds. */
const connectTimeout = 10_000

/** With `allowPrivate` every address may be called: on one's own machine a caller's are one's own. */
export const layer = ({ allowPrivate }: { readonly allowPrivate: boolean }): Layer.Layer<Egress> =>
  Layer.effect(
    Egress,
    Effect.gen(function* () {
      const isAllowed = (address: string) => allowPrivate || isPublicAddress(address)
      const isAllowedHost = (host: string) => allowPrivate || (isIP(host) === 0 ? !isOwnName(host) : isAllowed(host))
      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => agentOf(isAllowed, isAllowedHost)),
        (made) => Effect.promise(() => made.destroy())
      )

      const check = Effect.fn("Egress.check")(function* (url: string) {
        const target = httpUrl(url)
        if (target === undefined) return yield* new ForbiddenAddress({ host: nameOf(url) })
        const host = bare(target.hostname)
        if (!isAllowedHost(host)) return yield* new ForbiddenAddress({ host })
        const addresses = yield* Effect.orElseSucceed(
          Effect.tryPromise(() => lookup(host, { all: true })),
          () => []
        )
        if (!addresses.every(({ address }) => isAllowed(address))) return yield* new ForbiddenAddress({ host })
      })

      return Egress.of({
        check,
        fetch: async (url, init = {}) => {
          if (httpUrl(url) === undefined) throw new ForbiddenAddress({ host: nameOf(url) })
          const { body, headers, method, redirect, signal } = init
          try {
            const answer = await fetch(url, {
              dispatcher: agent,
              ...(body == null ? {} : { body: await new Response(body).bytes() }),
              ...(headers === undefined ? {} : { headers: [...new Headers(headers)] }),
              ...(method === undefined ? {} : { method }),
              ...(redirect === undefined ? {} : { redirect }),
              ...(signal === undefined ? {} : { signal })
            })
            return new Response(answer.body === null ? null : relayed(answer.body), {
              status: answer.status,
              statusText: answer.statusText,
              headers: [...answer.headers]
            })
          } catch (error) {
            throw forbiddenIn(error) ?? error
          }
        }
      })
    })
  )

/**
 * Its connections go to addresses that were looked at: those of a name are checked as they are resolved for this very
 * connection, so that a name cannot lead elsewhere a moment later. A host that is an address itself is never resolved.
 */
const agentOf = (isAllowed: (address: string) => boolean, isAllowedHost: (host: string) => boolean): Agent => {
  const resolveAllowed: LookupFunction = (host, options, callback) =>
    resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, [])
      const first = addresses[0]
      if (first === undefined || !addresses.every(({ address }) => isAllowed(address))) {
        return callback(new ForbiddenAddress({ host }), [])
      }
      return options.all === true ? callback(null, addresses) : callback(null, first.address, first.family)
    })
  const connect = buildConnector({ timeout: connectTimeout, lookup: resolveAllowed })
  return new Agent({
    connect: (options, callback) => {
      const host = bare(options.hostname)
      if (!isAllowedHost(host)) return callback(new ForbiddenAddress({ host }), null)
      return connect(options, callback)
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
