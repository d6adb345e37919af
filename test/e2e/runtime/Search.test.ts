import { Effect, Schema } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { TurnJournal } from "../../../src/application/ports/storage/TurnJournal.ts"
import { SessionId } from "../../../src/domain/conversation/Session.ts"
import type { OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { exchanged, message, submission, turnIn } from "../../conformance/Conversation.ts"
import { betweenStarts } from "../../fixtures/Conversations.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { stores } from "../../fixtures/ServiceProcess.ts"

/** Section 2.10. */
const Hit = Schema.Struct({
  sessionId: Schema.String,
  message: Schema.Struct({
    role: Schema.Literals(["user", "assistant", "system", "tool"]),
    content: Schema.Union([Schema.String, Schema.Array(Schema.Json)])
  }),
  matchedText: Schema.String,
  context: Schema.String,
  messageIndex: Schema.Int
})

const Page = Schema.Struct({
  results: Schema.Array(Hit),
  total: Schema.Int,
  hasMore: Schema.Boolean,
  query: Schema.String,
  options: Schema.Struct({ limit: Schema.Int, offset: Schema.Int })
})

const Matches = Schema.Struct({
  results: Schema.Array(
    Schema.Struct({
      sessionId: Schema.String,
      matchCount: Schema.Int,
      firstMatch: Hit,
      metadata: Schema.Struct({ createdAt: Schema.Int, lastActivity: Schema.Int, messageCount: Schema.Int })
    })
  ),
  total: Schema.Int,
  hasMore: Schema.Boolean,
  query: Schema.String
})

const strict = { onExcessProperty: "error" } as const
const page = Schema.decodeUnknownSync(Page, strict)
const matches = Schema.decodeUnknownSync(Matches, strict)

const alpha = SessionId.make("alpha")
const beta = SessionId.make("beta")

const long = `${"before ".repeat(20)}the Ünique NEEDLE${" after".repeat(20)}`

const talk = (workspace: OrganizationId) =>
  Effect.gen(function* () {
    const journal = yield* TurnJournal
    yield* exchanged(workspace, alpha, "Deploy the service", "I will deploy it at 100% now")
    yield* exchanged(workspace, beta, "DEPLOY_ALL (a|b)* it's", long)
    const turn = turnIn(workspace, alpha)
    yield* journal.submit(turn, submission([{ type: "text", text: "parts to deploy" }]))
    yield* journal.record(turn, "tool", { messages: [message("deploy done", { role: "tool", toolCallId: "c" })] })
    yield* journal.finish(turn, "completed", { messages: [message("deploy notes", { role: "system" })] })
    const many = turnIn(workspace, SessionId.make("many"))
    yield* journal.submit(many, submission("begin"))
    for (let count = 0; count < 120; count++) {
      yield* journal.record(many, `${count}`, { messages: [message(`row ${count}`)] })
    }
    yield* journal.finish(many, "completed", {})
    for (let count = 0; count < 101; count++) {
      yield* exchanged(workspace, SessionId.make(`s${count}`), `everybody says this ${count}`, null)
    }
  })

/** Sections 4.4 and 2.10, decisions 8. */
describe.each(stores)("search, on $store", ({ options }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime(await options())
    await betweenStarts(runtime.service, "mine", talk)
  }, 240_000)
  afterAll(() => runtime.service.remove())

  const found = async (query: Readonly<Record<string, string>>) => {
    const { body, status } = await runtime.mine("GET", `/api/search/messages?${new URLSearchParams(query).toString()}`)
    expect(status).toBe(200)
    return page(body)
  }

  const texts = async (query: Readonly<Record<string, string>>) =>
    (await found(query)).results.map(({ messageIndex, sessionId }) => `${sessionId} ${messageIndex}`)

  test("GET /api/search/messages: 200 with hits of section 2.10, exact phrases first, then the newest", async () => {
    expect(await found({ q: "deploy" })).toEqual({
      results: [
        {
          sessionId: "alpha",
          message: { role: "system", content: "deploy notes" },
          matchedText: "deploy",
          context: "deploy notes",
          messageIndex: 4
        },
        {
          sessionId: "alpha",
          message: { role: "tool", content: "deploy done" },
          matchedText: "deploy",
          context: "deploy done",
          messageIndex: 3
        },
        {
          sessionId: "alpha",
          message: { role: "user", content: [{ type: "text", text: "parts to deploy" }] },
          matchedText: "deploy",
          context: "parts to deploy",
          messageIndex: 2
        },
        {
          sessionId: "alpha",
          message: { role: "assistant", content: "I will deploy it at 100% now" },
          matchedText: "deploy",
          context: "I will deploy it at 100% now",
          messageIndex: 1
        },
        {
          sessionId: "beta",
          message: { role: "user", content: "DEPLOY_ALL (a|b)* it's" },
          matchedText: "DEPLOY",
          context: "DEPLOY_ALL (a|b)* it's",
          messageIndex: 0
        },
        {
          sessionId: "alpha",
          message: { role: "user", content: "Deploy the service" },
          matchedText: "Deploy",
          context: "Deploy the service",
          messageIndex: 0
        }
      ],
      total: 6,
      hasMore: false,
      query: "deploy",
      options: { limit: 20, offset: 0 }
    })
    expect((await texts({ q: "Deploy" }))[0]).toBe("alpha 0")
  })

  test("GET /api/search/messages: 200 with up to 50 characters around a match", async () => {
    const { results } = await found({ q: "ünique needle" })
    expect(results).toMatchObject([
      {
        sessionId: "beta",
        matchedText: "Ünique NEEDLE",
        context: `${`${"before ".repeat(20)}the `.slice(-50)}Ünique NEEDLE${" after".repeat(20).slice(0, 50)}`,
        messageIndex: 1
      }
    ])
  })

  test("GET /api/search/messages: 200 for one session, one role, or both", async () => {
    expect(await texts({ q: "deploy", sessionId: "beta" })).toEqual(["beta 0"])
    expect(await texts({ q: "deploy", role: "user" })).toEqual(["alpha 2", "beta 0", "alpha 0"])
    expect(await texts({ q: "deploy", role: "tool" })).toEqual(["alpha 3"])
    expect(await texts({ q: "deploy", role: "system" })).toEqual(["alpha 4"])
    expect(await texts({ q: "deploy", role: "assistant", sessionId: "alpha" })).toEqual(["alpha 1"])
    expect(await texts({ q: "deploy", role: "assistant", sessionId: "beta" })).toEqual([])
    for (const sessionId of ["nobody", "two words", ""]) {
      expect(await found({ q: "deploy", sessionId })).toMatchObject({ results: [], total: 0, hasMore: false })
    }
  })

  test("GET /api/search/messages: 200 in pages, with the exact total of all", async () => {
    const rows = Array.from({ length: 120 }, (_, index) => `many ${120 - index}`)
    for (const [limit, offset] of [
      [100, 0],
      [50, 50],
      [20, 100],
      [20, 119],
      [1, 0],
      [20, 120],
      [20, 100_000]
    ] as const) {
      const {
        hasMore,
        options: shown,
        results,
        total
      } = await found({ q: "row", limit: `${limit}`, offset: `${offset}` })
      expect(results.map(({ messageIndex, sessionId }) => `${sessionId} ${messageIndex}`)).toEqual(
        rows.slice(offset, offset + limit)
      )
      expect({ hasMore, shown, total }).toEqual({
        hasMore: offset + limit < 120,
        shown: { limit, offset },
        total: 120
      })
    }
    expect(await found({ q: "row", offset: `${Number.MAX_SAFE_INTEGER}` })).toMatchObject({ results: [], total: 120 })
  })

  test("GET /api/search/messages: 200, with every character of the phrase taken for itself", async () => {
    expect(await texts({ q: "%" })).toEqual(["alpha 1"])
    expect(await texts({ q: "0% N" })).toEqual(["alpha 1"])
    expect(await texts({ q: "_" })).toEqual(["beta 0"])
    expect(await texts({ q: "(A|B)*" })).toEqual(["beta 0"])
    expect(await texts({ q: "it's" })).toEqual(["beta 0"])
    for (const q of [
      ".*",
      "deploy & service",
      "deploy OR",
      "'; DROP TABLE sessions; --",
      "\\",
      "deploy  the",
      "^Deploy",
      "$"
    ]) {
      expect([q, (await found({ q })).total]).toEqual([q, 0])
    }
  })

  test("GET /api/search/messages: 200 without anything of another workspace", async () => {
    const { body, status } = await runtime.foreign("GET", "/api/search/messages?q=deploy&sessionId=alpha")
    expect([status, page(body).total]).toEqual([200, 0])
    expect((await runtime.foreign("GET", "/api/search/messages?q=deploy")).body).toMatchObject({
      results: [],
      total: 0
    })
  })

  test("GET /api/search/messages: 400 without a phrase, or for a parameter that is wrong", async () => {
    for (const query of [
      "",
      "q=",
      "q=a&role=nobody",
      "q=a&limit=0",
      "q=a&limit=101",
      "q=a&limit=-1",
      "q=a&limit=1.5",
      "q=a&limit=ten",
      "q=a&limit=1e12",
      "q=a&limit=NaN",
      "q=a&offset=-1",
      "q=a&offset=x",
      "q=%00",
      `q=${"a".repeat(1_001)}`
    ]) {
      const refused = await runtime.mine("GET", `/api/search/messages?${query}`)
      expect([query, refused.status, refused.body]).toEqual([query, 400, messageError])
    }
    expect((await found({ q: "a".repeat(1_000) })).total).toBe(0)
  })

  test("GET /api/search/sessions: 200 with the sessions that have it, those with the newest match first", async () => {
    const { body, status } = await runtime.mine("GET", "/api/search/sessions?q=DEPLOY")
    expect(status).toBe(200)
    const found = matches(body)
    expect(found).toMatchObject({ total: 2, hasMore: false, query: "DEPLOY" })
    expect(found.results).toEqual([
      {
        sessionId: "alpha",
        matchCount: 5,
        firstMatch: {
          sessionId: "alpha",
          message: { role: "user", content: "Deploy the service" },
          matchedText: "Deploy",
          context: "Deploy the service",
          messageIndex: 0
        },
        metadata: { createdAt: expect.any(Number), lastActivity: expect.any(Number), messageCount: 5 }
      },
      {
        sessionId: "beta",
        matchCount: 1,
        firstMatch: expect.objectContaining({ sessionId: "beta", matchedText: "DEPLOY", messageIndex: 0 }),
        metadata: expect.objectContaining({ messageCount: 2 })
      }
    ])
    const { sessions } = Schema.decodeUnknownSync(
      Schema.Struct({ sessions: Schema.Array(Schema.Struct({ id: Schema.String, createdAt: Schema.Int })) })
    )((await runtime.mine("GET", "/api/sessions")).body)
    expect(sessions.find(({ id }) => id === "alpha")?.createdAt).toBe(found.results[0]?.metadata.createdAt)
  })

  test("GET /api/search/sessions: 200 with a hundred sessions and the total of all", async () => {
    const found = matches((await runtime.mine("GET", "/api/search/sessions?q=everybody")).body)
    expect(found).toMatchObject({ total: 101, hasMore: true })
    expect(found.results.map(({ sessionId }) => sessionId)).toEqual(
      Array.from({ length: 100 }, (_, index) => `s${100 - index}`)
    )
    expect((await runtime.foreign("GET", "/api/search/sessions?q=everybody")).body).toEqual({
      results: [],
      total: 0,
      hasMore: false,
      query: "everybody"
    })
  })

  test("GET /api/search/sessions: 400 without a phrase", async () => {
    for (const query of ["", "q=", "q=%00", `q=${"a".repeat(1_001)}`]) {
      const refused = await runtime.mine("GET", `/api/search/sessions?${query}`)
      expect([query, refused.status, refused.body]).toEqual([query, 400, messageError])
    }
  })
})
