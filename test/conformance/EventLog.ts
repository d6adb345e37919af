import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, type Layer, Stream } from "effect"
import { EventLog, type WakeUp } from "../../src/application/ports/storage/EventLog.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { allEvents, chunk, exchanged, namesOf, response, sessionId, submission, turnIn } from "./Conversation.ts"
import { account } from "./Samples.ts"

/** What every log of events must do. */
export const eventLogSuite = (
  name: string,
  store: Layer.Layer<EventLog | TurnJournal | Sessions | Organizations | Ledger, unknown>
) =>
  layer(store, { timeout: "2 minutes", excludeTestServices: true })(name, (it) => {
    const running = Effect.fnUntraced(function* () {
      const turn = turnIn(yield* account(), sessionId())
      yield* (yield* TurnJournal).submit(turn, submission(null))
      return turn
    })

    it.effect("numbers the events of a session from 1, without gaps", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const turn = yield* running()
        const { session, workspace } = turn
        assert.strictEqual(yield* log.last(workspace, session), 0)
        yield* log.append(turn, [chunk(session, "a"), chunk(session, "b")])
        yield* log.append(turn, [])
        yield* log.append(turn, [{ event: "thinking", data: { sessionId: session } }])
        assert.strictEqual(yield* log.last(workspace, session), 3)
        assert.deepStrictEqual(yield* allEvents(workspace, session), [
          { id: 1, session, event: chunk(session, "a") },
          { id: 2, session, event: chunk(session, "b") },
          { id: 3, session, event: { event: "thinking", data: { sessionId: session } } }
        ])
        assert.deepStrictEqual(
          (yield* log.after(workspace, session, 1, 1)).map(({ id }) => id),
          [2]
        )
        assert.deepStrictEqual(yield* log.after(workspace, session, 3, 10), [])
        assert.deepStrictEqual(yield* log.after(yield* account(), session, 0, 10), [])
      })
    )

    it.effect("keeps whatever a model says", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const turn = yield* running()
        const said = chunk(turn.session, 'NUL \0, half a pair \ud800, "quotes" \\u0000 \n😀')
        yield* log.append(turn, [said])
        assert.deepStrictEqual(
          (yield* allEvents(turn.workspace, turn.session)).map(({ event }) => event),
          [said]
        )
      })
    )

    it.effect("forgets chunks when a later turn ends, and gives their numbers to no other event", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const journal = yield* TurnJournal
        const turn = yield* running()
        const { session, workspace } = turn
        yield* log.append(turn, [{ event: "thinking", data: { sessionId: session } }, chunk(session, "a")])
        yield* log.append(turn, [chunk(session, "b")])
        yield* journal.finish(turn, "completed", { events: [response(session, "ab")] })
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), [
          "thinking",
          "chunk",
          "chunk",
          "response"
        ])
        const later = turnIn(workspace, session)
        yield* journal.submit(later, submission(null))
        yield* log.append(later, [chunk(session, "c")])
        yield* journal.finish(later, "completed", { events: [response(session, "c")] })
        assert.deepStrictEqual(
          (yield* allEvents(workspace, session)).map(({ event, id }) => [id, event.event]),
          [
            [1, "thinking"],
            [4, "response"],
            [5, "chunk"],
            [6, "response"]
          ]
        )
        assert.strictEqual(yield* log.last(workspace, session), 6)
      })
    )

    it.effect("takes nothing after the end of a turn, or before its beginning", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const journal = yield* TurnJournal
        const first = yield* running()
        const { session, workspace } = first
        const second = turnIn(workspace, session)
        yield* journal.submit(second, submission(null))
        yield* log.append(second, [chunk(session, "too early")])
        yield* journal.finish(first, "completed", { events: [response(session, "")] })
        yield* log.append(first, [chunk(session, "too late")])
        yield* log.append(turnIn(workspace, sessionId()), [chunk(session, "of no session")])
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), ["messageQueued", "response"])
        yield* log.append(second, [chunk(session, "in time")])
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), ["messageQueued", "response", "chunk"])
      })
    )

    it.effect("takes the chunks of many turns at once, each session's in order", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const turns = yield* Effect.all(Array.from({ length: 20 }, running))
        yield* Effect.all(
          turns.map((turn) =>
            Effect.gen(function* () {
              for (let count = 0; count < 25; count++) {
                yield* log.append(turn, [chunk(turn.session, `${count}a`), chunk(turn.session, `${count}b`)])
              }
            })
          ),
          { concurrency: "unbounded" }
        )
        for (const { session, workspace } of turns) {
          assert.deepStrictEqual(
            yield* allEvents(workspace, session),
            Array.from({ length: 50 }, (_, index) => ({
              id: index + 1,
              session,
              event: chunk(session, `${Math.floor(index / 2)}${index % 2 === 0 ? "a" : "b"}`)
            }))
          )
        }
      })
    )

    it.effect("says how the turns of a session end that is removed", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const journal = yield* TurnJournal
        const turn = yield* running()
        const { session, workspace } = turn
        yield* journal.submit(turnIn(workspace, session), submission(null))
        yield* log.append(turn, [chunk(session, "a")])
        const last = yield* log.last(workspace, session)
        yield* (yield* Sessions).remove(workspace, session)
        assert.deepStrictEqual(
          (yield* log.after(workspace, session, last, 10)).map(({ event, id }) => [id, event.event]),
          [
            [last + 1, "error"],
            [last + 2, "error"]
          ]
        )
      })
    )

    it.effect("goes on with its numbers in a session that is made again", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const sessions = yield* Sessions
        const turn = yield* running()
        const { session, workspace } = turn
        yield* log.append(turn, [chunk(session, "a"), chunk(session, "b")])
        yield* sessions.remove(workspace, session)
        assert.deepStrictEqual(namesOf(yield* allEvents(workspace, session)), ["error"])
        assert.strictEqual(yield* log.last(workspace, session), 0)
        yield* log.append(turn, [chunk(session, "of one that is gone")])
        yield* sessions.open(workspace, session)
        yield* sessions.rename(workspace, session, "again")
        assert.deepStrictEqual(
          (yield* log.after(workspace, session, 3, 10)).map(({ event, id }) => [id, event.event]),
          [[4, "sessionTitleUpdated"]]
        )
      })
    )

    it.effect("wakes listeners, and tells them where to read on", () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const journal = yield* TurnJournal
        const turn = yield* running()
        const { session, workspace } = turn
        const heard: Array<WakeUp> = []
        const listening = yield* log.wakeUps.pipe(
          Stream.filter((wakeUp) => wakeUp.workspace === workspace && wakeUp.session === session),
          Stream.runForEach((wakeUp) => Effect.sync(() => void heard.push(wakeUp))),
          Effect.forkScoped({ startImmediately: true })
        )
        // The first one may come before anybody listens on a connection that is being made.
        while (heard.length === 0) {
          yield* log.append(turn, [chunk(session, "a")])
          yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))
        }
        const before = yield* log.last(workspace, session)
        yield* log.append(turn, [chunk(session, "b"), chunk(session, "c")])
        yield* journal.record(turn, "step", { events: [chunk(session, "d")] })
        yield* journal.finish(turn, "completed", { events: [response(session, "e")] })
        yield* exchanged(workspace, session, "named", "so")
        const expected = [before + 1, before + 3, before + 4, before + 5]
        for (let waits = 0; waits < 250 && heard.at(-1)?.from !== expected.at(-1); waits++) {
          yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))
        }
        // What this process has written may be told twice, the first time with what it is.
        const told = heard.filter(({ from }) => from > before)
        assert.deepStrictEqual(
          [...new Set(told.map(({ from }) => from))].toSorted((one, other) => one - other),
          expected
        )
        const known = heard.flatMap(({ events = [], from }) =>
          events.map((event, place) => ({ id: from + place, session, event }))
        )
        // Chunks of the first turn are forgotten by now.
        for (const logged of yield* allEvents(workspace, session)) {
          for (const told of known.filter(({ id }) => id === logged.id)) assert.deepStrictEqual(told, logged)
        }
        // In their order, but for what is told ahead of it.
        const inOrder = told.filter(({ isAhead }) => isAhead !== true).map(({ from }) => from)
        assert.deepStrictEqual(inOrder, expected)
        yield* Fiber.interrupt(listening)
      })
    )
  })
