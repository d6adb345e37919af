import { assert, layer } from "@effect/vitest"
import { Effect, Layer, PubSub, Queue, Random, Stream } from "effect"
import { expect } from "vitest"
import * as InMemoryLive from "../../src/adapters/inmemory/InMemoryLive.ts"
import { type AgentEvent, RunningAgents } from "../../src/application/agent/RunningAgents.ts"
import { Listen, type Listener } from "../../src/application/conversation/Listen.ts"
import { EventLog, type WakeUp } from "../../src/application/ports/storage/EventLog.ts"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import type { SessionId } from "../../src/domain/conversation/Session.ts"
import type { NumberedEvent } from "../../src/domain/conversation/SessionEvent.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { chunk, response, sessionId, submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"

const unused = () => Effect.die(new Error("no test needs it"))

/** How often the log was read, and how many of the next reads fail. */
const reads = { number: 0, failing: 0 }

/**
 * A log as that of a server with two processes: reads take a while, each another; notices come in order, later than what
 * was appended, and what this process has appended itself is told before.
 */
const Slow = Layer.effect(
  EventLog,
  Effect.map(EventLog, (log) =>
    EventLog.of({
      ...log,
      wakeUps: Stream.unwrap(
        Effect.gen(function* () {
          const told = yield* Queue.unbounded<WakeUp>()
          const noticed = yield* Queue.unbounded<WakeUp>()
          yield* log.wakeUps.pipe(
            Stream.runForEach((wakeUp) =>
              Effect.gen(function* () {
                const { from, session, workspace } = wakeUp
                if (yield* Random.nextBoolean) yield* Queue.offer(told, { ...wakeUp, isAhead: true })
                yield* Queue.offer(noticed, { workspace, session, from, upTo: from })
              })
            ),
            Effect.forkScoped({ startImmediately: true })
          )
          const late = Stream.fromIterableEffectRepeat(
            Effect.tap(Queue.takeAll(noticed), () =>
              Effect.flatMap(Random.nextIntBetween(0, 5), (millis) => Effect.sleep(millis))
            )
          )
          return Stream.merge(Stream.fromQueue(told), late)
        })
      ),
      after: (...args) =>
        Effect.gen(function* () {
          reads.number++
          yield* Effect.sleep(yield* Random.nextIntBetween(0, 4))
          if (reads.failing > 0) {
            reads.failing--
            return yield* Effect.die(new Error("the store is away"))
          }
          const found = yield* log.after(...args)
          yield* Effect.sleep(yield* Random.nextIntBetween(0, 4))
          return found
        })
    })
  )
)

const agentEvents = Effect.runSync(PubSub.unbounded<AgentEvent>())

/** A log whose notices have not come yet. */
const Silent = Layer.effect(
  EventLog,
  Effect.map(EventLog, (log) => EventLog.of({ ...log, wakeUps: Stream.never }))
)

const on = (log: typeof Silent) =>
  Listen.layer.pipe(
    Layer.provideMerge(log),
    Layer.provide(Layer.succeed(RunningAgents, { of: unused, reload: unused, events: Stream.fromPubSub(agentEvents) })),
    Layer.provideMerge(InMemoryLive.layer)
  )

class Heard implements Listener {
  readonly events: Array<NumberedEvent> = []
  readonly agents: Array<AgentEvent> = []
  readonly room = Effect.void

  told(event: NumberedEvent): void {
    this.events.push(event)
  }

  agent(event: AgentEvent): void {
    this.agents.push(event)
  }

  idsOf(session: SessionId): ReadonlyArray<number> {
    return this.events.filter((event) => event.session === session).map(({ id }) => id)
  }
}

const upTo = (last: number, first = 1): ReadonlyArray<number> =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at)

const until = (isSo: () => boolean) =>
  Effect.sleep("2 millis").pipe(Effect.repeat({ until: isSo }), Effect.timeout("20 seconds"))

