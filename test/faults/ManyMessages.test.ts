import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import type { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { onServer, shared } from "../adapters/postgres/Stores.ts"
import { message, submission, turnIn } from "../conformance/Conversation.ts"
import { account } from "../conformance/Samples.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"

const store = shared(onServer(await freshDatabase("messages")))

const amount = 30_000
const perSession = 30

/** Most say "common", every seventh in capitals; every thousandth has a word of its own. */
const textOf = (at: number): string =>
  `Message ${at} ${at % 7 === 0 ? "COMMON" : "common"} words${at % 1_000 === 0 ? ` needle${at}` : ""}`

/** A workspace with many messages, and another one whose messages lie between them. */
const filled = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [mine, foreign] = [yield* account(), yield* account()]
  // Statistics that know nothing of the two: plans must be good all the same.
  yield* sql`ANALYZE session_messages, searched_texts`
  for (const workspace of [mine, foreign]) {
    yield* sql`
      INSERT INTO sessions (organization_id, id, created_at, last_activity, message_count)
      SELECT ${workspace}, 's' || s, 1, 1, ${perSession} FROM generate_series(0, ${amount / perSession - 1}::int) s`
  }
  yield* sql`
    WITH added AS (
      INSERT INTO session_messages (organization_id, session_id, role, position, created_at, text, body)
      SELECT workspace, 's' || at % ${amount / perSession},
             CASE WHEN at % 2 = 0 THEN 'user' ELSE 'assistant' END, at / ${amount / perSession}, 1, text, '{"id":"m"}'
      FROM (
        SELECT w.workspace, at, 'Message ' || at || CASE WHEN at % 7 = 0 THEN ' COMMON' ELSE ' common' END || ' words' ||
               CASE WHEN at % 1000 = 0 THEN ' needle' || at ELSE '' END AS text
        FROM generate_series(0, ${amount - 1}::int) at,
             (VALUES (${mine}, 0), (${foreign}, 1)) AS w (workspace, place) ORDER BY at, w.place
      ) messages RETURNING *)
    INSERT INTO searched_texts (organization_id, number, position, role, session_id, folded)
    SELECT organization_id, number, position, role, session_id, convert_to(lower(text), 'UTF8') FROM added`
  return { mine, foreign }
})

const newestFirst = Array.from({ length: amount }, (_, index) => textOf(amount - 1 - index))

const ranked = (texts: ReadonlyArray<string>, phrase: string): ReadonlyArray<string> => {
  const hits = texts.filter((text) => text.toLowerCase().includes(phrase.toLowerCase()))
  return [...hits.filter((text) => text.includes(phrase)), ...hits.filter((text) => !text.includes(phrase))]
}

