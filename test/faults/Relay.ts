import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"

/** A way to a server that a test can disturb: every connection through it is passed on byte by byte. */
export interface Relay {
  readonly port: number
  /** Nothing passes any more, on old connections and new ones; none is closed. */
  readonly silence: () => void
  /** Breaks every connection that was silenced; new ones pass again. */
  readonly resume: () => void
  readonly close: () => Promise<void>
}

export const startRelay = async (target: { readonly port: number }): Promise<Relay> => {
  const sockets = new Set<Socket>()
  let silent = false

  const pass = (from: Socket, to: Socket) => {
    sockets.add(from)
    from
      .on("data", (data) => void (silent || to.write(data)))
      .on("error", () => to.destroy())
      .on("close", () => {
        sockets.delete(from)
        to.destroy()
      })
  }
  const server = createServer((inside) => {
    const outside = connect(target.port, "127.0.0.1")
    pass(inside, outside)
    pass(outside, inside)
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("the relay has no port")

  const breakAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: address.port,
    silence: () => void (silent = true),
    resume: () => {
      silent = false
      breakAll()
    },
    close: async () => {
      breakAll()
      server.close()
      await once(server, "close")
    }
  }
}
