import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as NodeSocketServer from "@effect/platform-node/NodeSocketServer"
import { Duration, Effect, Layer, Schema } from "effect"
import { Runners } from "effect/cluster"
import { RpcClient, RpcSerialization } from "effect/rpc"
import { Socket } from "effect/socket"
import { SqlClient, SqlSchema } from "effect/sql"

/**
 * The sockets that the processes of a cluster tell each other by. Whoever spoke on them could run turns, so both sides
 * prove that they know the key in the store that they share, and what they say is encrypted with what comes of it.
 */
const ciphers = "ECDHE-PSK-CHACHA20-POLY1305"

const identity = "replica"

const impatience = Duration.seconds(2)

/** A connection on which the other has said nothing for so long is dead: it pings more often. */
const silence = Duration.seconds(6)

const sharedKey = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ key: Schema.Uint8Array }),
    execute: () => sql`SELECT key FROM cluster_key`
  })()
).pipe(
  Effect.map(({ key }) => key),
  Effect.orDie
)

/** Listens at this address only. Port 0 is any that is free. */
export const server = (listen: { readonly host: string; readonly port: number }) =>
  Layer.unwrap(
    Effect.map(sharedKey, (key) =>
      NodeSocketServer.layerTls({
        ...listen,
        ciphers,
        pskCallback: () => Buffer.from(key),
        handshakeTimeout: Duration.toMillis(impatience)
      })
    )
  )

export const client = Layer.effect(
  Runners.RpcClientProtocol,
  Effect.gen(function* () {
    const serialization = yield* RpcSerialization.RpcSerialization
    const key = yield* sharedKey
    return Runners.RpcClientProtocol.of({
      codecFor: serialization.codecFor,
      make: Effect.fnUntraced(function* ({ host, port }) {
        const socket = yield* NodeSocket.makeTls({
          host,
          port,
          ciphers,
          pskCallback: () => ({ psk: key, identity }),
          // Nobody has a certificate: the key is what it is known by.
          checkServerIdentity: () => undefined,
          openTimeout: impatience,
          timeout: Duration.toMillis(silence)
        })
        return yield* RpcClient.makeProtocolSocket().pipe(
          Effect.provideService(Socket.Socket, socket),
          Effect.provideService(RpcSerialization.RpcSerialization, serialization)
        )
      })
    })
  })
)
