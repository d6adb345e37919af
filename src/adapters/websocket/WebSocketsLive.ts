import { Cause, Clock, Context, Effect, Exit, Fiber, Layer, Metric, Result, Schedule } from "effect"
import type { IncomingMessage } from "node:http"
import type { Duplex } from "node:stream"
import { WebSocketServer } from "ws"
import { Approvals } from "../../application/conversation/Approvals.ts"
import { Listen } from "../../application/conversation/Listen.ts"
import { SendMessage } from "../../application/conversation/SendMessage.ts"
import { SessionsOfWorkspace } from "../../application/conversation/SessionsOfWorkspace.ts"
import { Authenticate } from "../../application/identity/Authenticate.ts"
import { StoreUnavailable } from "../../application/ports/storage/StoreUnavailable.ts"
import { defaultSession } from "../../domain/conversation/Session.ts"
import { carriesAttachment, type ClientFrame, isAcceptable, mostBytes, mostBytesAttached, read } from "./ClientFrame.ts"
import { closing, Connection, type Guest } from "./Connection.ts"
import { errorFrame } from "./ServerFrame.ts"

/** The WebSockets of clients (decisions 6), from the handshake on: whoever comes here has been let in. */
export class WebSockets extends Context.Service<
  WebSockets,
  {
    /** Answers the handshake of a guest. What is no handshake of a WebSocket is refused. */
    readonly take: (request: IncomingMessage, socket: Duplex, head: Buffer, guest: Guest) => void
    /** Asks all clients to connect elsewhere; completes when they are gone. */
    readonly end: Effect.Effect<void>
  }
>()("gateway/websocket/WebSockets") {}

/** The sub-protocol of browsers, which can send a key in no other way. */
const protocol = "gateway.v1"

/** What a new socket is held back of all events, in milliseconds: one that subscribes wants no others. */
const grace = 1_000

/** A client that has been silent for so long is asked for a sign of life. Proxies close what is silent for a minute. */
const silence = 25_000

/** One that gives none within so long is gone. */
const patience = 20_000

/** How often keys are looked at: a revocation ends its sockets within 5 s (decisions 1), 2 of which a key is remembered. */
const keysEvery = "2 seconds"

const mostSubscriptions = 1_000

const open = Metric.gauge("websocket_connections", { description: "Open WebSockets" })

