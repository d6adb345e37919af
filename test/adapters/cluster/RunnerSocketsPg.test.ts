import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { connect } from "node:net"
import { type ConnectionOptions, connect as connectTls } from "node:tls"
import * as ClusterLive from "../../../src/adapters/cluster/ClusterLive.ts"
import { scripted } from "../../conformance/TurnRunner.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "../postgres/Stores.ts"

const Live = ClusterLive.layerServer({ host: "127.0.0.1", port: 0 }).pipe(
  Layer.provideMerge(onServer(await freshDatabase("runner-sockets"))),
  Layer.provide(scripted)
)

const ciphers = "ECDHE-PSK-CHACHA20-POLY1305"

/** Whether the handshake succeeds. */
const isLetIn = (options: ConnectionOptions) =>
  Effect.callback<boolean>((resume) => {
    const socket = connectTls({ host: "127.0.0.1", checkServerIdentity: () => undefined, ...options })
    socket.once("secureConnect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

it.live("lets in who knows the key in the store, and nobody else", () =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const runners = sql<{ readonly address: string }>`SELECT address FROM cluster_runners`
    while ((yield* runners).length === 0) yield* Effect.sleep("20 millis")
    const [runner] = yield* runners
    const port = Number(runner?.address.split(":").at(-1))
    const [kept] = yield* sql<{ readonly key: Uint8Array }>`SELECT key FROM cluster_key`
    const psk = kept?.key ?? assert.fail("no key")
    assert.lengthOf(psk, 32)

    const knowing = (key: Uint8Array) =>
      isLetIn({ port, ciphers, pskCallback: () => ({ psk: key, identity: "replica" }) })
    assert.isTrue(yield* knowing(psk))
    assert.isFalse(yield* knowing(psk.map((byte) => byte ^ 1)))
    assert.isFalse(yield* knowing(new Uint8Array(32)))
    assert.isFalse(yield* isLetIn({ port, rejectUnauthorized: false }))

    // Whoever does not even begin is cut off.
    const since = performance.now()
    yield* Effect.callback<void>((resume) => {
      const socket = connect(port, "127.0.0.1", () => socket.write('{"_tag":"Request","tag":"Ping"}\n'))
      socket.once("error", () => undefined)
      socket.once("close", () => resume(Effect.void))
    })
    yield* Effect.callback<void>((resume) => {
      const socket = connect(port, "127.0.0.1")
      socket.once("error", () => undefined)
      socket.once("close", () => resume(Effect.void))
    })
    assert.isBelow(performance.now() - since, 4_000)
    assert.isTrue(yield* knowing(psk))
  }).pipe(Effect.provide(Live))
)
