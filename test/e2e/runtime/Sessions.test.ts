import { Effect, Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { Blobs } from "../../../src/application/ports/storage/Blobs.ts"
import { TurnJournal } from "../../../src/application/ports/storage/TurnJournal.ts"
import { SessionId } from "../../../src/domain/conversation/Session.ts"
import { exchanged, message, submission, turnIn } from "../../conformance/Conversation.ts"
import { betweenStarts } from "../../fixtures/Conversations.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

const Session = Schema.Struct({
  id: Schema.String,
  createdAt: Schema.Int,
  lastActivity: Schema.Int,
  messageCount: Schema.Int,
  title: Schema.NullOr(Schema.String)
})

const strict = { onExcessProperty: "error" } as const
const one = Schema.decodeUnknownSync(Schema.Struct({ session: Session }), strict)
const many = Schema.decodeUnknownSync(Schema.Struct({ sessions: Schema.Array(Session) }), strict)

const agent = (sessions: string) => `agentCard:
  name: Limited
  description: A test.
  url: http://localhost
  version: 1.0.0
systemPrompt: Be brief.
llm:
  provider: service
  model: echo
  apiKey: ""
${sessions}`

/** Decisions 6. */
describe.each(stores)("sessions, on $store", ({ options }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime(await options())
  }, 120_000)
  afterAll(() => runtime.service.remove())

  const opened = async (sessionId: string = crypto.randomUUID()): Promise<string> => {
    const made = await runtime.mine("POST", "/api/sessions", { sessionId })
    expect(made.status).toBe(201)
    return one(made.body).session.id
  }

  const listed = async () => {
    const { body, status } = await runtime.mine("GET", "/api/sessions")
    expect(status).toBe(200)
    return many(body).sessions
  }

  /** What cannot be an id, what nobody has, and what somebody else has. */
  const unknownIds = async (): Promise<ReadonlyArray<string>> => {
    const foreign = await runtime.foreign("POST", "/api/sessions")
    expect(foreign.status).toBe(201)
    return ["nobody", "%20", "a".repeat(129), "%C3%A4", "..%2f..%2fetc", "'%20OR%201=1", one(foreign.body).session.id]
  }

  const refusedOfUnknown = async (method: string, suffix: string, body?: unknown) => {
    for (const id of await unknownIds()) {
      const reply = await runtime.mine(method, `/api/sessions/${id}${suffix}`, body)
      expect([id, reply.status, reply.body]).toEqual([id, 404, messageError])
    }
  }

  test("GET /api/sessions: 200 with the workspace's sessions, the latest activity first", async () => {
    expect((await runtime.foreign("GET", "/api/sessions")).body).toEqual({ sessions: [] })
    const first = await opened()
    const second = await opened("! a~:id/with?every#sign".replaceAll(" ", ""))
    const sessions = await listed()
    expect(
      sessions
        .map(({ id }) => id)
        .slice(0, 2)
        .toSorted()
    ).toEqual([first, second].toSorted())
    const [newest] = sessions
    expect(newest).toEqual({
      id: newest?.id,
      createdAt: newest?.createdAt,
      lastActivity: newest?.createdAt,
      messageCount: 0,
      title: null
    })
    expect(Math.abs((newest?.createdAt ?? 0) - Date.now())).toBeLessThan(60_000)
  })

  test("POST /api/sessions: 201 for a new one, with an id of the caller or of the service", async () => {
    const id = crypto.randomUUID()
    const mine = await runtime.mine("POST", "/api/sessions", { sessionId: id })
    expect([mine.status, one(mine.body).session.id]).toEqual([201, id])
    for (const body of [{}, undefined, { another: "field" }]) {
      const made = await runtime.mine("POST", "/api/sessions", body)
      expect(made.status).toBe(201)
      expect(one(made.body).session.id).toMatch(/^[0-9a-f-]{36}$/u)
    }
    // The same id is another session in another workspace.
    expect((await runtime.foreign("POST", "/api/sessions", { sessionId: id })).status).toBe(201)
  })

  test("POST /api/sessions: 200 for one that is there", async () => {
    const made = await runtime.mine("POST", "/api/sessions", { sessionId: "there" })
    const again = await runtime.mine("POST", "/api/sessions", { sessionId: "there" })
    expect([made.status, again.status]).toEqual([201, 200])
    expect(one(again.body)).toEqual(one(made.body))
    const together = await Promise.all(
      Array.from({ length: 8 }, () => runtime.mine("POST", "/api/sessions", { sessionId: "raced" }))
    )
    expect(together.filter(({ status }) => status === 201).length).toBe(1)
    expect(together.filter(({ status }) => status === 200).length).toBe(7)
  })

  test("POST /api/sessions: 400 for what cannot be an id", async () => {
    for (const sessionId of ["", " ", "two words", "ä", "a".repeat(129), 7, null, "tab\t", "\u0000"]) {
      const refused = await runtime.mine("POST", "/api/sessions", { sessionId })
      expect([sessionId, refused.status, refused.body]).toEqual([sessionId, 400, messageError])
    }
    for (const body of ["[]", '"text"', "{", '{"sessionId": "a"', new Uint8Array([0xff])]) {
      const refused = await runtime.mine("POST", "/api/sessions", body)
      expect([refused.status, refused.body]).toEqual([400, messageError])
    }
    expect((await runtime.mine("POST", "/api/sessions", { sessionId: "a".repeat(128) })).status).toBe(201)
  })

  test("POST /api/sessions: 400 for more active sessions than the agent takes, at whatever speed they come", async () => {
    const { foreign } = runtime
    const before = many((await foreign("GET", "/api/sessions")).body).sessions
    const most = before.length + 3
    const saved = await foreign("POST", "/api/agent/config", {
      yaml: agent(`sessions:\n  maxSessions: ${most}\n  sessionTTL: 3600000\n`)
    })
    expect([saved.status, saved.text]).toEqual([200, saved.text])
    const replies = await Promise.all(Array.from({ length: 10 }, () => foreign("POST", "/api/sessions")))
    const refused = replies.filter(({ status }) => status !== 201)
    expect(refused.map(({ status }) => status)).toEqual(Array.from({ length: 7 }, () => 400))
    for (const { body } of refused) expect(body).toEqual({ error: expect.stringContaining(`at most ${most} sessions`) })
    const [known] = many((await foreign("GET", "/api/sessions")).body).sessions
    expect((await foreign("POST", "/api/sessions", { sessionId: known?.id })).status).toBe(200)
    // Room again: one is deleted, or those that are idle no longer count.
    expect((await foreign("DELETE", `/api/sessions/${known?.id}`)).status).toBe(200)
    expect((await foreign("POST", "/api/sessions")).status).toBe(201)
    expect((await foreign("POST", "/api/sessions")).status).toBe(400)
    const shorter = await foreign("POST", "/api/agent/config", {
      yaml: agent(`sessions:\n  maxSessions: ${most}\n  sessionTTL: 1\n`)
    })
    expect(shorter.status).toBe(200)
    expect((await foreign("POST", "/api/sessions")).status).toBe(201)
    expect(many((await foreign("GET", "/api/sessions")).body).sessions.length).toBe(most + 1)
  })

  test("POST /api/sessions: 413 for a body over 1 MiB", async () => {
    const refused = await runtime.mine("POST", "/api/sessions", { padding: "a".repeat(1024 * 1024) })
    expect([refused.status, refused.body]).toEqual([413, messageError])
  })

  test("GET /api/sessions/current: 200 with the one that was loaded last, or the one of messages that name none", async () => {
    expect((await runtime.foreign("GET", "/api/sessions/current")).body).toEqual({ currentSessionId: "default" })
    const [first, second] = [await opened(), await opened()]
    for (const id of [first, second, first]) {
      expect((await runtime.mine("POST", `/api/sessions/${id}/load`)).status).toBe(200)
      const { body, status } = await runtime.mine("GET", "/api/sessions/current")
      expect([status, body]).toEqual([200, { currentSessionId: id }])
    }
    await runtime.mine("DELETE", `/api/sessions/${first}`)
    expect((await runtime.mine("GET", "/api/sessions/current")).body).toEqual({ currentSessionId: "default" })
  })

  test("GET /api/sessions/{id}: 200 with the session", async () => {
    const id = await opened("with/slash")
    const { body, status } = await runtime.mine("GET", `/api/sessions/${encodeURIComponent(id)}`)
    expect(status).toBe(200)
    expect(one(body).session).toEqual((await listed()).find((session) => session.id === id))
  })

  test("GET /api/sessions/{id}: 404 for one that is not there", () => refusedOfUnknown("GET", ""))

  test("GET /api/sessions/{id}/history: 200 with every message and whether the agent is at work", async () => {
    const [id, busy] = [await opened(), await opened()]
    const answer = message("Two", {
      role: "assistant",
      reasoning: "1 + 1",
      tokenUsage: { inputTokens: 5, outputTokens: 2, reasoningTokens: 3, totalTokens: 10 },
      model: "echo",
      provider: "service",
      router: "in-built",
      toolCalls: [{ id: "call", name: "calculator", arguments: "{}" }]
    })
    const result = message("2", { role: "tool", toolCallId: "call", name: "calculator" })
    const parts = message([
      { type: "text", text: "What is this?" },
      { type: "image", image: "blob:1", mimeType: "image/png" }
    ])
    const stop = message(null, { role: "assistant" })
    await betweenStarts(runtime.service, "mine", (workspace) =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        const turn = turnIn(workspace, SessionId.make(id))
        yield* journal.submit(turn, { ...submission(null), message: parts })
        yield* journal.finish(turn, "completed", { messages: [answer, result, stop] })
        const other = turnIn(workspace, SessionId.make(busy))
        yield* journal.submit(other, submission("one"))
        yield* journal.submit(turnIn(workspace, SessionId.make(busy)), submission("two"))
      })
    )
    const { body, status } = await runtime.mine("GET", `/api/sessions/${id}/history`)
    expect(status).toBe(200)
    expect(body).toEqual({
      history: [parts, answer, result, stop].map((sent) => ({ ...sent, createdAt: expect.any(Number) })),
      isBusy: false
    })
    const { session } = one((await runtime.mine("GET", `/api/sessions/${id}`)).body)
    expect(session).toMatchObject({ messageCount: 4, title: "What is this?" })
    // What waits for its turn is not in the history yet.
    expect((await runtime.mine("GET", `/api/sessions/${busy}/history`)).body).toMatchObject({
      history: [{ role: "user", content: "one" }],
      isBusy: true
    })
  })

  test("GET /api/sessions/{id}/history: 404 for a session that is not there", () => refusedOfUnknown("GET", "/history"))

  test("PATCH /api/sessions/{id}: 200 with the new title, trimmed", async () => {
    const id = await opened()
    for (const [given, title] of [
      ["Plans", "Plans"],
      ["  Ä 'quoted' %_ 😀 ", "Ä 'quoted' %_ 😀"],
      ["x".repeat(120), "x".repeat(120)]
    ]) {
      const { body, status } = await runtime.mine("PATCH", `/api/sessions/${id}`, { title: given })
      expect([status, one(body).session.title]).toEqual([200, title])
      expect((await listed()).find((session) => session.id === id)?.title).toBe(title)
    }
  })

  test("PATCH /api/sessions/{id}: 400 for no title, an empty one or one of more than 120 characters", async () => {
    const id = await opened()
    for (const body of [
      {},
      { title: "" },
      { title: "   " },
      { title: "x".repeat(121) },
      { title: null },
      { title: 1 },
      "",
      "no"
    ]) {
      const refused = await runtime.mine("PATCH", `/api/sessions/${id}`, body)
      expect([body, refused.status, refused.body]).toEqual([body, 400, messageError])
    }
    expect(one((await runtime.mine("GET", `/api/sessions/${id}`)).body).session.title).toBe(null)
  })

  test("PATCH /api/sessions/{id}: 404 for one that is not there", () =>
    refusedOfUnknown("PATCH", "", { title: "Mine" }))

  test("PATCH /api/sessions/{id}: 413 for a body over 1 MiB", async () => {
    const refused = await runtime.mine("PATCH", `/api/sessions/${await opened()}`, { title: "x".repeat(1024 * 1024) })
    expect([refused.status, refused.body]).toEqual([413, messageError])
  })

  test("DELETE /api/sessions/{id}: 200 with nothing of it left", async () => {
    const id = await opened()
    const kept = await opened()
    const blob = await betweenStarts(runtime.service, "mine", (workspace) =>
      Effect.gen(function* () {
        const bytes = new TextEncoder().encode(id)
        yield* exchanged(workspace, SessionId.make(id), `a word of ${id}`, "Yes")
        return yield* (yield* Blobs).put(workspace, `session:${id}`, { bytes, mimeType: "text/plain" })
      })
    )
    const isListed = async () => (await runtime.mine("GET", "/api/resources")).text.includes(blob.id)
    expect(await isListed()).toBe(true)
    const switched = await runtime.mine("POST", "/api/llm/switch", {
      provider: "service",
      model: "echo",
      sessionId: id
    })
    expect(switched.status).toBe(200)

    const { body, status } = await runtime.mine("DELETE", `/api/sessions/${id}`)
    expect([status, body]).toEqual([200, { status: "deleted", sessionId: id }])
    expect((await runtime.mine("GET", `/api/sessions/${id}`)).status).toBe(404)
    expect((await runtime.mine("GET", `/api/sessions/${id}/history`)).status).toBe(404)
    expect((await listed()).map((session) => session.id)).not.toContain(id)
    expect((await listed()).map((session) => session.id)).toContain(kept)
    expect((await runtime.mine("GET", `/api/search/messages?q=${id}`)).body).toMatchObject({ total: 0 })
    expect(await isListed()).toBe(false)

    const again = await runtime.mine("POST", "/api/sessions", { sessionId: id })
    expect([again.status, one(again.body).session]).toMatchObject([201, { id, messageCount: 0, title: null }])
  })

  test("DELETE /api/sessions/{id}: 404 for one that is not there", async () => {
    await refusedOfUnknown("DELETE", "")
    const id = await opened()
    const replies = await Promise.all(Array.from({ length: 5 }, () => runtime.mine("DELETE", `/api/sessions/${id}`)))
    expect(replies.filter(({ status }) => status === 200).length).toBe(1)
    expect(replies.filter(({ status }) => status === 404).length).toBe(4)
  })

  test("POST /api/sessions/{id}/load: 200 for the session that becomes the current one", async () => {
    const id = await opened()
    const { body, status } = await runtime.mine("POST", `/api/sessions/${id}/load`)
    expect([status, body]).toEqual([200, { status: "loaded", sessionId: id, currentSession: id }])
    expect((await runtime.foreign("GET", "/api/sessions/current")).body).toEqual({ currentSessionId: "default" })
  })

  test("POST /api/sessions/{id}/load: 404 for one that is not there", () => refusedOfUnknown("POST", "/load"))

  test("POST /api/sessions/{id}/cancel: 200 that says whether there was something to cancel", async () => {
    const id = await opened()
    const idle = await runtime.mine("POST", `/api/sessions/${id}/cancel`)
    expect([idle.status, idle.body]).toEqual([200, { cancelled: false, sessionId: id }])
    await betweenStarts(runtime.service, "mine", (workspace) =>
      Effect.gen(function* () {
        const journal = yield* TurnJournal
        yield* journal.submit(turnIn(workspace, SessionId.make(id)), submission("Think for long"))
      })
    )
    const busy = await runtime.mine("POST", `/api/sessions/${id}/cancel`)
    expect([busy.status, busy.body]).toEqual([200, { cancelled: true, sessionId: id }])
  })

  test("POST /api/sessions/{id}/cancel: 404 for a session that is not there", () => refusedOfUnknown("POST", "/cancel"))
})
