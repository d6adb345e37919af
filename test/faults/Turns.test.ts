import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import type { TurnRef } from "../../src/domain/conversation/Turn.ts"
import { startChild } from "../adapters/postgres/Child.ts"
import { onPglite, onServer, temporaryDirectory } from "../adapters/postgres/Stores.ts"
import { sessionId, submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"
import { emptyDatabase, freshDatabase, startPostgres } from "../fixtures/Postgres.ts"
import { figure, secondsSince } from "./Figures.ts"

const pause = (millis: number) => Effect.promise(() => new Promise((resolve) => setTimeout(resolve, millis)))

type Worker = Effect.Success<ReturnType<typeof startChild>>

interface Said {
  readonly worker: Worker
  readonly line: string
}

/** Processes of one cluster, see `TurnWorker`, and what they say in the order of its coming. */
const clusterOn = (store: string) => {
  const said: Array<Said> = []
  const heard = (worker: Worker | undefined, line: string, within = 30_000): Effect.Effect<Said> =>
    Effect.gen(function* () {
      for (const until = performance.now() + within; performance.now() < until; yield* pause(5)) {
        const found = said.find((one) => one.line === line && (worker === undefined || one.worker === worker))
        if (found !== undefined) return found
      }
      return assert.fail(`Did not hear "${line}" in time, but: ${said.map((one) => one.line).join(", ")}`)
    })
  const join = Effect.gen(function* () {
    const worker = yield* startChild("../../faults/TurnWorker.ts", store)
    const listen = Effect.gen(function* () {
      for (let line = yield* worker.hear; line !== undefined; line = yield* worker.hear) said.push({ worker, line })
    })
    yield* Effect.forkScoped(listen)
    yield* heard(worker, "ready")
    return worker
  })
  return {
    join,
    heard: (worker: Worker | undefined, word: string, { turn }: TurnRef, within?: number) =>
      heard(worker, `${word} ${turn}`, within),
    left: (worker: Worker) => heard(worker, "left"),
    tell: (worker: Worker, does: "start" | "wake", turn: TurnRef) => worker.tell(JSON.stringify({ does, turn })),
    /** How often it was said of a turn. */
    times: (word: string, { turn }: TurnRef) => said.filter(({ line }) => line === `${word} ${turn}`).length
  }
}

/** Stores a message that says what its turn does. */
const submitted = Effect.fnUntraced(function* (words: string) {
  const turn = turnIn(yield* account(), sessionId())
  yield* (yield* TurnJournal).submit(turn, submission(words))
  return turn
})

const goOn = (turn: TurnRef) => Effect.flatMap(TurnJournal, (journal) => journal.record(turn, "go", {}))

/** At which of its words a turn is cut off: in a step, between steps, while it waits. */
const cuts = [
  { at: "1:long", words: "short long short" },
  { at: "1:pause", words: "short pause short" },
  { at: "1:wait", words: "short wait short" }
]

describe("Turns on two replicas", async () => {
  const url = await freshDatabase("turns-replicas")

  it.live("go on with the other within 10 s when theirs is killed, finished steps not again", () =>
    Effect.gen(function* () {
      const { heard, join, tell, times } = clusterOn(url)
      let [one, other] = [yield* join, yield* join]
      for (const { at, words } of cuts) {
        const turn = yield* submitted(words)
        yield* tell(one, "start", turn)
        const { worker } = yield* heard(undefined, at, turn)
        const since = performance.now()
        yield* worker.kill
        const alive = worker === one ? other : one
        yield* heard(alive, at, turn)
        figure(`taken over after a kill at ${at}`, secondsSince(since))
        assert.isBelow(secondsSince(since), 10)
        if (at === "1:wait") {
          yield* goOn(turn)
          yield* tell(alive, "wake", turn)
        }
        yield* heard(undefined, "ended", turn)
        assert.deepStrictEqual([times("0:short", turn), times(at, turn), times("2:short", turn)], [1, 2, 1])
        ;[one, other] = [alive, yield* join]
      }
    }).pipe(Effect.provide(onServer(url)), Effect.scoped)
  )

  it.live("are handed over at once by one that leaves", () =>
    Effect.gen(function* () {
      const { heard, join, left, tell, times } = clusterOn(url)
      let [one, other] = [yield* join, yield* join]
      for (const { at, words } of cuts) {
        const turn = yield* submitted(words)
        yield* tell(one, "start", turn)
        const { worker } = yield* heard(undefined, at, turn)
        const since = performance.now()
        yield* worker.leave
        yield* left(worker)
        figure(`left at ${at} after`, secondsSince(since))
        assert.isBelow(secondsSince(since), 5)
        const alive = worker === one ? other : one
        yield* heard(alive, at, turn)
        figure(`handed over at ${at} after`, secondsSince(since))
        assert.isBelow(secondsSince(since), 5)
        if (at === "1:wait") {
          yield* goOn(turn)
          yield* tell(alive, "wake", turn)
        }
        yield* heard(undefined, "ended", turn)
        assert.deepStrictEqual([times("0:short", turn), times(at, turn), times("2:short", turn)], [1, 2, 1])
        ;[one, other] = [alive, yield* join]
      }
    }).pipe(Effect.provide(onServer(url)), Effect.scoped)
  )

  it.live("are woken from either, in a step and while they wait", () =>
    Effect.gen(function* () {
      const { heard, join, tell } = clusterOn(url)
      const [one, other] = [yield* join, yield* join]
      for (let round = 0; round < 10; round++) {
        const [listening, waiting] = [yield* submitted("listen"), yield* submitted("wait")]
        yield* tell(one, "start", listening)
        yield* tell(other, "start", waiting)
        const { worker } = yield* heard(undefined, "0:listen", listening)
        const { worker: second } = yield* heard(undefined, "0:wait", waiting)
        yield* pause(100)
        yield* goOn(waiting)
        const since = performance.now()
        // Always from the one that does not have it.
        yield* tell(worker === one ? other : one, "wake", listening)
        yield* tell(second === one ? other : one, "wake", waiting)
        yield* heard(undefined, "ended", listening)
        yield* heard(undefined, "ended", waiting)
        assert.isBelow(secondsSince(since), 1)
      }
    }).pipe(Effect.provide(onServer(url)), Effect.scoped)
  )

  it.live("all end, 200 at once, each step once", () =>
    Effect.gen(function* () {
      const { heard, join, tell, times } = clusterOn(url)
      const [one, other] = [yield* join, yield* join]
      const turns = yield* Effect.all(
        Array.from({ length: 200 }, () => submitted("short short")),
        { concurrency: 8 }
      )
      const since = performance.now()
      for (const [place, turn] of turns.entries()) yield* tell(place % 2 === 0 ? one : other, "start", turn)
      for (const turn of turns) {
        yield* heard(undefined, "ended", turn)
        assert.deepStrictEqual([times("0:short", turn), times("1:short", turn), times("ended", turn)], [1, 1, 1])
      }
      figure("200 turns at once on two processes", secondsSince(since))
    }).pipe(Effect.provide(onServer(url)), Effect.scoped)
  )

  it.live("are started by the others when theirs has died before it could", () =>
    Effect.gen(function* () {
      const { heard, join } = clusterOn(url)
      yield* join
      const turn = yield* submitted("short")
      yield* heard(undefined, "ended", turn, 15_000)
    }).pipe(Effect.provide(onServer(url)), Effect.scoped)
  )
})

it.live("Three processes that start at once on an empty database are one cluster", () =>
  Effect.gen(function* () {
    const url = yield* Effect.promise(() => freshDatabase("turns-three"))
    const { heard, join, tell } = clusterOn(url)
    const workers = yield* Effect.all([join, join, join], { concurrency: "unbounded" })
    yield* Effect.gen(function* () {
      for (const worker of workers) {
        const turn = yield* submitted("short")
        yield* tell(worker, "start", turn)
        yield* heard(undefined, "ended", turn)
      }
    }).pipe(Effect.provide(onServer(url)))
  }).pipe(Effect.scoped)
)

const directory = await temporaryDirectory()

it.live("Turns of an embedded store go on after kill -9 and a restart", () =>
  Effect.gen(function* () {
    const { heard, join, tell, times } = clusterOn(directory)
    for (const { at, words } of cuts) {
      // The store is for one process at a time.
      const turn = yield* Effect.provide(submitted(words), onPglite(directory))
      const first = yield* join
      yield* tell(first, "start", turn)
      yield* heard(first, at, turn)
      yield* first.kill
      if (at === "1:wait") yield* Effect.provide(goOn(turn), onPglite(directory))
      const second = yield* join
      yield* heard(second, "ended", turn)
      assert.deepStrictEqual([times("0:short", turn), times("2:short", turn)], [1, 1])
      yield* second.leave
    }
  }).pipe(Effect.scoped)
)

it.live("Turns go on by themselves when Postgres comes back after 30 s", () =>
  Effect.gen(function* () {
    const postgres = yield* Effect.acquireRelease(
      Effect.promise(() => startPostgres()),
      (postgres) => Effect.promise(() => postgres.remove())
    )
    const url = yield* Effect.promise(() => emptyDatabase("turns-away", postgres.url))
    const { heard, join, tell, times } = clusterOn(url)
    const one = yield* join
    yield* Effect.gen(function* () {
      const turns: Array<TurnRef> = []
      for (const { at, words } of cuts) {
        const turn = yield* submitted(words)
        yield* tell(one, "start", turn)
        yield* heard(undefined, at, turn)
        turns.push(turn)
      }
      yield* Effect.promise(() => postgres.stop())
      yield* pause(30_000)
      yield* Effect.promise(() => postgres.start())
      const since = performance.now()
      const later = yield* submitted("short").pipe(Effect.sandbox, Effect.eventually)
      yield* tell(one, "start", later)
      const waiting = turns.at(-1)
      if (waiting !== undefined) {
        yield* goOn(waiting)
        yield* tell(one, "wake", waiting)
      }
      for (const turn of [...turns, later]) {
        yield* heard(undefined, "ended", turn)
        assert.strictEqual(times("0:short", turn), 1)
      }
      figure("all turns ended after Postgres was back", secondsSince(since))
      assert.isBelow(secondsSince(since), 15)
    }).pipe(Effect.provide(onServer(url)))
  }).pipe(Effect.scoped)
)