const running = Effect.fnUntraced(function* () {
  const turn = turnIn(yield* account(), sessionId())
  yield* (yield* TurnJournal).submit(turn, submission(null))
  return turn
})

const say = Effect.fnUntraced(function* ({ session, ...turn }: TurnRef, number: number) {
  const log = yield* EventLog
  const events = upTo(number).map((at) => chunk(session, `${at}`))
  yield* log.append({ ...turn, session }, events)
})

layer(on(Slow), { timeout: "2 minutes", excludeTestServices: true })("listening", (it) => {
  it.effect("loses and repeats nothing over random disconnects, whatever is written meanwhile", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const log = yield* EventLog
      const workspace = yield* account()
      const journal = yield* TurnJournal
      const turns = [sessionId(), sessionId(), sessionId()].map((session) => turnIn(workspace, session))
      for (const turn of turns) yield* journal.submit(turn, submission(null))
      let isOver = false

      const write = (turn: TurnRef) =>
        Effect.gen(function* () {
          for (let at = 0; at < 150; at++) {
            yield* say(turn, at === 75 ? 600 : yield* Random.nextIntBetween(1, 6))
            yield* Effect.sleep(yield* Random.nextIntBetween(0, 4))
          }
        })

      /** Goes away now and then, and comes back with the number of the last event it has, to all three sessions. */
      const visit = Effect.gen(function* () {
        const ids = new Map(turns.map(({ session }) => [session, [0]]))
        const listener: Listener = {
          told: ({ id, session }) => void ids.get(session)?.push(id),
          room: Effect.sleep("1 millis")
        }
        for (let goesOn = true; goesOn;) {
          goesOn = !isOver
          const listening = listen.open(workspace, listener)
          if (yield* Random.nextBoolean) listening.all()
          for (const { session } of turns) yield* listening.subscribe(session, ids.get(session)?.at(-1) ?? 0)
          if (goesOn) yield* Effect.sleep(yield* Random.nextIntBetween(0, 60))
          else {
            for (const { session } of turns) {
              const last = yield* log.last(workspace, session)
              yield* until(() => (ids.get(session)?.at(-1) ?? 0) >= last)
            }
          }
          listening.stop()
        }
        return ids
      })

      const writing = Effect.forEach(turns, write, { concurrency: "unbounded" }).pipe(
        Effect.andThen(
          Effect.sync(() => {
            isOver = true
          })
        )
      )
      const [visits] = yield* Effect.all(
        [
          Effect.all(
            Array.from({ length: 30 }, () => visit),
            { concurrency: "unbounded" }
          ),
          writing
        ],
        { concurrency: "unbounded" }
      )
      for (const { session } of turns) {
        const last = yield* log.last(workspace, session)
        assert.isAbove(last, 700)
        for (const ids of visits) assert.deepStrictEqual(ids.get(session), [0, ...upTo(last)])
      }
    })
  )

  it.effect("reads each session once for all who follow it", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      const listeners = Array.from({ length: 200 }, () => new Heard())
      const all = listeners.map((listener) => listen.open(turn.workspace, listener))
      for (const listening of all) yield* listening.subscribe(turn.session, undefined)
      reads.number = 0
      for (let at = 0; at < 20; at++) {
        yield* say(turn, 5)
        yield* Effect.sleep("5 millis")
      }
      yield* until(() => listeners.every(({ events }) => events.length === 100))
      assert.isAtMost(reads.number, 45)
      for (const listener of listeners) assert.deepStrictEqual(listener.idsOf(turn.session), upTo(100))
      // The same object for all: what is written of it is written once.
      assert.strictEqual(listeners[0]?.events[50], listeners[199]?.events[50])
      for (const listening of all) listening.stop()
      yield* say(turn, 5)
      yield* Effect.sleep("30 millis")
      expect(listeners.every(({ events }) => events.length === 100)).toBe(true)
    })
  )

  it.effect("tells of all sessions of the workspace from then on, and of no other workspace", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const before = yield* running()
      yield* say(before, 3)
      // Until everybody has noticed.
      yield* Effect.sleep("30 millis")
      const listener = new Heard()
      const listening = listen.open(before.workspace, listener)
      listening.all()
      const second = turnIn(before.workspace, sessionId())
      yield* (yield* TurnJournal).submit(second, submission(null))
      const foreign = yield* running()
      yield* Effect.all([say(before, 2), say(second, 2), say(foreign, 2)])
      yield* Effect.sleep("30 millis")
      assert.deepStrictEqual(listener.events, [])
      listening.release()
      yield* until(() => listener.events.length === 4)
      yield* say(second, 1)
      yield* until(() => listener.events.length === 5)
      assert.deepStrictEqual(listener.idsOf(before.session), [4, 5])
      assert.deepStrictEqual(listener.idsOf(second.session), [1, 2, 3])
      assert.deepStrictEqual(listener.idsOf(foreign.session), [])
      listening.stop()
    })
  )

  it.effect("tells of every event once and in order, however early some are known", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const workspace = yield* account()
      const journal = yield* TurnJournal
      const log = yield* EventLog
      const listener = new Heard()
      const listening = listen.open(workspace, listener)
      listening.all()
      listening.release()
      const turns = Array.from({ length: 40 }, () => turnIn(workspace, sessionId()))
      yield* Effect.forEach(
        turns,
        (turn) =>
          Effect.gen(function* () {
            yield* journal.submit(turn, submission("Hello"))
            for (let at = 0; at < 10; at++) {
              yield* say(turn, yield* Random.nextIntBetween(1, 4))
              if (yield* Random.nextBoolean) yield* Effect.sleep("1 millis")
            }
          }),
        { concurrency: "unbounded" }
      )
      for (const { session } of turns) {
        const last = yield* log.last(workspace, session)
        yield* until(() => listener.idsOf(session).length >= last)
      }
      yield* Effect.sleep("30 millis")
      for (const { session } of turns) {
        assert.deepStrictEqual(listener.idsOf(session), upTo(yield* log.last(workspace, session)))
      }
      listening.stop()
    })
  )

  it.effect("tells who subscribes in time nothing twice of what was held back", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      yield* say(turn, 4)
      const listener = new Heard()
      const listening = listen.open(turn.workspace, listener)
      listening.all()
      yield* say(turn, 4)
      yield* Effect.sleep("20 millis")
      yield* listening.subscribe(turn.session, 2)
      listening.release()
      yield* say(turn, 2)
      yield* until(() => listener.events.at(-1)?.id === 10)
      assert.deepStrictEqual(listener.idsOf(turn.session), upTo(10, 3))
      // Again, from the beginning.
      listener.events.length = 0
      yield* listening.subscribe(turn.session, 0)
      yield* until(() => listener.events.at(-1)?.id === 10)
      assert.deepStrictEqual(listener.idsOf(turn.session), upTo(10))
      // Only what comes.
      yield* listening.subscribe(turn.session, undefined)
      yield* say(turn, 1)
      yield* until(() => listener.events.at(-1)?.id === 11)
      assert.deepStrictEqual(listener.idsOf(turn.session), upTo(11))
      listening.stop()
    })
  )

  it.effect(
    "joins those who replay with those who follow where chunks are forgotten, and a session is made again",
    () =>
      Effect.gen(function* () {
        const listen = yield* Listen
        const journal = yield* TurnJournal
        const turn = yield* running()
        const { session, workspace } = turn
        const live = new Heard()
        const following = listen.open(workspace, live)
        yield* following.subscribe(session, undefined)
        yield* say(turn, 5)
        yield* until(() => live.events.length === 5)
        yield* journal.finish(turn, "completed", { events: [response(session, "done")] })
        // Only when a later turn ends.
        const later = turnIn(workspace, session)
        yield* journal.submit(later, submission(null))
        yield* journal.finish(later, "completed", { events: [response(session, "done too")] })
        const late = new Heard()
        const replaying = listen.open(workspace, late)
        yield* replaying.subscribe(session, 0)
        yield* until(() => late.events.length === 2 && live.events.length === 7)
        assert.deepStrictEqual(late.idsOf(session), [6, 7])
        yield* (yield* Sessions).remove(workspace, session)
        const again = turnIn(workspace, session)
        yield* journal.submit(again, submission(null))
        yield* say(again, 2)
        yield* until(() => late.events.length === 4 && live.events.length === 9)
        assert.deepStrictEqual(late.idsOf(session), [6, 7, 8, 9])
        assert.deepStrictEqual(live.idsOf(session), upTo(9))
        following.stop()
        replaying.stop()
      })
  )

  it.effect("misses nothing while the store is away", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      const live = new Heard()
      const late = new Heard()
      const first = listen.open(turn.workspace, live)
      yield* first.subscribe(turn.session, undefined)
      reads.failing = 3
      yield* say(turn, 3)
      const second = listen.open(turn.workspace, late)
      yield* second.subscribe(turn.session, 0)
      yield* until(() => live.events.length === 3 && late.events.length === 3)
      assert.deepStrictEqual(reads.failing, 0)
      assert.deepStrictEqual(live.idsOf(turn.session), [1, 2, 3])
      assert.deepStrictEqual(late.idsOf(turn.session), [1, 2, 3])
      first.stop()
      second.stop()
    })
  )

  it.effect("waits for those who replay and have no room, and for nobody else", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      yield* say(turn, 600)
      const heard: Array<number> = []
      let hasRoom = true
      const slow: Listener = {
        told: ({ id }) => void heard.push(id),
        room: Effect.suspend(() =>
          hasRoom
            ? Effect.sync(() => {
                hasRoom = false
              })
            : Effect.never
        )
      }
      const quick = new Heard()
      const first = listen.open(turn.workspace, slow)
      const second = listen.open(turn.workspace, quick)
      yield* first.subscribe(turn.session, 0)
      yield* second.subscribe(turn.session, 0)
      yield* until(() => quick.events.length === 600)
      yield* say(turn, 1)
      yield* until(() => quick.events.length === 601)
      assert.deepStrictEqual(heard, upTo(256))
      first.stop()
      second.stop()
    })
  )

  it.effect("tells all of a workspace what happens to its agent", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      const listeners = [new Heard(), new Heard(), new Heard()] as const
      const all = [
        listen.open(turn.workspace, listeners[0]),
        listen.open(turn.workspace, listeners[1]),
        listen.open(yield* account(), listeners[2])
      ] as const
      yield* all[1].subscribe(turn.session, undefined)
      const event: AgentEvent = { workspace: turn.workspace, _tag: "AgentRestarted", agentId: "a", changesApplied: [] }
      yield* PubSub.publish(agentEvents, event)
      yield* until(() => listeners[0].agents.length === 1 && listeners[1].agents.length === 1)
      assert.deepStrictEqual(listeners[2].agents, [])
      for (const listening of all) listening.stop()
    })
  )
})

layer(on(Silent), { excludeTestServices: true })("listening before notices come", (it) => {
  it.effect("goes on after what was read from the beginning", () =>
    Effect.gen(function* () {
      const listen = yield* Listen
      const turn = yield* running()
      yield* say(turn, 4)
      const listener = new Heard()
      const listening = listen.open(turn.workspace, listener)
      yield* listening.subscribe(turn.session, 0)
      yield* until(() => listener.events.length === 4)
      yield* say(turn, 2)
      yield* listening.subscribe(turn.session, 4)
      yield* until(() => listener.events.length === 6)
      assert.strictEqual(yield* listening.subscribe(turn.session, undefined), 6)
      listening.stop()
    })
  )
})
