import { Clock, Context, Effect, Layer, Result } from "effect"
import type { IncomingMessage } from "node:http"
import { STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { Ids } from "../../../application/ports/runtime/Ids.ts"
import type { Caller } from "../../../domain/identity/ApiKey.ts"
import type { OrganizationId } from "../../../domain/shared/Ids.ts"
import { credential } from "../edge/Credential.ts"
import { Drain } from "../edge/Drain.ts"
import { acceptableId } from "../edge/Edge.ts"
import { lacksHost, NodeServer, withoutHost } from "../edge/NodeServer.ts"
import { pathOf } from "../edge/Routes.ts"
import { Admission } from "./Admission.ts"
import { brief } from "./envelopes/MessageEnvelope.ts"
import { allowsOrigin, RuntimeAccess, strangerOf } from "./RuntimeAccess.ts"

/** Who takes over the connections that become WebSockets. */
export class Upgrades extends Context.Service<
  Upgrades,
  {
    readonly take: (
      request: IncomingMessage,
      socket: Duplex,
      head: Buffer,
      guest: { readonly workspace: OrganizationId; readonly caller: Caller | undefined; readonly key: string }
    ) => void
    /** Asks all clients to connect elsewhere; completes when they are gone. */
    readonly end: Effect.Effect<void>
  }
>()("gateway/http/Upgrades") {
  /** Lets them in as requests of the runtime are let in, and refuses them as those are refused. */
  static readonly serve = Layer.effectDiscard(
    Effect.gen(function* () {
      const upgrades = yield* Upgrades
      const admission = yield* Admission
      const access = yield* RuntimeAccess
      const drain = yield* Drain
      const ids = yield* Ids
      const fork = Effect.runForkWith(yield* Effect.context<never>())

      /** Who it is, or with which answer he is sent away. */
      const admit = Effect.fnUntraced(function* (request: IncomingMessage) {
        if (lacksHost(request)) return refused(400, withoutHost.message)
        if (drain.isClosing()) return refused(503, "The service is stopping: connect again.")
        const stranger = strangerOf(access, request.headers) ?? strangePageOf(access, request)
        if (stranger !== undefined) return refused(403, stranger)
        const key = credential(request.headers.authorization) || keyOf(request.headers["sec-websocket-protocol"])
        return yield* admission.workspaceOf(key).pipe(
          Effect.map(({ caller, id }) =>
            Result.succeed({ workspace: id, caller, key: caller === undefined ? "" : key })
          ),
          Effect.catchTags({
            InvalidApiKey: ({ message }) => Effect.succeed(refused(401, message, { "www-authenticate": "Bearer" }))
          }),
          Effect.catchCause((cause) =>
            Effect.as(
              Effect.logError("A WebSocket cannot be let in.", cause),
              refused(503, "A required service is temporarily unavailable.")
            )
          )
        )
      })

      const upgrade = Effect.fnUntraced(function* (request: IncomingMessage, socket: Duplex, head: Buffer) {
        const started = yield* Clock.currentTimeMillis
        const given = request.headers["x-request-id"]
        const requestId = typeof given === "string" && acceptableId.test(given) ? given : yield* ids.next
        // Whoever goes away meanwhile needs no answer.
        socket.on("error", ignore)
        const admitted = yield* admit(request)
        socket.off("error", ignore)
        if (Result.isSuccess(admitted)) upgrades.take(request, socket, head, admitted.success)
        else answer(socket, requestId, admitted.failure)
        const caller = Result.isSuccess(admitted) ? admitted.success.caller : undefined
        yield* Effect.logInfo("request", {
          requestId,
          method: "GET",
          path: pathOf(request.url ?? "/"),
          status: Result.isSuccess(admitted) ? 101 : admitted.failure.status,
          ms: (yield* Clock.currentTimeMillis) - started,
          ...(caller === undefined
            ? {}
            : { organization: caller.organizationId, member: caller.memberId, key: caller.keyId })
        })
      })

      // Instead of the framework's way, which keeps a request and more for as long as a socket is open.
      const server = yield* NodeServer
      server.removeAllListeners("upgrade")
      server.on("upgrade", (request, socket, head) => void fork(upgrade(request, socket, head)))
      drain.atDeadline(upgrades.end)
    })
  )
}

interface Refused {
  readonly status: number
  readonly message: string
  readonly headers: Readonly<Record<string, string>>
}

const refused = (
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {}
): Result.Result<never, Refused> => Result.fail({ status, message, headers })

/** The key of a browser, which can send no header: among the sub-protocols `gateway.v1, bearer.<key>`. */
const keyOf = (protocols: string | undefined): string =>
  protocols
    ?.split(",")
    .map((offered) => offered.trim())
    .find((offered) => offered.startsWith(bearer))
    ?.slice(bearer.length) ?? ""

const bearer = "bearer."

/**
 * What no page may read of answers, it may not read of sockets either: browsers do not ask before they open one. A page
 * of the service's own host may.
 */
const strangePageOf = (access: RuntimeAccess["Service"], { headers }: IncomingMessage): string | undefined => {
  const { host, origin } = headers
  if (origin === undefined || allowsOrigin(access, origin)) return undefined
  if (host !== undefined && URL.canParse(origin) && new URL(origin).host === host) return undefined
  return `Pages of ${JSON.stringify(origin)} may not use this service. List the origin in CORS_ORIGINS to let them.`
}

/** `{error}` of section 7.2, to a connection that has no response, and its end. */
const answer = (socket: Duplex, requestId: string, { headers, message, status }: Refused): void => {
  const body = JSON.stringify({ error: brief(message) })
  const head = Object.entries({
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": requestId,
    ...headers,
    connection: "close"
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.on("error", ignore)
  socket.once("finish", () => socket.destroy())
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join("")}\r\n${body}`)
}

const ignore = (): void => undefined
