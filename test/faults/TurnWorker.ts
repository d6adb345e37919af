import { NodeServices } from "@effect/platform-node"
import { Effect, Layer, Logger, Option, Redacted, Schema, Stream } from "effect"
import { createInterface } from "node:readline"
import * as ClusterLive from "../../src/adapters/cluster/ClusterLive.ts"
import * as Clients from "../../src/adapters/postgres/Clients.ts"
import * as PostgresLive from "../../src/adapters/postgres/PostgresLive.ts"
import { RunTurn } from "../../src/application/conversation/RunTurn.ts"
import { ClusterHealth } from "../../src/application/ports/runtime/ClusterHealth.ts"
import { TurnRunner } from "../../src/application/ports/runtime/TurnRunner.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { textOf } from "../../src/domain/conversation/Message.ts"
import { TurnRef } from "../../src/domain/conversation/Turn.ts"

/**
 * A process of a cluster on the Postgres or in the directory that it is given. Says `ready`, then what its turns do:
 * `<word> <id of the turn>`. Reads `start <turn>` and `wake <turn>` as JSON, and leaves the cluster at the end of its
 * input.
 *
 * A turn does what its message says, word by word: `short` and `long` are steps, of no time and of 2 s; `pause` is 2 s
 * between steps; `wait` lasts until the journal has the entry `go`; `listen` is a step that lasts until it is woken.
 */
const [store = ""] = process.argv.slice(2)

const say = (word: string, { turn }: Pick<TurnRef, "turn">) => Effect.sync(() => console.log(`${word} ${turn}`))

const Turns = Layer.effect(
  RunTurn,
  Effect.map(TurnJournal, (journal) =>
    RunTurn.of({
      run: Effect.fnUntraced(function* (turn, steps) {
        const found = Option.getOrThrow(yield* journal.find(turn))
        if (found.status !== "running") return yield* journal.finish(turn, "completed", {})
        yield* say("runs", turn)
        const words = textOf(found.message).split(" ")
        for (const [place, word] of words.entries()) {
          const doing = (run: Effect.Effect<void>) =>
            Effect.andThen(say(`${place}:${word}`, turn), Effect.andThen(run, say(`${place}:done`, turn)))
          const step = (run: Effect.Effect<void>) => steps.once(`${place}`, { success: Schema.Void, run: doing(run) })
          if (word === "short") yield* step(Effect.void)
          if (word === "long") yield* step(Effect.sleep("2 seconds"))
          if (word === "listen") yield* step(steps.woken)
          if (word === "pause") yield* doing(Effect.sleep("2 seconds"))
          for (let look = 1; word === "wait" && Option.isNone(yield* journal.recorded(turn, "go")); look++) {
            yield* say(`${place}:wait`, turn)
            yield* steps.wait(`${place}-${look}`, 60_000)
          }
        }
        yield* say("ended", turn)
        return yield* journal.finish(turn, "completed", {})
      })
    })
  )
)

const Cluster = store.startsWith("postgres:")
  ? Layer.orDie(ClusterLive.layerServer({ host: "127.0.0.1", port: 0 }))
  : ClusterLive.layerEmbedded

const Client = store.startsWith("postgres:")
  ? Layer.orDie(Clients.server({ url: Redacted.make(store), maxConnections: 8 }))
  : Layer.provide(Layer.orDie(Clients.embedded(store)), NodeServices.layer)

const Live = Cluster.pipe(Layer.provide(Turns), Layer.provideMerge(PostgresLive.layer), Layer.provide(Client))

const Command = Schema.fromJsonString(Schema.Struct({ does: Schema.Literals(["start", "wake"]), turn: TurnRef }))

await Effect.gen(function* () {
  const runner = yield* TurnRunner
  const { isMember } = yield* ClusterHealth
  while (!(yield* isMember)) yield* Effect.sleep("20 millis")
  console.log("ready")
  yield* Stream.fromAsyncIterable(createInterface(process.stdin), (error) => error).pipe(
    Stream.mapEffect((line) => Schema.decodeEffect(Command)(line)),
    Stream.mapEffect(({ does, turn }) => runner[does](turn), { concurrency: "unbounded" }),
    Stream.runDrain
  )
}).pipe(Effect.provide(Live), Effect.provideService(Logger.LogToStderr, true), Effect.runPromise)
// Nothing of it is left to keep the process.
console.log("left")
