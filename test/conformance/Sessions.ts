import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer, Option } from "effect"
import type { EventLog } from "../../src/application/ports/storage/EventLog.ts"
import type { Ledger } from "../../src/application/ports/storage/Ledger.ts"
import type { Organizations } from "../../src/application/ports/storage/Organizations.ts"
import { type MessageSearch, Sessions } from "../../src/application/ports/storage/Sessions.ts"
import { TurnJournal } from "../../src/application/ports/storage/TurnJournal.ts"
import { SessionId } from "../../src/domain/conversation/Session.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { allEvents, exchanged, message, sessionId, submission, turnIn } from "./Conversation.ts"
import { account } from "./Samples.ts"
import { StoreProbe } from "./StoreProbe.ts"

const everything = { limit: 100, offset: 0 }

/** What every store of sessions must do. */
export const sessionsSuite = (
  name: string,
  store: Layer.Layer<Sessions | TurnJournal | EventLog | Organizations | Ledger | StoreProbe, unknown>
) =>
  layer(store, { timeout: "2 minutes", excludeTestServices: true })(name, (it) => {
    /** The texts that a search finds, as `session: text`. */
    const found = Effect.fnUntraced(function* (
      workspace: OrganizationId,
      phrase: string,
      rest: Partial<MessageSearch> = {}
    ) {
      const { hits, total } = yield* (yield* Sessions).searchMessages(workspace, { phrase, ...everything, ...rest })
      return { texts: hits.map(({ message }) => message.content), total }
    })

    it.effect("makes a session once", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const id = sessionId()
        assert.deepStrictEqual(yield* sessions.find(workspace, id), Option.none())
        const made = yield* Effect.all(
          Array.from({ length: 5 }, () => sessions.open(workspace, id)),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          made.map(({ isNew }) => isNew).filter((isNew) => isNew),
          [true]
        )
        const session = Option.getOrThrow(yield* sessions.find(workspace, id))
        const { createdAt, lastActivity, ...rest } = session
        assert.deepStrictEqual(rest, { id, messageCount: 0, title: null })
        assert.strictEqual(lastActivity, createdAt)
        for (const { session: given } of made) assert.deepStrictEqual(given, session)
        assert.deepStrictEqual(yield* sessions.find(yield* account(), id), Option.none())
      })
    )

    it.effect("makes none without an organization", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const nowhere = OrganizationId.make(crypto.randomUUID())
        const exit = yield* Effect.exit(sessions.open(nowhere, sessionId()))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
        assert.deepStrictEqual(yield* sessions.list(nowhere), [])
        assert.deepStrictEqual(yield* sessions.current(nowhere), Option.none())
      })
    )

    it.effect("makes new ones only while there is room, at whatever speed they come", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const room = { most: 5, millis: 60_000 }
        const ids = Array.from({ length: 12 }, sessionId)
        const opened = yield* Effect.all(
          ids.map((id) => sessions.openWithin(workspace, id, room)),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(opened.filter(Option.isSome).length, room.most)
        const listed = yield* sessions.list(workspace)
        assert.strictEqual(listed.length, room.most)
        // One that is there can be opened again.
        const [known] = listed
        const again = yield* sessions.openWithin(workspace, known?.id ?? assert.fail(), room)
        assert.deepStrictEqual(again, Option.some({ session: known ?? assert.fail(), isNew: false }))
        // Idle ones stay, and take no room.
        yield* (yield* StoreProbe).pass("2 minutes")
        assert.isTrue(Option.isSome(yield* sessions.openWithin(workspace, sessionId(), room)))
        assert.strictEqual((yield* sessions.list(workspace)).length, room.most + 1)
      })
    )

    it.effect("lists the latest activity first", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const probe = yield* StoreProbe
        const workspace = yield* account()
        const [one, two, three] = [sessionId(), sessionId(), sessionId()]
        for (const id of [one, two, three]) {
          yield* sessions.open(workspace, id)
          yield* probe.pass("1 minute")
        }
        yield* sessions.open(workspace, two)
        assert.deepStrictEqual(
          (yield* sessions.list(workspace)).map(({ id }) => id),
          [three, two, one]
        )
        yield* exchanged(workspace, one, "Hello", "Hi")
        const listed = yield* sessions.list(workspace)
        assert.deepStrictEqual(
          listed.map(({ id, messageCount, title }) => ({ id, messageCount, title })),
          [
            { id: one, messageCount: 2, title: "Hello" },
            { id: three, messageCount: 0, title: null },
            { id: two, messageCount: 0, title: null }
          ]
        )
        assert.deepStrictEqual(Option.getOrThrow(yield* sessions.find(workspace, one)), listed[0])
        assert.deepStrictEqual(yield* sessions.list(yield* account()), [])
      })
    )

    it.effect("renames, and says so", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const id = sessionId()
        assert.isFalse(yield* sessions.rename(workspace, id, "Nobody"))
        yield* sessions.open(workspace, id)
        assert.isTrue(yield* sessions.rename(workspace, id, "Ä 'name'"))
        assert.strictEqual(Option.getOrThrow(yield* sessions.find(workspace, id)).title, "Ä 'name'")
        assert.deepStrictEqual(yield* allEvents(workspace, id), [
          { id: 1, session: id, event: { event: "sessionTitleUpdated", data: { title: "Ä 'name'", sessionId: id } } }
        ])
        assert.isFalse(yield* sessions.rename(yield* account(), id, "Theirs"))
      })
    )

    it.effect("knows which session was loaded last", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const [one, two] = [sessionId(), sessionId()]
        assert.isFalse(yield* sessions.load(workspace, one))
        assert.deepStrictEqual(yield* sessions.current(workspace), Option.none())
        for (const id of [one, two]) {
          yield* sessions.open(workspace, id)
          assert.isTrue(yield* sessions.load(workspace, id))
          assert.deepStrictEqual(yield* sessions.current(workspace), Option.some(id))
        }
        yield* sessions.remove(workspace, one)
        assert.deepStrictEqual(yield* sessions.current(workspace), Option.some(two))
        yield* sessions.remove(workspace, two)
        assert.deepStrictEqual(yield* sessions.current(workspace), Option.none())
        yield* sessions.open(workspace, two)
        assert.deepStrictEqual(yield* sessions.current(workspace), Option.none())
      })
    )

    it.effect("removes a session with all that belongs to it", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const [id, other] = [sessionId(), sessionId()]
        assert.deepStrictEqual(yield* sessions.remove(workspace, id), Option.none())
        yield* exchanged(workspace, id, "quasar one", "quasar two")
        yield* exchanged(workspace, other, "quasar three", "nothing")
        assert.deepStrictEqual(yield* sessions.remove(yield* account(), id), Option.none())
        assert.deepStrictEqual(yield* sessions.remove(workspace, id), Option.some([]))
        assert.deepStrictEqual(yield* sessions.remove(workspace, id), Option.none())
        assert.deepStrictEqual(yield* sessions.find(workspace, id), Option.none())
        assert.deepStrictEqual(yield* sessions.history(workspace, id), [])
        assert.deepStrictEqual(yield* allEvents(workspace, id), [])
        assert.deepStrictEqual(yield* found(workspace, "quasar"), { texts: ["quasar three"], total: 1 })
        const { isNew, session } = yield* sessions.open(workspace, id)
        assert.isTrue(isNew)
        assert.strictEqual(session.title, null)
        assert.strictEqual(session.messageCount, 0)
        assert.isFalse((yield* sessions.open(workspace, id)).isNew)
      })
    )

    it.effect("forgets the messages of a session that is reset", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const id = sessionId()
        assert.deepStrictEqual(yield* sessions.reset(workspace, id), Option.none())
        yield* exchanged(workspace, id, "quasar one", "quasar two")
        assert.deepStrictEqual(yield* sessions.reset(workspace, id), Option.some([]))
        const { messageCount, title } = Option.getOrThrow(yield* sessions.find(workspace, id))
        assert.deepStrictEqual({ messageCount, title }, { messageCount: 0, title: "quasar one" })
        assert.deepStrictEqual(yield* sessions.history(workspace, id), [])
        assert.deepStrictEqual(yield* found(workspace, "quasar"), { texts: [], total: 0 })
        assert.deepStrictEqual((yield* allEvents(workspace, id)).at(-1)?.event, {
          event: "conversationReset",
          data: { sessionId: id }
        })
      })
    )

    it.effect("names idle sessions, the longest idle first, but none that runs", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const journal = yield* TurnJournal
        const probe = yield* StoreProbe
        const workspace = yield* account()
        const [one, two, busy, fresh] = [sessionId(), sessionId(), sessionId(), sessionId()]
        yield* journal.submit(turnIn(workspace, busy), submission("Hello"))
        for (const id of [one, two]) {
          yield* sessions.open(workspace, id)
          yield* probe.pass("1 minute")
        }
        yield* probe.pass("1 hour")
        yield* sessions.open(workspace, fresh)
        assert.deepStrictEqual(yield* sessions.idle(workspace, 3_600_000, 10), [one, two])
        assert.deepStrictEqual(yield* sessions.idle(workspace, 3_600_000, 1), [one])
        assert.deepStrictEqual(yield* sessions.idle(workspace, 3_600_000 + 90_000, 10), [one])
      })
    )

    it.effect("finds a phrase in any case, exact ones first, then the newest", () =>
      Effect.gen(function* () {
        const workspace = yield* account()
        const [one, two] = [sessionId(), sessionId()]
        yield* exchanged(workspace, one, "Deploy it", "please deploy")
        yield* exchanged(workspace, two, "DEPLOYMENT", "deploy ok")
        yield* exchanged(workspace, one, "nothing", "depl oy")
        assert.deepStrictEqual(yield* found(workspace, "deploy"), {
          texts: ["deploy ok", "please deploy", "DEPLOYMENT", "Deploy it"],
          total: 4
        })
        assert.deepStrictEqual(yield* found(workspace, "DEPLOY"), {
          texts: ["DEPLOYMENT", "deploy ok", "please deploy", "Deploy it"],
          total: 4
        })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { limit: 2, offset: 1 }), {
          texts: ["please deploy", "DEPLOYMENT"],
          total: 4
        })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { limit: 2, offset: 4 }), { texts: [], total: 4 })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { session: one }), {
          texts: ["please deploy", "Deploy it"],
          total: 2
        })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { role: "user" }), {
          texts: ["DEPLOYMENT", "Deploy it"],
          total: 2
        })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { role: "tool" }), { texts: [], total: 0 })
        assert.deepStrictEqual(yield* found(workspace, "deploy", { session: two, role: "assistant" }), {
          texts: ["deploy ok"],
          total: 1
        })
        assert.deepStrictEqual(yield* found(yield* account(), "deploy"), { texts: [], total: 0 })
      })
    )

    it.effect("gives whole messages with their places", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const id = sessionId()
        yield* exchanged(workspace, id, "one", "two")
        yield* exchanged(
          workspace,
          id,
          [{ type: "text", text: "three" }],
          [
            { type: "text", text: "the quasar" },
            { type: "image", image: "blob:quasar-image", mimeType: "image/png" },
            { type: "text", text: "glows" }
          ]
        )
        const history = yield* sessions.history(workspace, id)
        const { hits } = yield* sessions.searchMessages(workspace, { phrase: "quasar", ...everything })
        assert.deepStrictEqual(hits, [{ session: id, message: history[3] ?? assert.fail(), index: 3 }])
        // Parts of a text are lines; what is no text is not searched.
        assert.strictEqual((yield* found(workspace, "quasar\nglows")).total, 1)
        assert.strictEqual((yield* found(workspace, "quasar-image")).total, 0)
      })
    )

    it.effect("takes every character of a phrase for itself", () =>
      Effect.gen(function* () {
        const workspace = yield* account()
        const id = sessionId()
        const texts = [
          "100% sure",
          "a_b and aXb",
          "back\\slash",
          "(a|b)*.+?[c]^$",
          'it\'s "quoted" -- ; DROP TABLE x',
          "to:tsquery & <-> !no",
          "ÄÖÜ straße İstanbul ΟΔΟΣ",
          "日本語のメッセージ",
          "Привет, мир",
          "emoji 👩‍👩‍👧 done",
          "tab\tand\nline",
          "aXbXc",
          "x"
        ]
        for (const text of texts) yield* exchanged(workspace, id, text, null)
        const only = (phrase: string, ...expected: ReadonlyArray<string>) =>
          Effect.gen(function* () {
            const result = yield* found(workspace, phrase)
            assert.sameMembers(
              result.texts.map((text) => (typeof text === "string" ? text : "")),
              [...expected],
              phrase
            )
            assert.strictEqual(result.total, expected.length, phrase)
          })
        yield* only("%", "100% sure")
        yield* only("0% s", "100% sure")
        yield* only("_", "a_b and aXb")
        yield* only("a_b", "a_b and aXb")
        yield* only("\\", "back\\slash")
        yield* only("K\\S", "back\\slash")
        yield* only(".+", "(a|b)*.+?[c]^$")
        yield* only("(A|B)*", "(a|b)*.+?[c]^$")
        yield* only("' \"")
        yield* only("'s \"QUO", 'it\'s "quoted" -- ; DROP TABLE x')
        yield* only("<->", "to:tsquery & <-> !no")
        yield* only("äö", "ÄÖÜ straße İstanbul ΟΔΟΣ")
        yield* only("ÄÖÜ STRASSE")
        yield* only("STRAßE", "ÄÖÜ straße İstanbul ΟΔΟΣ")
        yield* only("istanbul", "ÄÖÜ straße İstanbul ΟΔΟΣ")
        yield* only("οδος", "ÄÖÜ straße İstanbul ΟΔΟΣ")
        yield* only("語", "日本語のメッセージ")
        yield* only("本語のメ", "日本語のメッセージ")
        yield* only("ПРИВЕТ", "Привет, мир")
        yield* only("👩", "emoji 👩‍👩‍👧 done")
        yield* only("\t", "tab\tand\nline")
        yield* only("and\nline", "tab\tand\nline")
        yield* only("XB", "a_b and aXb", "aXbXc")
        yield* only("xbxc", "aXbXc")
        yield* only("\0")
      })
    )

    it.effect("finds phrases in long messages and of any length", () =>
      Effect.gen(function* () {
        const workspace = yield* account()
        const id = sessionId()
        const long = `${"lorem ipsum ".repeat(5_000)}the needle${" dolor sit".repeat(5_000)}`
        yield* exchanged(workspace, id, long, "short")
        for (const phrase of ["the needle dolor", long.slice(1_000, 70_000), "e", "ED"]) {
          assert.strictEqual((yield* found(workspace, phrase)).total, phrase === "ED" ? 1 : 1, phrase.slice(0, 40))
        }
        assert.strictEqual((yield* found(workspace, "needles")).total, 0)
      })
    )

    it.effect("gives pages and totals of a phrase that many messages have", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const journal = yield* TurnJournal
        const workspace = yield* account()
        const ids = [sessionId(), sessionId(), sessionId()]
        const turns = ids.map((id) => turnIn(workspace, id))
        for (const turn of turns) yield* journal.submit(turn, submission("begin"))
        const expected: Array<string> = []
        for (let count = 0; count < 90; count++) {
          const turn = turns[count % 3] ?? assert.fail()
          const texts = [`Common ${count}`, `uncommon common ${count}`]
          yield* journal.record(turn, `${count}`, { messages: texts.map((text) => message(text)) })
          expected.unshift(...texts.toReversed())
        }
        const ranked = (exact: string) => [
          ...expected.filter((text) => text.includes(exact)),
          ...expected.filter((text) => !text.includes(exact))
        ]
        for (const phrase of ["common", "Common", "co"]) {
          const texts = ranked(phrase)
          for (const [offset, limit] of [
            [0, 20],
            [85, 10],
            [89, 3],
            [170, 20],
            [179, 1],
            [180, 5],
            [0, 100]
          ] as const) {
            assert.deepStrictEqual(
              yield* found(workspace, phrase, { offset, limit }),
              { texts: texts.slice(offset, offset + limit), total: 180 },
              `${phrase} ${offset}`
            )
          }
        }
        // What was counted before is not what is there now.
        yield* journal.record(turns[0] ?? assert.fail(), "more", { messages: [message("common again")] })
        assert.deepStrictEqual(yield* found(workspace, "common", { limit: 1 }), { texts: ["common again"], total: 181 })
        assert.strictEqual((yield* found(workspace, "common", { role: "assistant" })).total, 0)
        assert.strictEqual((yield* found(workspace, "common", { session: ids[0] ?? assert.fail() })).total, 61)
        yield* sessions.remove(workspace, ids[1] ?? assert.fail())
        assert.strictEqual((yield* found(workspace, "common", { limit: 1 })).total, 121)
        yield* sessions.reset(workspace, ids[0] ?? assert.fail())
        assert.strictEqual((yield* found(workspace, "Common", { limit: 1 })).total, 60)
      })
    )

    it.effect("counts what many write at once", () =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const workspace = yield* account()
        const turns = Array.from({ length: 8 }, () => turnIn(workspace, sessionId()))
        for (const turn of turns) yield* journal.submit(turn, submission("begin"))
        let written = 0
        yield* Effect.all(
          turns.map((turn) =>
            Effect.gen(function* () {
              for (let count = 0; count < 15; count++) {
                const before = written
                yield* journal.record(turn, `${count}`, { messages: [message("everywhere")] })
                written++
                const { total } = yield* found(workspace, "everywhere", { limit: 1 })
                assert.isAtLeast(total, before + 1)
              }
            })
          ),
          { concurrency: "unbounded" }
        )
        assert.strictEqual((yield* found(workspace, "everywhere", { limit: 1 })).total, 120)
      })
    )

    it.effect("finds sessions, those with the newest match first, each with its first", () =>
      Effect.gen(function* () {
        const sessions = yield* Sessions
        const workspace = yield* account()
        const [one, two, three] = [SessionId.make("one"), SessionId.make("two"), SessionId.make("three")]
        yield* exchanged(workspace, one, "nothing", "A Quasar")
        yield* exchanged(workspace, two, "quasar 2", "quasar 3")
        yield* exchanged(workspace, one, "again a quasar", "no")
        yield* exchanged(workspace, three, "no", "no")
        const { found: matches, total } = yield* sessions.searchSessions(workspace, "QUASAR", 10)
        assert.strictEqual(total, 2)
        const [first, second] = matches
        assert.deepStrictEqual(first?.session, Option.getOrThrow(yield* sessions.find(workspace, one)))
        assert.strictEqual(first?.matchCount, 2)
        assert.strictEqual(first?.first.index, 1)
        assert.strictEqual(first?.first.message.content, "A Quasar")
        assert.strictEqual(second?.session.id, two)
        assert.strictEqual(second?.matchCount, 2)
        assert.strictEqual(second?.first.index, 0)
        assert.deepStrictEqual(yield* sessions.searchSessions(workspace, "no", 2), {
          found: (yield* sessions.searchSessions(workspace, "no", 10)).found.slice(0, 2),
          total: 2
        })
        const limited = yield* sessions.searchSessions(workspace, "quasar", 1)
        assert.deepStrictEqual([limited.found.length, limited.total], [1, 2])
        assert.deepStrictEqual(yield* sessions.searchSessions(yield* account(), "quasar", 10), { found: [], total: 0 })
      })
    )
  })
