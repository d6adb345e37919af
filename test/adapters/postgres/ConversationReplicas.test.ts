import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as Clients from "../../../src/adapters/postgres/Clients.ts"
import { EventLog, type WakeUp } from "../../../src/application/ports/storage/EventLog.ts"
import { Sessions } from "../../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../../src/application/ports/storage/TurnJournal.ts"
import { allEvents, chunk, message, response, sessionId, submission, turnIn } from "../../conformance/Conversation.ts"
import { account } from "../../conformance/Samples.ts"
import { type ConversationStores, turnProperties } from "../../conformance/TurnProperties.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "./Stores.ts"

class Both extends Context.Service<
  Both,
  readonly [Context.Context<ConversationStores>, Context.Context<ConversationStores>]
>()("test/Both") {}

const url = await freshDatabase("conversations")

const build = Effect.suspend(() => Layer.build(Layer.fresh(onServer(url))))

const Replicas = Layer.effect(
  Both,
  Effect.gen(function* () {
    return [yield* build, yield* build] as const
  })
)

const pause = (millis: number) => Effect.promise(() => new Promise((resolve) => setTimeout(resolve, millis)))

layer(Replicas, { timeout: "2 minutes", excludeTestServices: true })("Conversations on two replicas", (it) => {
  turnProperties(
    it,
    Effect.map(Both, (both) => both)
  )

  it.effect("tells each of what the other appends", () =>
    Effect.gen(function* () {
      const [one, other] = yield* Both
      const workspace = yield* Effect.provide(account(), one)
      const turn = turnIn(workspace, sessionId())
      yield* Effect.provide(
        Effect.flatMap(TurnJournal, (journal) => journal.submit(turn, submission("Hello"))),
        one
      )
      const log = Context.get(one, EventLog)
      const heard: Array<WakeUp> = []
      const listening = yield* Context.get(other, EventLog).wakeUps.pipe(
        Stream.filter(({ session }) => session === turn.session),
        Stream.runForEach((wakeUp) => Effect.sync(() => void heard.push(wakeUp))),
        Effect.forkScoped({ startImmediately: true })
      )
      while (heard.length === 0) {
        yield* log.append(turn, [chunk(turn.session, "first")])
        yield* pause(20)
      }
      const last = yield* log.last(workspace, turn.session)
      const started = performance.now()
      yield* log.append(turn, [chunk(turn.session, "second")])
      while (heard.at(-1)?.from !== last + 1) yield* pause(1)
      assert.isBelow(performance.now() - started, 1_000)
      yield* Fiber.interrupt(listening)
    })
  )

  it.effect("loses, repeats and reorders no event for a reader on the other, while chunks come and go", () =>
    Effect.gen(function* () {
      const [one, other] = yield* Both
      const workspace = yield* Effect.provide(account(), one)
      const session = sessionId()
      const journal = Context.get(one, TurnJournal)
      const log = Context.get(one, EventLog)
      const reading = Context.get(other, EventLog)
      const read: Array<{ readonly id: number; readonly event: string }> = []
      let at = 0
      const readOn = Effect.gen(function* () {
        for (const { event, id } of yield* reading.after(workspace, session, at, 1_000)) {
          read.push({ id, event: event.event })
          at = id
        }
      })
      const listening = yield* reading.wakeUps.pipe(
        Stream.filter((wakeUp) => wakeUp.session === session),
        Stream.runForEach(() => readOn),
        Effect.forkScoped({ startImmediately: true })
      )
      const turns = Array.from({ length: 5 }, () => turnIn(workspace, session))
      for (const turn of turns) yield* journal.submit(turn, submission("go"))
      for (const turn of turns) {
        for (let count = 0; count < 20; count++) yield* log.append(turn, [chunk(session, `${count}`)])
        yield* journal.finish(turn, "completed", { events: [response(session, turn.turn)] })
      }
      const last = yield* log.last(workspace, session)
      for (let waits = 0; waits < 500 && at < last; waits++) yield* pause(10)
      assert.strictEqual(at, last)
      // Chunks of a turn that ended before they were read are gone; all else was read once, in order.
      assert.deepStrictEqual(
        read.map(({ id }) => id),
        read.map(({ id }) => id).toSorted((before, after) => before - after)
      )
      assert.strictEqual(new Set(read.map(({ id }) => id)).size, read.length)
      assert.deepStrictEqual(
        read.filter(({ event }) => event !== "chunk").map(({ id }) => id),
        (yield* Effect.provide(allEvents(workspace, session), one))
          .filter(({ event }) => event.event !== "chunk")
          .map(({ id }) => id)
      )
      yield* Fiber.interrupt(listening)
    })
  )

  it.effect("counts what the other writes and forgets", () =>
    Effect.gen(function* () {
      const [one, other] = yield* Both
      const workspace = yield* Effect.provide(account(), one)
      const turn = turnIn(workspace, sessionId())
      const journal = Context.get(one, TurnJournal)
      const total = Effect.map(
        Context.get(other, Sessions).searchMessages(workspace, { phrase: "everywhere", limit: 1, offset: 0 }),
        (found) => found.total
      )
      yield* journal.submit(turn, submission("everywhere"))
      for (let count = 1; count < 60; count++) {
        assert.strictEqual(yield* total, count)
        yield* journal.record(turn, `${count}`, { messages: [message("everywhere")] })
      }
      yield* Context.get(one, Sessions).reset(workspace, turn.session)
      assert.strictEqual(yield* total, 0)
    })
  )
})

describe("A replica whose listening connection is lost", () => {
  it.live(
    "listens again and is told of every session that changed meanwhile",
    () =>
      Effect.gen(function* () {
        const one = yield* build
        const other = yield* build
        const killer = yield* Layer.build(Clients.server({ url: Redacted.make(url), maxConnections: 1 }))
        const sql = Context.get(killer, SqlClient.SqlClient)
        const workspace = yield* Effect.provide(account(), one)
        const journal = Context.get(one, TurnJournal)
        const turns = Array.from({ length: 3 }, () => turnIn(workspace, sessionId()))
        for (const turn of turns) yield* journal.submit(turn, submission("Hello"))

        const heard = new Map<string, number>()
        yield* Context.get(other, EventLog).wakeUps.pipe(
          Stream.filter((wakeUp) => wakeUp.workspace === workspace),
          Stream.runForEach(({ from, session }) =>
            Effect.sync(() => void heard.set(session, Math.min(from, heard.get(session) ?? from)))
          ),
          Effect.forkScoped({ startImmediately: true })
        )
        const [first = assert.fail()] = turns
        const log = Context.get(one, EventLog)
        while (heard.size === 0) {
          yield* log.append(first, [chunk(first.session, "is anyone there?")])
          yield* pause(20)
        }

        const listeners = sql`
          SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%session_events%'`
        assert.isAtLeast((yield* listeners).length, 2)
        heard.clear()
        yield* sql`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND query LIKE 'LISTEN%session_events%'`
        // Before anybody listens again.
        const written = new Map<string, number>()
        for (const turn of turns) {
          yield* log.append(turn, [chunk(turn.session, "unheard"), chunk(turn.session, "also unheard")])
          written.set(turn.session, (yield* log.last(workspace, turn.session)) - 1)
        }
        for (let waits = 0; waits < 1_000 && heard.size < turns.length; waits++) yield* pause(10)
        for (const { session } of turns) assert.isAtMost(heard.get(session) ?? Infinity, written.get(session) ?? 0)
        assert.isTrue(Option.isSome(yield* Context.get(other, Sessions).find(workspace, first.session)))
      }).pipe(Effect.scoped),
    60_000
  )
})
