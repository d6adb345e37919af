import { assert, layer } from "@effect/vitest"
import { Cause, Context, Duration, Effect, Exit, Layer, Schedule } from "effect"
import { once } from "node:events"
import { createServer, connect, type Socket } from "node:net"
import { Ledger } from "../../../src/application/ports/storage/Ledger.ts"
import { StoreHealth } from "../../../src/application/ports/storage/StoreHealth.ts"
import { StoreUnavailable } from "../../../src/application/ports/storage/StoreUnavailable.ts"
import { nanoUsd } from "../../../src/domain/shared/Money.ts"
import { account, holdRequest, settlement } from "../../conformance/Samples.ts"
import { freePort, freshDatabase, startPostgres } from "../../fixtures/Postgres.ts"
import { onServer } from "./Stores.ts"

const sayUnavailable = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof StoreUnavailable

/** A server of this file's own, to stop and start, and the stores on it. */
class Server extends Context.Service<Server, Awaited<ReturnType<typeof startPostgres>>>()("test/Server") {}

const own = Layer.effect(
  Server,
  Effect.acquireRelease(
    Effect.promise(() => startPostgres()),
    ({ remove }) => Effect.promise(remove)
  )
)

const store = Layer.unwrap(Effect.map(Server, ({ url }) => onServer(url))).pipe(Layer.provideMerge(own))

layer(store, { excludeTestServices: true, timeout: "1 minute" })("A Postgres server that goes away", (it) => {
  for (const mode of ["fast", "immediate"] as const) {
    it.effect(`is told within two seconds, and serves again by itself (${mode} stop)`, () =>
      Effect.gen(function* () {
        const server = yield* Server
        const ledger = yield* Ledger
        const { isReachable } = yield* StoreHealth
        const organization = yield* account(1_000n)
        const request = holdRequest(organization, 10n)
        yield* ledger.hold(request)

        yield* Effect.promise(() => server.stop(mode))
        const [took, exits] = yield* Effect.timed(
          Effect.all(
            [
              ...Array.from({ length: 50 }, () => Effect.exit(ledger.hold(holdRequest(organization, 1n)))),
              Effect.exit(ledger.settle(settlement(request.id, 10n))),
              Effect.exit(ledger.credit(organization))
            ],
            { concurrency: "unbounded" }
          )
        )
        assert.isTrue(exits.every(sayUnavailable))
        assert.isBelow(Duration.toMillis(took), 2_000)
        assert.isFalse(yield* isReachable)

        yield* Effect.promise(server.start)
        yield* Effect.retry(
          Effect.filterOrFail(isReachable, Boolean, () => "still away"),
          Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 50 }))
        )
        assert.deepStrictEqual(yield* ledger.credit(organization), { balance: nanoUsd(1_000n), held: nanoUsd(10n) })
        assert.strictEqual(yield* ledger.settle(settlement(request.id, 10n)), 10n)
      })
    )
  }
})

/** A way to the server that can fall silent: connections stay, nothing passes. */
const road = Effect.fnUntraced(function* (url: string) {
  const sockets = new Set<Socket>()
  const target = new URL(url)
  let silent = false
  const port = yield* Effect.promise(freePort)
  const proxy = createServer((inside) => {
    const outside = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [inside, outside],
      [outside, inside]
    ] as const) {
      sockets.add(from)
      from.on("data", (data) => void (silent || to.write(data)))
      from.on("close", () => to.destroy())
      from.on("error", () => to.destroy())
    }
  }).listen(port, "127.0.0.1")
  const cut = Effect.sync(() => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(proxy, "listening")),
    () => cut
  )
  return {
    url: Object.assign(new URL(url), { port: String(port) }).href,
    fallSilent: Effect.sync(() => void (silent = true)),
    cut
  }
})

layer(Layer.empty, { excludeTestServices: true })("A Postgres server that hangs", (it) => {
  it.effect("is found unreachable within two seconds", () =>
    Effect.gen(function* () {
      const { cut, fallSilent, url } = yield* road(yield* Effect.promise(() => freshDatabase("hang")))
      const stores = yield* Layer.build(onServer(url))
      const { isReachable } = Context.get(stores, StoreHealth)
      assert.isTrue(yield* isReachable)
      yield* fallSilent
      const [took, reachable] = yield* Effect.timed(isReachable)
      assert.isFalse(reachable)
      assert.isBelow(Duration.toMillis(took), 2_500)
      yield* cut
    })
  )
})
