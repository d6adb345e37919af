import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, PubSub } from "effect"
import { SqlClient } from "effect/sql"
import { SessionNotices } from "../../../src/adapters/postgres/SessionNotices.ts"
import type { SessionId } from "../../../src/domain/conversation/Session.ts"
import { OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { sessionId } from "../../conformance/Conversation.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { onServer } from "./Stores.ts"

const store = Layer.provideMerge(SessionNotices.layer, onServer(await freshDatabase("session-notices")))

const workspace = OrganizationId.make(crypto.randomUUID())

/** What the store's triggers say when a session has events from this number on. */
const notify = Effect.fnUntraced(function* (session: SessionId, from: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT pg_notify('session_events', ${JSON.stringify([workspace, session, from, Date.now()])})`
})

/** What is told from the moment in which notices are heard: the connection that hears them is made in the background. */
const hearing = Effect.gen(function* () {
  const { wakeUps } = yield* SessionNotices
  const heard = yield* PubSub.subscribe(wakeUps)
  const probe = sessionId()
  while ((yield* PubSub.takeUpTo(heard, 1)).length === 0) {
    yield* notify(probe, 1)
    yield* Effect.sleep("50 millis")
  }
  yield* Effect.sleep("100 millis")
  yield* PubSub.takeUpTo(heard, 1_000)
  return heard
})

describe("what a process appends to a session while it is told of that", () => {
  it.live("is said by itself first, and holds up no other session", () =>
    Effect.gen(function* () {
      const { appended, appending } = yield* SessionNotices
      const heard = yield* hearing
      const next = Effect.map(PubSub.take(heard), ({ from, isAhead, session }) => ({ session, from, isAhead }))
      const [own, other] = [sessionId(), sessionId()]
      const written = yield* Deferred.make<void>()
      const append = Effect.gen(function* () {
        yield* notify(own, 1)
        yield* notify(other, 7)
        yield* Deferred.await(written)
        yield* appended(workspace, own, 1, [{ event: "thinking", data: { sessionId: own } }])
      })
      const appends = yield* Effect.forkChild(appending([{ workspace, session: own }], append))
      assert.deepStrictEqual(yield* next, { session: other, from: 7, isAhead: undefined })
      yield* Deferred.succeed(written, undefined)
      yield* Fiber.join(appends)
      assert.deepStrictEqual(yield* next, { session: own, from: 1, isAhead: true })
      assert.deepStrictEqual(yield* next, { session: own, from: 1, isAhead: undefined })
      // From then on it is told at once.
      yield* notify(own, 2)
      assert.deepStrictEqual(yield* next, { session: own, from: 2, isAhead: undefined })
    }).pipe(Effect.scoped, Effect.provide(store))
  )

  it.live("is told also when it is not known whether it was written, after the last of several", () =>
    Effect.gen(function* () {
      const { appending } = yield* SessionNotices
      const heard = yield* hearing
      const session = sessionId()
      const [first, second] = [yield* Deferred.make<void, string>(), yield* Deferred.make<void>()]
      const failing = yield* Effect.forkChild(
        appending([{ workspace, session }], Effect.andThen(notify(session, 3), Deferred.await(first)))
      )
      const interrupted = yield* Effect.forkChild(
        appending([{ workspace, session }], Effect.andThen(notify(session, 4), Deferred.await(second)))
      )
      yield* Effect.sleep("200 millis")
      yield* Deferred.fail(first, "away")
      assert.isTrue(Exit.isFailure(yield* Fiber.await(failing)))
      assert.deepStrictEqual(yield* PubSub.takeUpTo(heard, 10), [])
      yield* Fiber.interrupt(interrupted)
      const told = yield* PubSub.takeUpTo(heard, 10)
      assert.deepStrictEqual(
        told.map(({ from }) => from).toSorted((a, b) => a - b),
        [3, 4]
      )
    }).pipe(Effect.scoped, Effect.provide(store))
  )
})
