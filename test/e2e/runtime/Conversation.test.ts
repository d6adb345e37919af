import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { stringify } from "yaml"
import { converse, type ConversationClient, type Frame } from "../../fixtures/ConversationClient.ts"
import { everything } from "../../fixtures/mcp/Servers.ts"
import { text, toolCalls } from "../../fixtures/openai/Completions.ts"
import * as Errors from "../../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../../fixtures/openai/FakeOpenAi.ts"
import { after, cutAfter, every, hangAfter } from "../../fixtures/openai/Faults.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64"
)
const pdf = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")

/** Section 4.9 and decisions 6, with a real MCP server and a vendor's wire. */
describe.each(stores)("conversation, on $store", ({ options }) => {
  let runtime: RuntimeService
  let vendor: FakeOpenAi
  let client: ConversationClient

  const agent = (more: object = {}, llm: object = {}) =>
    stringify({
      agentCard: { name: "Talker", description: "A test.", url: "http://localhost", version: "1.0.0" },
      greeting: "Good day.",
      systemPrompt: "Be brief.",
      internalTools: ["ask_user", "search_history", "save_memory", "search_memory"],
      mcpServers: { everything },
      llm: {
        provider: "openai-compatible",
        model: "fake",
        apiKey: vendor.apiKey,
        baseURL: vendor.baseUrl,
        ...llm
      },
      toolConfirmation: { mode: "auto-approve" },
      ...more
    })

  const configure = async (more: object = {}, llm: object = {}) => {
    const saved = await runtime.mine("POST", "/api/agent/config", { yaml: agent(more, llm) })
    expect([saved.status, saved.body]).toEqual([200, expect.objectContaining({ ok: true })])
  }

  beforeAll(async () => {
    vendor = await startFakeOpenAi({ strict: false })
    runtime = await startRuntime({
      ...(await options()),
      env: { MCP_STDIO: "allowed", ALLOW_PRIVATE_UPSTREAMS: "true" }
    })
    await configure()
    client = await converse(runtime.service.baseUrl, runtime.keys.mine)
  }, 120_000)
  afterAll(async () => {
    await client.close()
    await runtime.service.remove()
    await vendor.close()
  })
  beforeEach(() => vendor.clear())

  const newSession = () => crypto.randomUUID()
  const send = async (sessionId: string, message: string, more: object = {}) => {
    const sent = await runtime.mine("POST", "/api/message", { message, sessionId, ...more })
    expect([sent.status, sent.body]).toEqual([202, { status: "processing", sessionId }])
  }
  const of = (session: string): ReadonlyArray<Frame> =>
    client.frames.filter(({ data }) => data["sessionId"] === session)
  const namesOf = (session: string) => of(session).map(({ event }) => event)
  const historyOf = async (session: string) => {
    const { body, status } = await runtime.mine("GET", `/api/sessions/${session}/history`)
    expect(status).toBe(200)
    return body as { history: ReadonlyArray<Record<string, unknown>>; isBusy: boolean }
  }
  const lastRequest = () => JSON.stringify(vendor.requests.at(-1)?.body.messages)

  describe("messages", () => {
    test("POST /api/message: 202 and the answer comes over the WebSocket, in chunks if they are wanted", async () => {
      const session = newSession()
      vendor.next(every(30)(text("one two three four five six")))
      await send(session, "Count", { stream: true })
      const end = await client.ended(session)
      expect(end).toEqual({
        event: "response",
        id: expect.any(Number),
        data: {
          text: "one two three four five six",
          tokenUsage: { inputTokens: 12, outputTokens: 6, reasoningTokens: 0, totalTokens: 18 },
          provider: "openai-compatible",
          model: "fake",
          router: "in-built",
          sessionId: session
        }
      })
      const frames = of(session)
      expect(frames.map(({ id }) => id)).toEqual(frames.map((_, index) => index + 1))
      const chunks = frames.filter(({ event }) => event === "chunk")
      expect(chunks.length).toBeGreaterThan(2)
      expect(chunks.map(({ data }) => data["content"]).join("")).toBe("one two three four five six")
      expect(frames.map(({ event }) => event).filter((event) => event !== "chunk")).toEqual([
        "sessionTitleUpdated",
        "thinking",
        "response"
      ])
    })

    test("POST /api/message-sync: 202 and the answer comes without chunks", async () => {
      const sent = await runtime.mine("POST", "/api/message-sync", { message: "Hello", stream: true })
      expect([sent.status, sent.body]).toEqual([202, { status: "processing", sessionId: "default" }])
      expect((await client.ended("default")).data["text"]).toBe("Hello from the fake.")
      expect(namesOf("default")).not.toContain("chunk")
    })

    const refused: ReadonlyArray<readonly [string, unknown]> = [
      ["no body", ""],
      ["no message", {}],
      ["an empty message", { message: "" }],
      ["a message of nothing", { message: " \n" }],
      ["a message that is no text", { message: 1 }],
      ["a message longer than any book", { message: "x".repeat(1_000_001) }],
      ["a session that cannot be", { message: "x", sessionId: "a b" }],
      ["an image that is no base64", { message: "x", imageData: { base64: "%", mimeType: "image/png" } }],
      ["an image without its type", { message: "x", imageData: { base64: png.toString("base64") } }],
      ["an image that is none", { message: "x", imageData: { base64: "aGVsbG8=", mimeType: "image/png" } }],
      [
        "an image that is another",
        { message: "x", imageData: { base64: png.toString("base64"), mimeType: "image/gif" } }
      ],
      [
        "a file of a type that nobody takes",
        { message: "x", fileData: { base64: "aGVsbG8=", mimeType: "text/x-evil" } }
      ],
      ["a PDF that is none", { message: "x", fileData: { base64: "aGVsbG8=", mimeType: "application/pdf" } }],
      ["an empty file", { message: "x", fileData: { base64: "", mimeType: "application/pdf" } }]
    ]
    const refuses = async (path: string, body: unknown) => {
      const answer = await runtime.mine("POST", path, body)
      expect([answer.status, answer.body]).toEqual([400, messageError])
    }
    const refusesMuch = async (path: string) => {
      const answer = await runtime.mine("POST", path, { message: "x".repeat(56 * 1024 * 1024) })
      expect([answer.status, answer.body]).toEqual([413, messageError])
    }

    test.each(refused)("POST /api/message: 400 for %s", (_, body) => refuses("/api/message", body))
    test.each(refused)("POST /api/message-sync: 400 for %s", (_, body) => refuses("/api/message-sync", body))
    test("POST /api/message: 413 for more than the attachments of one message", () => refusesMuch("/api/message"))
    test("POST /api/message-sync: 413 for more than the attachments of one message", () =>
      refusesMuch("/api/message-sync"))

    test("an attachment over 20 MB is refused, one of 20 MB is taken", async () => {
      const image = (bytes: number) => ({
        base64: Buffer.concat([png, Buffer.alloc(bytes - png.length)]).toString("base64"),
        mimeType: "image/png"
      })
      const most = 20 * 1024 * 1024
      const refusedOne = await runtime.mine("POST", "/api/message", { message: "x", imageData: image(most + 1) })
      expect([refusedOne.status, refusedOne.body]).toEqual([400, messageError])
      const session = newSession()
      await send(session, "Look", { imageData: image(most) })
      expect((await client.ended(session, 1, 30_000)).event).toBe("response")
    })

    test("an image and a PDF reach the model, and stay in the history as blobs", async () => {
      const session = newSession()
      await send(session, "What are these?", {
        imageData: { base64: png.toString("base64"), mimeType: "image/png" },
        fileData: { base64: pdf.toString("base64"), mimeType: "application/pdf", filename: "terms.pdf" }
      })
      expect((await client.ended(session)).event).toBe("response")
      const request = lastRequest()
      expect(request).toContain(`data:image/png;base64,${png.toString("base64")}`)
      expect(request).toContain(pdf.toString("base64"))
      const [asked] = (await historyOf(session)).history
      expect(asked?.["content"]).toEqual([
        { type: "text", text: "What are these?" },
        { type: "image", image: expect.stringMatching(/^blob:/u), mimeType: "image/png" },
        { type: "file", data: expect.stringMatching(/^blob:/u), mimeType: "application/pdf", filename: "terms.pdf" }
      ])
    })

    test("are answered one after the other in a session, which says who waits", async () => {
      const session = newSession()
      vendor.next(after(300)(text("first")), text("second"), text("third"))
      for (const message of ["1", "2", "3"]) await send(session, message)
      expect((await historyOf(session)).isBusy).toBe(true)
      await client.ended(session, 3)
      const frames = of(session)
      expect(frames.filter(({ event }) => event === "response").map(({ data }) => data["text"])).toEqual([
        "first",
        "second",
        "third"
      ])
      expect(frames.filter(({ event }) => event === "messageQueued").map(({ data }) => data["position"])).toEqual([
        1, 2
      ])
      const { history, isBusy } = await historyOf(session)
      expect(history.map(({ content }) => content)).toEqual(["1", "first", "2", "second", "3", "third"])
      expect(isBusy).toBe(false)
    })
  })

  describe("tools", () => {
    const adding = (a: number, b: number, id: string) => ({ id, name: "everything--get-sum", arguments: { a, b } })

    test("run, and the model and the listeners are told what they gave", async () => {
      const session = newSession()
      vendor.next(toolCalls([adding(1, 2, "call_1"), adding(3, 4, "call_2")]), text("3 and 7"))
      await send(session, "Add")
      const end = await client.ended(session)
      expect(end.data["text"]).toBe("3 and 7")
      expect(namesOf(session)).toEqual([
        "sessionTitleUpdated",
        "thinking",
        "toolCall",
        "toolCall",
        "toolResult",
        "toolResult",
        "thinking",
        "response"
      ])
      const results = of(session).filter(({ event }) => event === "toolResult")
      expect(results.map(({ data }) => data)).toEqual(
        expect.arrayContaining(
          [
            ["call_1", "The sum of 1 and 2 is 3."],
            ["call_2", "The sum of 3 and 4 is 7."]
          ].map(([callId, told]) => ({
            toolName: "everything--get-sum",
            callId,
            success: true,
            sanitized: { content: [{ type: "text", text: told }], meta: expect.any(Object) },
            sessionId: session
          }))
        )
      )
      expect(lastRequest()).toContain("The sum of 3 and 4 is 7.")
      const { history } = await historyOf(session)
      expect(history.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "tool", "assistant"])
    })

    test("of which the model is told that it has them", async () => {
      const session = newSession()
      await send(session, "Hi")
      await client.ended(session)
      const names = vendor.requests.at(-1)?.body.tools?.map((tool) => ("function" in tool ? tool.function.name : ""))
      expect(names).toEqual(
        expect.arrayContaining(["everything--echo", "everything--get-sum", "ask_user", "save_memory"])
      )
    })

    test("of the service remember what they are told to", async () => {
      const session = newSession()
      vendor.next(
        toolCalls([{ name: "save_memory", arguments: { content: "The user likes teal." } }]),
        toolCalls([{ name: "search_memory", arguments: { query: "teal" } }]),
        text("Teal.")
      )
      await send(session, "I like teal.")
      expect((await client.ended(session)).event).toBe("response")
      expect(lastRequest()).toContain("The user likes teal.")
      expect((await runtime.mine("GET", "/api/memory")).text).toContain("The user likes teal.")
    })
  })

  describe("approvals", () => {
    beforeAll(() =>
      configure({ toolConfirmation: { mode: "event-based", timeout: 60_000, allowedToolsStorage: "memory" } })
    )
    afterAll(() => configure())

    const asked = async (session: string) => {
      vendor.next(toolCalls([{ name: "everything--echo", arguments: { message: "psst" } }]), text("Said."))
      await send(session, "Say psst")
      const request = await client.until(
        ({ data, event }) => event === "approvalRequest" && data["sessionId"] === session
      )
      return request.data
    }
    const answer = (id: unknown, body: unknown) => runtime.mine("POST", `/api/approvals/${String(id)}`, body)

    test("GET /api/approvals: 200 with those that wait, and POST /api/approvals/{id}: 200 lets the tool run", async () => {
      const session = newSession()
      const request = await asked(session)
      expect(request).toEqual({
        approvalId: expect.any(String),
        type: "tool_confirmation",
        sessionId: session,
        timeout: 60_000,
        timestamp: expect.any(Number),
        metadata: { toolName: "everything--echo", args: { message: "psst" }, callId: expect.any(String) }
      })
      const listed = await runtime.mine("GET", `/api/approvals?sessionId=${session}`)
      expect([listed.status, listed.body]).toEqual([
        200,
        { ok: true, approvals: [{ ...request, turnId: expect.any(String) }] }
      ])
      expect((await runtime.foreign("GET", "/api/approvals")).body).toEqual({ ok: true, approvals: [] })
      expect((await runtime.mine("GET", "/api/approvals?sessionId=other")).body).toEqual({ ok: true, approvals: [] })
      const answered = await answer(request["approvalId"], { status: "approved" })
      expect([answered.status, answered.body]).toEqual([
        200,
        { ok: true, approvalId: request["approvalId"], status: "approved" }
      ])
      expect((await client.ended(session)).data["text"]).toBe("Said.")
      expect(lastRequest()).toContain("Echo: psst")
    })

    test("POST /api/approvals/{id}: 200 for a denial, which the model is told", async () => {
      const session = newSession()
      const { approvalId } = await asked(session)
      expect((await answer(approvalId, { status: "denied" })).status).toBe(200)
      await client.ended(session)
      expect(lastRequest()).not.toContain("Echo: psst")
      expect(lastRequest()).toContain("not approved")
    })

    test("POST /api/approvals/{id}: 404 for one that was answered, another organization's, or none", async () => {
      const session = newSession()
      const { approvalId } = await asked(session)
      const foreign = await runtime.foreign("POST", `/api/approvals/${String(approvalId)}`, { status: "approved" })
      expect([foreign.status, foreign.body]).toEqual([404, messageError])
      expect((await answer(approvalId, { status: "cancelled" })).status).toBe(200)
      for (const id of [approvalId, "nobody", "%00", "a".repeat(300)]) {
        const again = await answer(id, { status: "approved" })
        expect([again.status, again.body]).toEqual([404, messageError])
      }
      await client.ended(session)
    })

    test("POST /api/approvals/{id}: 400 for an answer that is none", async () => {
      for (const body of ["", {}, { status: "maybe" }, { status: "approved", rememberChoice: "yes" }]) {
        const refused = await answer("any", body)
        expect([refused.status, refused.body]).toEqual([400, messageError])
      }
    })

    test("POST /api/approvals/{id}: 413 for more than 1 MiB", async () => {
      const refused = await answer("any", { status: "approved", formData: { text: "x".repeat(1024 * 1024) } })
      expect([refused.status, refused.body]).toEqual([413, messageError])
    })

    test("a remembered one is not asked for again in its session", async () => {
      const session = newSession()
      const { approvalId } = await asked(session)
      await answer(approvalId, { status: "approved", rememberChoice: true })
      await client.ended(session)
      vendor.next(toolCalls([{ name: "everything--echo", arguments: { message: "again" } }]), text("Again."))
      await send(session, "And again")
      expect((await client.ended(session, 2)).data["text"]).toBe("Again.")
      expect(namesOf(session).filter((event) => event === "approvalRequest")).toHaveLength(1)
    })

    test("over the WebSocket", async () => {
      const session = newSession()
      const { approvalId } = await asked(session)
      client.send({ type: "approvalResponse", data: { approvalId, status: "approved" } })
      expect((await client.ended(session)).data["text"]).toBe("Said.")
      expect(lastRequest()).toContain("Echo: psst")
    })

    test("a form of the agent is filled in", async () => {
      const session = newSession()
      vendor.next(toolCalls([{ name: "ask_user", arguments: { question: "Which colour?" } }]), text("Noted."))
      await send(session, "Ask me")
      const { data } = await client.until(
        (frame) => frame.event === "approvalRequest" && frame.data["sessionId"] === session
      )
      expect(data["type"]).toBe("elicitation")
      client.send({
        type: "approvalResponse",
        data: { approvalId: data["approvalId"], status: "approved", data: { formData: { answer: "crimson" } } }
      })
      expect((await client.ended(session)).data["text"]).toBe("Noted.")
      expect(lastRequest()).toContain("crimson")
    })
  })

  describe("what goes wrong", () => {
    test("before the first byte is tried again, and nobody notices", async () => {
      const session = newSession()
      vendor.next(Errors.overloaded, text("There."))
      await send(session, "Hi")
      expect((await client.ended(session)).data["text"]).toBe("There.")
    })

    test("in the middle of an answer is one error, and the session can be used at once", async () => {
      const session = newSession()
      vendor.next(cutAfter(3)(text("one two three four five six seven")))
      await send(session, "Hi", { stream: true })
      const end = await client.ended(session)
      expect(end).toMatchObject({
        event: "error",
        data: { code: "upstream_error", recoverable: true, message: expect.any(String), sessionId: session }
      })
      await send(session, "Again")
      expect((await client.ended(session, 2)).event).toBe("response")
    })

    test("a key that the vendor refuses is told, without the key", async () => {
      const session = newSession()
      vendor.next(Errors.wrongKey("sk-secret-1234"))
      await send(session, "Hi")
      const end = await client.ended(session)
      expect(end.event).toBe("error")
      expect(JSON.stringify(end)).not.toContain("sk-secret-1234")
    })

    test("POST /api/sessions/{id}/cancel: 200 ends a turn within a second, and the vendor's connection", async () => {
      const session = newSession()
      vendor.next(hangAfter(3)(text("one two three four five six")))
      const arrival = vendor.arrival()
      await send(session, "Hi", { stream: true })
      const { ended } = await arrival
      await client.until(({ data, event }) => event === "chunk" && data["sessionId"] === session)
      const began = Date.now()
      const cancelled = await runtime.mine("POST", `/api/sessions/${session}/cancel`)
      expect(cancelled.body).toEqual({ cancelled: true, sessionId: session })
      expect(await client.ended(session)).toMatchObject({ event: "error", data: { code: "cancelled" } })
      await ended
      expect(Date.now() - began).toBeLessThan(1_500)
    })

    test("POST /api/reset: 200 ends what runs, and the messages are forgotten", async () => {
      const session = newSession()
      vendor.next(hangAfter(3)(text("one two three four five six")))
      const arrival = vendor.arrival()
      await send(session, "Hi")
      const { ended } = await arrival
      const reset = await runtime.mine("POST", "/api/reset", { sessionId: session })
      expect([reset.status, reset.body]).toEqual([200, { status: "reset initiated", sessionId: session }])
      await client.until(({ data, event }) => event === "conversationReset" && data["sessionId"] === session)
      expect(namesOf(session).slice(-2)).toEqual(["error", "conversationReset"])
      await ended
      expect(await historyOf(session)).toEqual({ history: [], isBusy: false })
      await send(session, "Again")
      expect((await client.ended(session, 2)).event).toBe("response")
    })

    test("POST /api/reset: 200 without a body is of the session `default`", async () => {
      const reset = await runtime.mine("POST", "/api/reset")
      expect([reset.status, reset.body]).toEqual([200, { status: "reset initiated", sessionId: "default" }])
    })

    test("POST /api/reset: 400 for a session that cannot be", async () => {
      const refused = await runtime.mine("POST", "/api/reset", { sessionId: "" })
      expect([refused.status, refused.body]).toEqual([400, messageError])
    })

    test("POST /api/reset: 413 for more than 1 MiB", async () => {
      const refused = await runtime.mine("POST", "/api/reset", { sessionId: "x".repeat(1024 * 1024) })
      expect([refused.status, refused.body]).toEqual([413, messageError])
    })

    test("an agent that asks for tools for ever is stopped", async () => {
      await configure({}, { maxIterations: 2 })
      const session = newSession()
      vendor.respond(toolCalls([{ name: "everything--echo", arguments: { message: "more" } }]))
      await send(session, "Go")
      expect(await client.ended(session)).toMatchObject({ event: "error", data: { code: "max_iterations" } })
      expect(vendor.requests).toHaveLength(2)
      await configure()
    })
  })

  test("GET /api/greeting: 200 with what the agent says, or nothing", async () => {
    expect((await runtime.mine("GET", "/api/greeting")).body).toEqual({ greeting: "Good day." })
    await configure({ greeting: undefined })
    const { body, status } = await runtime.mine("GET", "/api/greeting")
    expect([status, body]).toEqual([200, {}])
    await configure()
  })

  test("the gateway's own models answer, paid by who sends the message", async () => {
    await configure({}, { provider: "service", model: "echo", apiKey: "", baseURL: undefined })
    const session = newSession()
    await send(session, "Repeat me")
    expect((await client.ended(session)).data["text"]).toBe("Repeat me")
    const { text: summary } = await runtime.mine("GET", "/v1/billing/summary")
    expect(summary).toContain('"echo"')
    await configure()
  })

  test("the other router answers alike", async () => {
    await configure({}, { router: "external-sdk" })
    const session = newSession()
    vendor.next(toolCalls([{ id: "call_1", name: "everything--get-sum", arguments: { a: 1, b: 2 } }]), text("3"))
    await send(session, "Add")
    const end = await client.ended(session)
    expect(end).toMatchObject({ event: "response", data: { text: "3", router: "external-sdk" } })
    expect(lastRequest()).toContain("The sum of 1 and 2 is 3.")
    await configure()
  })
})