export const layer = Layer.effect(
  WebSockets,
  Effect.gen(function* () {
    const listen = yield* Listen
    const messages = yield* SendMessage
    const approvals = yield* Approvals
    const sessions = yield* SessionsOfWorkspace
    const authenticate = yield* Authenticate
    const scope = yield* Effect.scope
    const fork = Effect.runForkWith(yield* Effect.context<never>())
    const connections = new Set<Connection>()

    const server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: mostBytesAttached,
      handleProtocols: (offered) => (offered.has(protocol) ? protocol : false)
    })

    /** Does what a frame says; fails with the reason why it cannot. */
    const obey = (connection: Connection, frame: ClientFrame): Effect.Effect<void, Refusal> => {
      const { caller, workspace } = connection.guest
      switch (frame.type) {
        case "message":
          return messages
            .send(workspace, {
              session: frame.sessionId,
              content: frame.content,
              stream: frame.stream ?? false,
              caller: caller ?? null,
              image: frame.imageData,
              file: frame.fileData
            })
            .pipe(
              Effect.asVoid,
              Effect.catchTags({
                MessageRefused: ({ message }) => refuse("invalid_message", message, frame.sessionId),
                TooManySessions: ({ message }) => refuse("too_many_sessions", message, frame.sessionId)
              })
            )
        case "reset":
          return sessions.reset(workspace, frame.sessionId ?? defaultSession)
        case "cancel":
          return sessions.cancel(workspace, frame.sessionId).pipe(
            Effect.asVoid,
            Effect.catchTags({
              SessionNotFound: ({ message }) => refuse("session_not_found", message, frame.sessionId)
            })
          )
        case "approvalResponse": {
          const { approvalId, data, status } = frame.data
          return approvals
            .answer(workspace, approvalId, { status, ...data })
            .pipe(Effect.catchTags({ ApprovalNotFound: ({ message }) => refuse("approval_not_found", message) }))
        }
        case "subscribe": {
          const { listening } = connection
          if (listening === undefined) return Effect.void
          return listening.subscriptions() < mostSubscriptions
            ? Effect.asVoid(listening.subscribe(frame.sessionId, frame.after))
            : refuse("too_many_subscriptions", `A socket subscribes to at most ${mostSubscriptions} sessions.`)
        }
      }
    }

    const answer = Effect.fnUntraced(function* (connection: Connection, bytes: Buffer) {
      const found = read(bytes)
      if (bytes.byteLength > mostBytes && !(Result.isSuccess(found) && carriesAttachment(found.success))) {
        return connection.close(closing.tooBig)
      }
      // It has something else to say than what it wants to hear.
      if (Result.isFailure(found) || found.success.type !== "subscribe") connection.listening?.release()
      if (Result.isFailure(found)) {
        const { code, message } = found.failure
        return connection.send(errorFrame({ message, code, recoverable: true }))
      }
      const exit = yield* Effect.exit(obey(connection, found.success))
      if (Exit.isFailure(exit)) connection.send(errorFrame(yield* reasonOf(exit.cause)))
    })

    /** One frame after the other: what a client asks for is asked for before its next frame is looked at. */
    const work = Effect.fnUntraced(function* (connection: Connection) {
      for (let frame = connection.next(); frame !== undefined; frame = connection.next()) {
        yield* answer(connection, frame)
      }
      connection.isBusy = false
    })

    const take = (request: IncomingMessage, socket: Duplex, head: Buffer, guest: Guest): void =>
      server.handleUpgrade(request, socket, head, (ws) => {
        const connection = new Connection(ws, guest, Date.now())
        connections.add(connection)
        connection.listening = listen.open(guest.workspace, connection)
        connection.listening.all()
        ws.on("message", (data, isBinary) => {
          connection.heard = Date.now()
          if (connection.closed > 0) return
          if (isBinary || !Buffer.isBuffer(data)) {
            return connection.send(
              errorFrame({ message: "A frame is text, not binary.", code: "invalid_frame", recoverable: true })
            )
          }
          if (!isAcceptable(data)) return connection.close(closing.tooBig)
          connection.push(data)
          if (connection.isBusy) return
          connection.isBusy = true
          Fiber.runIn(fork(work(connection)), scope)
        })
        const hear = () => {
          connection.heard = Date.now()
        }
        ws.on("ping", hear)
        ws.on("pong", hear)
        // What breaks the protocol closes the socket, with the code that says why.
        ws.on("error", ignore)
        ws.on("close", () => {
          connection.listening?.stop()
          connections.delete(connection)
        })
      })

    yield* Clock.currentTimeMillis.pipe(
      Effect.flatMap((now) => {
        for (const connection of connections) {
          if (now - connection.since >= grace) connection.listening?.release()
          if (connection.hasStayed(now)) connection.cut()
          else if (connection.asked > connection.heard) {
            if (now - connection.asked >= patience) connection.cut()
          } else if (now - connection.heard >= silence) connection.ask(now)
        }
        return Metric.update(open, connections.size)
      }),
      Effect.repeat(Schedule.spaced("1 second")),
      Effect.forkScoped
    )

    /** A store that is away says nothing of keys. */
    const isRevoked = (key: string) =>
      authenticate.byKey(key).pipe(
        Effect.as(false),
        Effect.catchTags({ InvalidApiKey: () => Effect.succeed(true) }),
        Effect.catchCause((cause) => (Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeed(false)))
      )

    yield* Effect.suspend(() => {
      const byKey = new Map<string, Array<Connection>>()
      for (const connection of connections) {
        const { key } = connection.guest
        if (key === "") continue
        const others = byKey.get(key)
        if (others === undefined) byKey.set(key, [connection])
        else others.push(connection)
      }
      return Effect.forEach(
        byKey,
        ([key, own]) =>
          Effect.map(isRevoked(key), (revoked) => {
            if (revoked) for (const connection of own) connection.close(closing.keyRevoked)
          }),
        { concurrency: 16, discard: true }
      )
    }).pipe(Effect.repeat(Schedule.fixed(keysEvery)), Effect.forkScoped)

    const end = Effect.gen(function* () {
      for (const connection of connections) connection.close(closing.restarting)
      yield* Effect.sleep("20 millis").pipe(
        Effect.repeat({ until: () => connections.size === 0 }),
        Effect.timeoutOrElse({ duration: "2 seconds", orElse: () => Effect.void })
      )
      for (const connection of connections) connection.cut()
    })

    yield* Effect.addFinalizer(() => end)

    return WebSockets.of({ take, end })
  })
)

/** Why a frame led to nothing. */
interface Refusal {
  readonly code: string
  readonly message: string
  readonly sessionId: string | undefined
}

const refuse = (code: string, message: string, sessionId?: string): Effect.Effect<never, Refusal> =>
  Effect.fail({ code, message, sessionId })

/** As the client is told. A bug is told in the log. */
const reasonOf = (cause: Cause.Cause<Refusal>): Effect.Effect<Parameters<typeof errorFrame>[0]> => {
  const refusal = Cause.findErrorOption(cause)
  if (refusal._tag === "Some") {
    const { code, message, sessionId } = refusal.value
    return Effect.succeed({ message, code, recoverable: true, ...(sessionId === undefined ? {} : { sessionId }) })
  }
  const failure = Cause.squash(cause)
  return failure instanceof StoreUnavailable
    ? Effect.as(Effect.logError("The store cannot be reached.", cause), {
        message: failure.message,
        code: "service_unavailable",
        recoverable: true
      })
    : Effect.as(Effect.logError("A frame failed unexpectedly.", cause), {
        message: "The service failed unexpectedly.",
        code: "internal_error",
        recoverable: true
      })
}

const ignore = (): void => undefined
