import { Context } from "effect"
import { randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { envelopeOf } from "../gateway/GatewayEnvelope.ts"
import type { Source } from "./RequestState.ts"
import { MalformedHttp } from "./RouteErrors.ts"
import { pathOf } from "./Routes.ts"

/** The server that listens. */
export class NodeServer extends Context.Service<NodeServer, Server>()("gateway/http/NodeServer") {}

/**
 * Node's server. What is not HTTP never becomes a request, and Node would answer it without a body: here it gets the
 * envelope like everything else.
 */
export const nodeServer = (): Server => {
  const answers = new WeakMap<Duplex, ServerResponse>()
  const remember = ({ socket }: IncomingMessage, response: ServerResponse) => void answers.set(socket, response)

  const server = createServer({
    // `requiringHost` answers instead.
    requireHostHeader: false,
    // Clients offer `h2c` with ordinary requests, which are served as such; so are those that are not for a WebSocket.
    shouldUpgradeCallback: ({ headers, method, url = "" }) =>
      method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && webSockets.has(pathOf(url))
  })
  return (
    server
      .on("request", remember)
      .on("checkContinue", remember)
      // An expectation that nobody knows may be passed over.
      .on("checkExpectation", (request, response) => server.emit("request", request, response))
      .on("connect", (_request, socket) => {
        refuse(socket, new MalformedHttp({ status: 400, detail: "this is no proxy." }))
      })
      .on("clientError", (error: NodeJS.ErrnoException, socket) => {
        const answer = answers.get(socket)
        // What followed the beginning of an answer would be read as a part of it.
        const isAnswering = answer !== undefined && answer.headersSent && !answer.writableFinished
        if (!socket.writable || error.code === "ECONNRESET" || isAnswering) socket.destroy()
        else refuse(socket, malformed(error))
      })
  )
}

/** Where WebSockets are opened (decisions 6). */
const webSockets = new Set(["/", "/ws"])

/** HTTP/1.1 demands the header `Host`. */
export const lacksHost = ({ headers, httpVersion }: Source): boolean =>
  headers.host === undefined && httpVersion === "1.1"

export const withoutHost = new MalformedHttp({ status: 400, detail: "it has no header Host." })

const malformed = ({ code = "", message }: NodeJS.ErrnoException): MalformedHttp =>
  new MalformedHttp(refusals.get(code) ?? { status: 400, detail: `${message}.` })

/** Node's own statuses for what it refuses. */
const refusals = new Map<string, { readonly status: MalformedHttp["status"]; readonly detail: string }>([
  ["ERR_HTTP_REQUEST_TIMEOUT", { status: 408, detail: "it did not arrive in time." }],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", { status: 413, detail: "its chunk extensions are too large." }],
  ["HPE_HEADER_OVERFLOW", { status: 431, detail: "its headers are too large." }]
])

/** The answer to what has no request, and the end of its connection. */
const refuse = (socket: Duplex, failure: MalformedHttp): void => {
  const id = randomUUID()
  const envelope = envelopeOf(failure, id)
  const body = JSON.stringify(envelope)
  socket.end(
    [
      `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}`,
      "content-type: application/json",
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${id}`,
      `x-should-retry: ${envelope.error.retryable}`,
      "connection: close",
      "",
      body
    ].join("\r\n")
  )
}
