import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Layer, Queue, Redacted } from "effect"
import * as ClusterLive from "model-gateway/adapters/cluster/ClusterLive"
import * as SecretsLive from "model-gateway/adapters/crypto/SecretsLive"
import * as InMemoryLive from "model-gateway/adapters/inmemory/InMemoryLive"
import * as TurnRunnerInMemory from "model-gateway/adapters/inmemory/TurnRunnerInMemory"
import * as Clients from "model-gateway/adapters/postgres/Clients"
import * as PostgresLive from "model-gateway/adapters/postgres/PostgresLive"
import { type Listen } from "model-gateway/application/conversation/Listen"
import { type SendMessage } from "model-gateway/application/conversation/SendMessage"
import { Accounts } from "model-gateway/application/identity/Accounts"
import type { SessionEvent } from "model-gateway/domain/conversation/SessionEvent"
import { Conversations, type Job, TurnParts, worker } from "../example/TurnWorker.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"

const inMemory = Conversations.pipe(
  Layer.provide(TurnRunnerInMemory.layer),
  Layer.provideMerge(TurnParts),
  Layer.provideMerge(Layer.fresh(InMemoryLive.layer))
)

const onPostgres = Conversations.pipe(
  Layer.provide(ClusterLive.layerServer({ host: "127.0.0.1", port: 0 })),
  Layer.provideMerge(TurnParts),
  Layer.provideMerge(Layer.provide(PostgresLive.layerWithFiles, SecretsLive.layerNone)),
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(
        Effect.promise(() => freshDatabase("worker")),
        (url) => Clients.server({ url: Redacted.make(url), maxConnections: 4 })
      )
    )
  )
)

/** Turns in a program that serves nothing, see `test/example/TurnWorker.ts`. */
const answers = <A, E>(store: string, stores: Layer.Layer<A | Accounts | SendMessage | Listen, E>) =>
  layer(stores, { timeout: "1 minute", excludeTestServices: true })(`a worker on ${store}`, (it) => {
    it.effect("answers what comes from its queue", () =>
      Effect.gen(function* () {
        const accounts = yield* Accounts
        const { id: workspace, name: organization } = yield* accounts.createOrganization(crypto.randomUUID())
        yield* accounts.addMember({ organization, name: "worker", role: "owner" })
        yield* accounts.issueKey({ organization, name: "worker" })
        const jobs = yield* Queue.unbounded<Job>()
        yield* Effect.forkScoped(worker(jobs))
        const told: Array<SessionEvent> = []
        for (const text of ["one", "two"]) {
          const answer = yield* Deferred.make<SessionEvent>()
          yield* Queue.offer(jobs, { workspace, session: "errands", text, answer })
          told.push(yield* Deferred.await(answer))
        }
        assert.deepStrictEqual(
          told.map(({ data, event }) => [event, "text" in data ? data.text : data]),
          [
            ["response", "one"],
            ["response", "two"]
          ]
        )
      })
    )
  })

answers("in-memory stores", inMemory)
answers("Postgres", onPostgres)
