import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import type { HttpServerRequest } from "effect/http"
import { ServerResponse } from "node:http"

/** Where a stream is written. No text is empty. */
export interface Outlet {
  readonly writableNeedDrain: boolean
  readonly writeHead: (status: number, headers: Record<string, string>) => unknown
  readonly write: (text: string) => boolean
  readonly end: (text: string) => unknown
  readonly once: (event: "drain", listener: () => void) => unknown
  readonly off: (event: "drain", listener: () => void) => unknown
  readonly destroy: () => unknown
}

/** Where the answer to a request is written. The service does not speak HTTP/2. */
export const outletOf = (request: HttpServerRequest.HttpServerRequest): Outlet => {
  const response = NodeHttpServerRequest.toServerResponse(request)
  if (response instanceof ServerResponse) return new Chunked(response)
  throw new TypeError("an event stream needs a response of Node's own HTTP")
}

/** A body whose HTTP chunks are framed here, to leave in one piece each. Node makes four of a chunk, and a token is one. */
class Chunked implements Outlet {
  readonly #response: ServerResponse
  /** As a rule not for clients of HTTP/1.0: to them the end of the connection is the end of the body. */
  #isChunked = false

  constructor(response: ServerResponse) {
    this.#response = response
  }

  get writableNeedDrain(): boolean {
    return this.#response.writableNeedDrain
  }

  writeHead(status: number, headers: Record<string, string>): void {
    this.#response.writeHead(status, headers)
    // Node has decided by now, and written so into the head; from here it passes the body on as it is.
    this.#isChunked = this.#response.chunkedEncoding
    this.#response.chunkedEncoding = false
  }

  write(text: string): boolean {
    return this.#response.write(this.#framed(text))
  }

  end(text: string): void {
    this.#response.end(this.#isChunked ? `${this.#framed(text)}0\r\n\r\n` : text)
  }

  once(event: "drain", listener: () => void): void {
    this.#response.once(event, listener)
  }

  off(event: "drain", listener: () => void): void {
    this.#response.off(event, listener)
  }

  destroy(): void {
    this.#response.destroy()
  }

  #framed(text: string): string {
    return this.#isChunked ? `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n` : text
  }
}
