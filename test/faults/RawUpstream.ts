import { once } from "node:events"
import { createServer, type Socket } from "node:net"

/** An upstream below HTTP: a test says what happens on each connection once the request has begun to arrive. */
export interface RawUpstream {
  readonly baseUrl: string
  readonly respond: (behaviour: (socket: Socket) => void) => void
  /** Connections that have not ended. */
  readonly open: () => number
  /** Connections so far. */
  readonly total: () => number
  readonly close: () => Promise<void>
}

export const startRawUpstream = async (): Promise<RawUpstream> => {
  const sockets = new Set<Socket>()
  let total = 0
  let behaviour: (socket: Socket) => void = (socket) => socket.destroy()
  const server = createServer((socket) => {
    total++
    sockets.add(socket)
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket))
    socket.once("data", () => behaviour(socket))
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("the upstream has no port")
  return {
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    respond: (next) => void (behaviour = next),
    open: () => sockets.size,
    total: () => total,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, "close")
    }
  }
}

/** Writes the same text as fast as it is read, until the other side leaves. */
export const flood = (socket: Socket, text: string): void => {
  const write = () => {
    while (!socket.destroyed && socket.write(text));
  }
  socket.on("drain", write)
  write()
}