/** Counts that were remembered stay exact: more messages than one range has, and searches that are repeated. */
layer(store, { timeout: "3 minutes", excludeTestServices: true })("Among 60,000 messages", (it) => {
  const check = Effect.fnUntraced(function* (
    workspace: OrganizationId,
    texts: ReadonlyArray<string>,
    phrase: string,
    offset: number,
    limit = 20
  ) {
    const { hits, total } = yield* (yield* Sessions).searchMessages(workspace, { phrase, limit, offset })
    const expected = ranked(texts, phrase)
    assert.strictEqual(total, expected.length, `${phrase} ${offset}`)
    assert.deepStrictEqual(
      hits.map((hit) => hit.message.content),
      expected.slice(offset, offset + limit),
      `${phrase} ${offset}`
    )
  })

  it.effect("a search gives exact totals and every page, however often it is asked and whatever comes in between", () =>
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const sessions = yield* Sessions
      const { foreign, mine } = yield* filled
      const phrases = [
        "common",
        "COMMON",
        "Common",
        "message",
        "e",
        "7",
        "mmon words",
        "7 common",
        "1 Common",
        "needle",
        "needle7000",
        "needle12000"
      ]
      const exact = ranked(newestFirst, "common").filter((text) => text.includes("common")).length
      for (let round = 0; round < 2; round++) {
        for (const phrase of phrases) {
          const { length } = ranked(newestFirst, phrase)
          for (const offset of [0, 17, exact - 5, exact, length - 3, length, Math.floor(length / 2)]) {
            yield* check(mine, newestFirst, phrase, Math.max(0, offset))
          }
        }
      }
      assert.strictEqual(
        (yield* sessions.searchMessages(mine, { phrase: "common", role: "user", limit: 1, offset: 0 })).total,
        amount / 2
      )
      assert.strictEqual(
        (yield* sessions.searchMessages(mine, { phrase: "7 common", role: "assistant", limit: 1, offset: 0 })).total,
        amount / 10
      )

      const turn = turnIn(mine, SessionId.make("new"))
      yield* journal.submit(turn, submission("Common at last"))
      let texts = ["Common at last", ...newestFirst]
      yield* check(mine, texts, "common", 0)
      yield* check(mine, texts, "Common", 0)
      yield* journal.record(turn, "more", {
        messages: [message("common once more"), message("needle of another kind")]
      })
      texts = ["needle of another kind", "common once more", ...texts]
      for (const phrase of ["common", "Common", "needle", "e"]) yield* check(mine, texts, phrase, 0)
      yield* check(foreign, newestFirst, "common", 3)

      yield* sessions.remove(mine, SessionId.make("s3"))
      texts = texts.filter((text) => !/^Message \d*[0-9] /u.test(text) || Number(text.split(" ")[1]) % 1_000 !== 3)
      for (const phrase of ["common", "COMMON", "needle", "e"]) {
        for (const offset of [0, 10_000, 29_960]) yield* check(mine, texts, phrase, offset)
      }
      yield* check(foreign, newestFirst, "COMMON", 29_990)
    })
  )

  it.effect("a search for sessions gives exact numbers too", () =>
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const sessions = yield* Sessions
      const { mine } = yield* filled
      const names = Effect.fnUntraced(function* (phrase: string, limit: number) {
        const { found, total } = yield* sessions.searchSessions(mine, phrase, limit)
        return {
          total,
          found: found.map(({ first, matchCount, session }) => `${session.id} ${matchCount} ${first.index}`)
        }
      })
      const many = amount / perSession
      const newest = (count: number, ...first: ReadonlyArray<string>) => [
        ...first,
        ...Array.from({ length: count }, (_, index) => `s${many - 1 - index} ${perSession} 0`)
      ]
      for (let round = 0; round < 3; round++) {
        assert.deepStrictEqual(yield* names("common", 5), { total: many, found: newest(5) })
      }
      assert.deepStrictEqual(yield* names("needle", 5), { total: 1, found: [`s0 ${perSession} 0`] })
      for (let round = 0; round < 2; round++) {
        const { found, total } = yield* names("7 common", 3)
        assert.deepStrictEqual(
          { total, found },
          { total: many / 10, found: ["s997", "s987", "s977"].map((id) => `${id} ${perSession} 0`) }
        )
      }

      const turn = turnIn(mine, SessionId.make("new"))
      yield* journal.submit(turn, submission("no"))
      yield* journal.record(turn, "1", { messages: [message("Common")] })
      const old = turnIn(mine, SessionId.make("s5"))
      yield* journal.submit(old, submission("common again"))
      assert.deepStrictEqual(yield* names("common", 4), {
        total: many + 1,
        found: newest(2, `s5 ${perSession + 1} 0`, "new 1 1")
      })
      assert.deepStrictEqual(
        (yield* names("common", 5)).found.slice(0, 3),
        newest(1, `s5 ${perSession + 1} 0`, "new 1 1")
      )
      yield* sessions.remove(mine, SessionId.make("s5"))
      yield* sessions.reset(mine, SessionId.make(`s${many - 1}`))
      assert.deepStrictEqual(yield* names("common", 5), {
        total: many - 1,
        found: ["new 1 1", ...newest(5).slice(1)]
      })
    })
  )

  it.effect("a phrase is counted right while many write it", () =>
    Effect.gen(function* () {
      const journal = yield* TurnJournal
      const sessions = yield* Sessions
      const { mine } = yield* filled
      const turns = Array.from({ length: 6 }, () => turnIn(mine, SessionId.make(crypto.randomUUID())))
      for (const turn of turns) yield* journal.submit(turn, submission("begin"))
      let written = 0
      yield* Effect.all(
        turns.map((turn) =>
          Effect.gen(function* () {
            for (let count = 0; count < 20; count++) {
              yield* journal.record(turn, `${count}`, { messages: [message("common"), message("common")] })
              written += 2
              const before = written
              const { total } = yield* sessions.searchMessages(mine, { phrase: "common", limit: 1, offset: 0 })
              assert.isAtLeast(total, amount + before)
              assert.isAtMost(total, amount + 240)
            }
          })
        ),
        { concurrency: "unbounded" }
      )
      const { total } = yield* sessions.searchMessages(mine, { phrase: "common", limit: 1, offset: 0 })
      assert.strictEqual(total, amount + 240)
    })
  )
})
