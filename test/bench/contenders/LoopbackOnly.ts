/** Preloaded into a contender that cannot be told its address: a bench opens no port to the network. */
import { Server } from "node:net"

// oxlint-disable-next-line typescript/unbound-method -- called with its server below
const listen = Server.prototype.listen
Object.assign(Server.prototype, {
  listen(this: Server, port: number, _host: unknown, ready: () => void) {
    return Reflect.apply(listen, this, [port, "127.0.0.1", ready])
  }
})
