import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { WebSocket } from "ws"
import { type ConversationClient, converse, type Frame } from "../../fixtures/ConversationClient.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"
import { frameOf, handshake, post, rawUpgrade } from "../../fixtures/Sockets.ts"

const idsOf = (frames: ReadonlyArray<Frame>, session: string): ReadonlyArray<number> =>
  frames.flatMap(({ data, id }) => (data["sessionId"] === session && id !== undefined ? [id] : []))

const namesOf = (frames: ReadonlyArray<Frame>): ReadonlyArray<string> => frames.map(({ event }) => event)

const upTo = (last: number, first = 1): ReadonlyArray<number> =>
  Array.from({ length: last - first + 1 }, (_, at) => first + at)

/** An agent that asks before it uses its tool. */
const careful = `agentCard:
  name: Careful
  description: A test.
  url: http://localhost
  version: 1.0.0
systemPrompt: Be careful.
internalTools: [save_memory]
toolConfirmation:
  mode: event-based
  timeout: 20000
llm:
  provider: service
  model: echo
  apiKey: ""
`

const newSession = () => crypto.randomUUID()

/** Decisions 6. */
describe.each(stores)("the WebSocket, on $store", ({ options }) => {
  let runtime: RuntimeService
  const open: Array<ConversationClient> = []
  beforeAll(async () => {
    runtime = await startRuntime({ ...(await options()), env: { CORS_ORIGINS: "https://listed.example" } })
  }, 120_000)
  afterAll(async () => {
    await Promise.all(open.map((client) => client.close()))
    await runtime.service.remove()
  })

  const connect = async (key = runtime.keys.mine): Promise<ConversationClient> => {
    const client = await converse(runtime.service.baseUrl, key)
    open.push(client)
    return client
  }

  describe("frames", () => {
    test("message: the whole turn, with chunks if they are wanted, numbered without gaps", async () => {
      const client = await connect()
      const session = newSession()
      client.send({ type: "subscribe", sessionId: session })
      client.send({ type: "message", content: "Some words to say", sessionId: session, stream: true })
      const end = await client.ended(session)
      expect(end.event).toBe("response")
      expect(end.data).toMatchObject({
        text: "Some words to say",
        provider: "service",
        model: "echo",
        router: "in-built",
        sessionId: session,
        tokenUsage: { totalTokens: expect.any(Number) }
      })
      expect(idsOf(client.frames, session)).toEqual(upTo(client.frames.length))
      const names = namesOf(client.frames)
      expect([...new Set(names)].toSorted()).toEqual(["chunk", "response", "sessionTitleUpdated", "thinking"])
      const chunks = client.frames.filter(({ event }) => event === "chunk")
      expect(chunks.map(({ data }) => data["content"]).join("")).toBe("Some words to say")

      client.send({ type: "message", content: "No chunks now", sessionId: session, stream: false })
      await client.ended(session, 2)
      expect(namesOf(client.frames).slice(names.length)).toEqual(["thinking", "response"])
    })

    test("message: what is sent while a turn runs is queued, and answered in order", async () => {
      const client = await connect()
      const session = newSession()
      client.send({ type: "subscribe", sessionId: session })
      for (const at of upTo(4)) client.send({ type: "message", content: `Number ${at}`, sessionId: session })
      await client.ended(session, 4, 30_000)
      const ends = client.frames.filter(({ event }) => event === "response")
      expect(ends.map(({ data }) => data["text"])).toEqual(upTo(4).map((at) => `Number ${at}`))
      expect(client.frames.filter(({ event }) => event === "messageQueued")[0]?.data).toEqual({
        sessionId: session,
        position: expect.any(Number)
      })
      expect(idsOf(client.frames, session)).toEqual(upTo(client.frames.length))
    })

    test("message: without a session it is of `default`; without content, or with what is no image, it is refused", async () => {
      const client = await connect()
      client.send({ type: "message", content: "Hello" })
      expect((await client.ended("default")).data["text"]).toBe("Hello")
      const session = newSession()
      const sizeless = { base64: "AAAA", mimeType: "image/png" }
      client.send({ type: "message", content: " ", sessionId: session })
      client.send({ type: "message", content: "Look", sessionId: session, imageData: sizeless })
      const refusals = () => client.frames.filter(({ id }) => id === undefined)
      await client.until(() => refusals().length === 2)
      for (const refusal of refusals()) {
        expect(refusal).toEqual({
          event: "error",
          data: {
            message: expect.stringMatching(/\S/u),
            code: "invalid_message",
            recoverable: true,
            sessionId: session
          }
        })
      }
      expect((await runtime.mine("GET", `/api/sessions/${session}`)).status).toBe(404)
    })

    test("reset: the conversation is forgotten, and all who listen know", async () => {
      const client = await connect()
      const session = newSession()
      client.send({ type: "subscribe", sessionId: session })
      client.send({ type: "message", content: "Hello", sessionId: session })
      await client.ended(session)
      client.send({ type: "reset", sessionId: session })
      expect((await client.until(({ event }) => event === "conversationReset")).data).toEqual({ sessionId: session })
      expect((await runtime.mine("GET", `/api/sessions/${session}/history`)).body).toMatchObject({ history: [] })
    })

    test("cancel: the running turn ends with one error; nothing happens where nothing runs", async () => {
      const client = await connect()
      const session = newSession()
      client.send({ type: "subscribe", sessionId: session })
      client.send({ type: "message", content: "word ".repeat(2_000), sessionId: session, stream: true })
      await client.until(({ event }) => event === "chunk")
      client.send({ type: "cancel", sessionId: session })
      expect((await client.ended(session)).data).toMatchObject({ code: "cancelled", recoverable: true })
      client.send({ type: "cancel", sessionId: session })
      client.send({ type: "cancel", sessionId: "of-nobody" })
      const refusal = await client.until(({ id }) => id === undefined)
      expect(refusal.data).toMatchObject({ code: "session_not_found", sessionId: "of-nobody" })
      expect(client.frames.filter(({ event }) => event === "error")).toHaveLength(2)
    })

    test("approvalResponse: lets the tool run, on whatever socket it is said", async () => {
      const { body } = await runtime.mine("POST", "/api/agent/config", { yaml: careful })
      expect(body).toMatchObject({ ok: true })
      const client = await connect()
      const other = await connect()
      const session = newSession()
      for (const each of [client, other]) each.send({ type: "subscribe", sessionId: session })
      client.send({ type: "message", content: "save_memory that I like tea", sessionId: session })
      const { data } = await other.until(({ event }) => event === "approvalRequest")
      expect(data).toMatchObject({
        type: "tool_confirmation",
        sessionId: session,
        metadata: { toolName: "save_memory" }
      })
      const { approvalId } = data
      other.send({
        type: "approvalResponse",
        data: { approvalId, status: "approved", data: { rememberChoice: false } }
      })
      const result = await client.until(({ event }) => event === "toolResult")
      expect(result.data).toMatchObject({ toolName: "save_memory", success: true })
      await client.ended(session)
      expect(namesOf(client.frames).filter((name) => name.startsWith("tool"))).toEqual(["toolCall", "toolResult"])
      other.send({ type: "approvalResponse", data: { approvalId, status: "denied" } })
      const refusal = await other.until(({ id }) => id === undefined)
      expect(refusal.data).toMatchObject({ code: "approval_not_found", recoverable: true })
    })

    test("subscribe: what was, from a number on, and what comes; of the sessions that were asked for only", async () => {
      const session = newSession()
      const another = newSession()
      await post(runtime.service.baseUrl, runtime.keys.mine, session, "First")
      const first = await connect()
      first.send({ type: "subscribe", sessionId: session, after: 0 })
      await first.ended(session)
      const last = idsOf(first.frames, session).at(-1) ?? 0
      expect(idsOf(first.frames, session)).toEqual(upTo(last))
      const second = await connect()
      second.send({ type: "subscribe", sessionId: session, after: 1 })
      second.send({ type: "subscribe", sessionId: another })
      await second.ended(session)
      expect(idsOf(second.frames, session)).toEqual(upTo(last, 2))
      await post(runtime.service.baseUrl, runtime.keys.mine, another, "Second")
      await second.ended(another)
      expect(idsOf(first.frames, another)).toEqual([])
      expect(idsOf(second.frames, another)).toEqual(upTo(idsOf(second.frames, another).length))
    })

    test("without any subscribe: all events of the workspace, and of no other", async () => {
      const mine = await connect()
      const foreign = await connect(runtime.keys.foreign)
      const sessions = [newSession(), newSession()]
      for (const session of sessions) await post(runtime.service.baseUrl, runtime.keys.mine, session, "Hello")
      for (const session of sessions) {
        await mine.ended(session)
        expect(idsOf(mine.frames, session)).toEqual(upTo(idsOf(mine.frames, session).length))
      }
      foreign.send({ type: "subscribe", sessionId: sessions[0], after: 0 })
      await sleep(500)
      expect(foreign.frames).toEqual([])
    })

    test("what happens to the agent is told to the whole workspace, without a number", async () => {
      const client = await connect()
      client.send({ type: "subscribe", sessionId: newSession() })
      const { body } = await runtime.mine("POST", "/api/agents/install", { id: "coding-agent" })
      expect(body).toMatchObject({ installed: true })
      const switched = await runtime.mine("POST", "/api/agents/switch", { id: "coding-agent" })
      expect(switched.status).toBe(200)
      const restarted = await client.until(({ event }) => event === "agentRestarted")
      expect(restarted).toEqual({
        event: "agentRestarted",
        data: { agentId: "coding-agent", changesApplied: expect.anything() }
      })
      await runtime.mine("POST", "/api/agents/switch", { id: "default-agent" })
    })

    test.each([
      ["no JSON", "{", "invalid_json"],
      ["an empty text", "", "invalid_json"],
      ["nested too deep", "[".repeat(100_000), "invalid_json"],
      ["a list", "[]", "invalid_frame"],
      ["no object", "7", "invalid_frame"],
      ["no type", "{}", "invalid_frame"],
      ["an unknown type", { type: "shout" }, "invalid_frame"],
      ["no content", { type: "message", sessionId: "s" }, "invalid_frame"],
      ["a text longer than any book", { type: "message", content: "x".repeat(1_000_001) }, "invalid_frame"],
      ["a field too many", { type: "message", content: "x", text: "y" }, "invalid_frame"],
      ["a field of another type", { type: "message", content: "x", stream: "yes" }, "invalid_frame"],
      ["an id that cannot be one", { type: "subscribe", sessionId: "a b" }, "invalid_frame"],
      ["a negative number", { type: "subscribe", sessionId: "s", after: -1 }, "invalid_frame"],
      ["half a number", { type: "subscribe", sessionId: "s", after: 0.5 }, "invalid_frame"],
      ["a huge number", '{"type":"subscribe","sessionId":"s","after":1e400}', "invalid_frame"],
      ["an unknown status", { type: "approvalResponse", data: { approvalId: "a", status: "maybe" } }, "invalid_frame"],
      ["NUL", { type: "message", content: "a\0b" }, "invalid_frame"],
      ["half a pair", '{"type":"message","content":"\\ud800"}', "invalid_frame"],
      ["a prototype", '{"type":"cancel","sessionId":"s","__proto__":{"x":1}}', "invalid_frame"]
    ])("%s gets an error event, and the socket stays usable", async (_what, frame, code) => {
      const client = await connect()
      client.send(frame)
      const refusal = await client.until(() => true)
      expect(refusal).toEqual({
        event: "error",
        data: { message: expect.stringMatching(/\S/u), code, recoverable: true }
      })
      client.send({ type: "cancel", sessionId: "of-nobody" })
      await client.until(({ data }) => data["code"] === "session_not_found")
      await client.close()
    })

    test("a binary frame gets an error event", async () => {
      const socket = new WebSocket(`${runtime.service.baseUrl.replace("http", "ws")}/ws`, {
        headers: { authorization: `Bearer ${runtime.keys.mine}` }
      })
      const answer = await new Promise((resolve) => {
        socket.on("open", () => socket.send(Buffer.from("{}"), { binary: true }))
        socket.on("message", (data) => resolve(frameOf(data)))
      })
      expect(answer).toMatchObject({ event: "error", data: { code: "invalid_frame" } })
      socket.close()
    })
  })

  describe("limits", () => {
    const attached = (bytes: number) => {
      const frame = {
        type: "message",
        content: "x",
        sessionId: "big",
        imageData: { base64: "", mimeType: "image/png" }
      }
      const base64 = "A".repeat(bytes - JSON.stringify(frame).length)
      return JSON.stringify({ ...frame, imageData: { ...frame.imageData, base64 } })
    }
    const plain = (bytes: number, fill = "a") => {
      const frame = { type: "message", content: "", sessionId: "of-nobody", other: 1 }
      return JSON.stringify({ ...frame, content: fill.repeat(bytes - JSON.stringify(frame).length) })
    }

    test("a frame of 1 MiB is read, and a longer one closes the socket", async () => {
      const client = await connect()
      client.send(plain(1024 * 1024))
      expect((await client.until(() => true)).data["code"]).toBe("invalid_frame")
      client.send(plain(1024 * 1024 + 1))
      expect(await client.closed).toBe(1009)
    })

    test("a longer one that only speaks of an attachment closes the socket", async () => {
      const client = await connect()
      client.send(JSON.stringify({ type: "message", content: `"imageData" ${"a".repeat(1024 * 1024)}` }))
      expect(await client.closed).toBe(1009)
    })

    test("one with an attachment is read up to 25 MB", async () => {
      const client = await connect()
      client.send(attached(25_000_000))
      expect((await client.until(() => true, 30_000)).data["code"]).toBe("invalid_message")
      client.send(attached(25_000_001))
      expect(await client.closed).toBe(1009)
    })

    test("a client that sends faster than it is served is served all the same, in order", async () => {
      const client = await connect()
      for (const at of upTo(500)) client.send({ type: "cancel", sessionId: `of-nobody-${at}` })
      await client.until(() => client.frames.length === 500, 30_000)
      expect(client.frames.map(({ data }) => data["sessionId"])).toEqual(upTo(500).map((at) => `of-nobody-${at}`))
    })
  })

  describe("who is let in", () => {
    const url = () => `${runtime.service.baseUrl}/ws`
    const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

    test.each(["/", "/ws", "/ws?from=somewhere"])("a key in the header, at %s", async (path) => {
      expect(await handshake(`${runtime.service.baseUrl}${path}`, bearer(runtime.keys.mine))).toMatchObject({
        status: 101
      })
    })

    test("a key among the sub-protocols, which is not said again", async () => {
      const { body, headers, status } = await handshake(url(), {}, ["gateway.v1", `bearer.${runtime.keys.mine}`])
      expect({ status, body }).toEqual({ status: 101, body: "gateway.v1" })
      expect(JSON.stringify(headers)).not.toContain(runtime.keys.mine)
    })

    test("nobody without a key, or with a wrong one", async () => {
      for (const [headers, protocols] of [
        [{}, []],
        [{}, ["gateway.v1"]],
        [bearer("sk-gw-wrong"), []],
        [{}, ["gateway.v1", "bearer.sk-gw-wrong"]]
      ] as const) {
        const { body, headers: answered, status } = await handshake(url(), headers, protocols)
        expect({ status, body }).toEqual({ status: 401, body: messageError })
        expect(answered["www-authenticate"]).toBe("Bearer")
        expect(answered["x-request-id"]).toMatch(/\S/u)
      }
    })

    test("pages of listed origins and of its own host, and no others", async () => {
      const from = (origin: string) => handshake(url(), { ...bearer(runtime.keys.mine), origin })
      expect((await from("https://listed.example")).status).toBe(101)
      expect((await from(runtime.service.baseUrl)).status).toBe(101)
      for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1"]) {
        expect(await from(origin)).toMatchObject({ status: 403, body: messageError })
      }
    })

    test("at no other path", async () => {
      for (const path of ["/sockets", "/api/ws", "/v1"]) {
        expect(await handshake(`${runtime.service.baseUrl}${path}`, bearer(runtime.keys.mine))).toMatchObject({
          status: 404
        })
      }
    })

    test("nobody who does not know how", async () => {
      const key = bearer(runtime.keys.mine)
      expect(await rawUpgrade(url(), key)).toBe(400)
      expect(await rawUpgrade(url(), { ...key, "sec-websocket-key": "short", "sec-websocket-version": "13" })).toBe(400)
      expect((await runtime.mine("GET", "/api/sessions")).status).toBe(200)
    })
  })
})
