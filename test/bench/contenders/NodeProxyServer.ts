/**
 * A bare Node proxy on undici: what any gateway in this language pays before it does anything of its own.
 * Arguments: its port, the upstream's origin.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { Pool } from "undici"

const [port, upstream] = process.argv.slice(2)
if (port === undefined || upstream === undefined) throw new Error("usage: NodeProxyServer.ts <port> <upstream origin>")

const pool = new Pool(upstream, { connections: 256, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })

const forward = (request: IncomingMessage, body: Buffer, response: ServerResponse) =>
  pool.dispatch(
    {
      path: request.url ?? "/",
      method: request.method ?? "GET",
      headers: { "content-type": request.headers["content-type"] ?? "application/json" },
      body: body.length === 0 ? null : body
    },
    {
      onRequestStart: (controller) => {
        response.once("close", () => {
          if (!response.writableFinished) controller.abort(new Error("client left"))
        })
        response.on("drain", () => controller.resume())
      },
      onResponseStart: (_controller, status, { connection: _hop, "keep-alive": _alive, ...headers }) =>
        void response.writeHead(status, headers),
      onResponseData: (controller, chunk) => {
        if (!response.write(chunk)) controller.pause()
      },
      onResponseEnd: () => void response.end(),
      onResponseError: () => void (response.headersSent ? response.destroy() : response.writeHead(502).end())
    }
  )

createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => forward(request, Buffer.concat(chunks), response))
}).listen(Number(port), "127.0.0.1")
