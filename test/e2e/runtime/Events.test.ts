import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { Frame } from "../../fixtures/ConversationClient.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"
import { post, streamOf } from "../../fixtures/Sockets.ts"
import { issueKey } from "../../fixtures/Store.ts"

const responses = (number: number) => (events: ReadonlyArray<Frame>) =>
  events.filter(({ event }) => event === "response").length === number

/** Decisions 6. */
describe.each(stores)("server-sent events, on $store", ({ options, store }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime(await options())
  }, 120_000)
  afterAll(() => runtime.service.remove())

  const newSession = async (): Promise<string> => {
    const sessionId = crypto.randomUUID()
    expect((await runtime.mine("POST", "/api/sessions", { sessionId })).status).toBe(201)
    return sessionId
  }

  const listen = (
    session: string,
    isEnough: (events: ReadonlyArray<Frame>, text: string) => boolean,
    headers: Readonly<Record<string, string>> = {},
    query = ""
  ) =>
    streamOf(
      runtime.service.baseUrl,
      `/api/sessions/${encodeURIComponent(session)}/events${query}`,
      runtime.keys.mine,
      isEnough,
      headers
    )

  const say = (session: string, message: string) =>
    post(runtime.service.baseUrl, runtime.keys.mine, session, message, "message")

  test("GET /api/sessions/{id}/events: 200 with what happens from now on, as it happens", async () => {
    const session = await newSession()
    let isSaid = false
    const { events, headers, text } = await listen(session, (events, text) => {
      // The first bytes say that nothing is missed from then on.
      if (!isSaid && text !== "") {
        isSaid = true
        void say(session, "Some words to stream")
      }
      return responses(1)(events)
    })
    expect(headers.get("content-type")).toBe("text/event-stream")
    expect(headers.get("cache-control")).toBe("no-cache")
    expect(headers.get("x-accel-buffering")).toBe("no")
    expect(text.startsWith("retry: 1000\nid: 0\n")).toBe(true)
    expect(events.map(({ id }) => id)).toEqual(events.map((_, at) => at + 1))
    const chunks = events.filter(({ event }) => event === "chunk")
    expect(chunks.map(({ data }) => data["content"]).join("")).toBe("Some words to stream")
    expect(events.at(-1)).toMatchObject({
      event: "response",
      data: { text: "Some words to stream", sessionId: session }
    })
  })

  test("GET /api/sessions/{id}/events: 200 after the event that came last, by header or query", async () => {
    const session = await newSession()
    await say(session, "First")
    const { events } = await listen(session, responses(1), { "last-event-id": "0" })
    const last = events.at(-1)?.id ?? 0
    await say(session, "Second")
    const later = await listen(session, responses(1), { "last-event-id": String(last) })
    expect(later.events[0]?.id).toBe(last + 1)
    expect(later.events.at(-1)?.data["text"]).toBe("Second")
    const byQuery = await listen(session, responses(2), {}, "?after=0")
    expect(byQuery.events.filter(({ event }) => event === "response").map(({ data }) => data["text"])).toEqual([
      "First",
      "Second"
    ])
    // The header is of the later time.
    const both = await listen(session, responses(1), { "last-event-id": String(last) }, "?after=0")
    expect(both.events[0]?.id).toBe(last + 1)
  })

  test("GET /api/sessions/{id}/events: 200 to a client that comes back over and over, nothing lost or repeated", async () => {
    const session = await newSession()
    const ids: Array<number> = []
    const names: Array<string> = []
    const turns = 8
    const saying = (async () => {
      for (let at = 0; at < turns; at++) {
        await say(session, `Words ${at}`)
        await sleep(Math.random() * 80)
      }
    })()
    while (names.filter((name) => name === "response").length < turns) {
      const until = Date.now() + Math.random() * 100
      const { events } = await listen(session, (found) => found.length > 0 && Date.now() > until, {
        "last-event-id": String(ids.at(-1) ?? 0)
      })
      ids.push(...events.map(({ id = 0 }) => id))
      names.push(...events.map(({ event }) => event))
    }
    await saying
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(ids.toSorted((one, other) => one - other))
    const { events } = await listen(session, responses(turns), { "last-event-id": "0" })
    const kept = events.filter(({ event }) => event !== "chunk").map(({ event }) => event)
    expect(names.filter((name) => name !== "chunk")).toEqual(kept)
  }, 120_000)

  test.skipIf(store !== "Postgres")(
    "a comment shows after 15 seconds of silence that the stream lives",
    async () => {
      const session = await newSession()
      const started = Date.now()
      const { text } = await listen(session, (_events, text) => text.includes(": ping\n"))
      expect(text).toBe("retry: 1000\nid: 0\n: ping\n")
      expect(Date.now() - started).toBeGreaterThan(14_000)
      expect(Date.now() - started).toBeLessThan(20_000)
    },
    30_000
  )

  test("GET /api/sessions/{id}/events: 400 for what is no number of an event", async () => {
    const session = await newSession()
    for (const wrong of ["x", "-1", "1.5", "9".repeat(16), "1 OR 1=1"]) {
      const headers = { "last-event-id": wrong }
      const byHeader = await runtime.mine("GET", `/api/sessions/${session}/events`, undefined, { headers })
      expect([wrong, byHeader.status, byHeader.body]).toEqual([wrong, 400, messageError])
      const byQuery = await runtime.mine("GET", `/api/sessions/${session}/events?after=${encodeURIComponent(wrong)}`)
      expect([wrong, byQuery.status, byQuery.body]).toEqual([wrong, 400, messageError])
    }
  })

  test("GET /api/sessions/{id}/events: 404 for a session that is not there, or of somebody else", async () => {
    const session = await newSession()
    expect(await runtime.foreign("GET", `/api/sessions/${session}/events`)).toMatchObject({
      status: 404,
      body: messageError
    })
    for (const id of ["nobody", "%20", "a".repeat(129)]) {
      expect(await runtime.mine("GET", `/api/sessions/${id}/events`)).toMatchObject({ status: 404, body: messageError })
    }
  })

  test("a stop ends streams, and its process soon after", async () => {
    const session = await newSession()
    const listening = listen(session, () => false)
    await sleep(300)
    const started = Date.now()
    expect(await runtime.service.terminate()).toBe(0)
    expect(Date.now() - started).toBeLessThan(30_000)
    expect((await listening).text).toBe("retry: 1000\nid: 0\n")
    await runtime.service.start()
  }, 120_000)

  // Keys are issued beside a running service on Postgres only.
  test.skipIf(store !== "Postgres")(
    "a key that is over ends its streams within 5 seconds",
    async () => {
      const { service } = runtime
      const session = await newSession()
      const expiresAt = Date.now() + 5_000
      const key = await issueKey(service, "mine", expiresAt)
      await streamOf(service.baseUrl, `/api/sessions/${session}/events`, key, () => false)
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAt - 50)
      expect(Date.now()).toBeLessThan(expiresAt + 5_000)
    },
    120_000
  )
})
