import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type {
  McpConnection,
  McpElicitor,
  McpForm,
  McpFormAnswer
} from "../../../src/application/ports/mcp/McpConnector.ts"
import type { McpServerConfig } from "../../../src/domain/agent/AgentConfig.ts"
import { failure, startConnector } from "../../fixtures/mcp/Connector.ts"
import { asking, everything, everythingOver, type HttpServer } from "../../fixtures/mcp/Servers.ts"

const connector = startConnector()
const { run } = connector
let sse: HttpServer
let http: HttpServer

beforeAll(async () => {
  ;[sse, http] = await Promise.all([everythingOver("sse"), everythingOver("streamableHttp")])
})

afterAll(async () => {
  await connector.stop()
  await Promise.all([sse.stop(), http.stop()])
})

/** Somebody who answers so, after a time. */
const somebody = (answer: McpFormAnswer, millis = 0, whom = "ann") => {
  const forms: Array<McpForm> = []
  const elicitor: McpElicitor = {
    whom,
    ask: (form) =>
      Effect.delay(
        Effect.sync(() => (forms.push(form), answer)),
        millis
      )
  }
  return { forms, elicitor }
}

const ann = (millis = 0) => somebody({ action: "accept", content: { name: "Ann" } }, millis)

const accepted = [{ action: "accept", content: { name: "Ann" } }]

describe.each<{ over: string; config: () => McpServerConfig }>([
  { over: "stdio", config: () => everything },
  { over: "SSE", config: () => ({ type: "sse", url: sse.url }) },
  { over: "streamable HTTP", config: () => ({ type: "http", url: http.url }) }
])("the reference server over $over", ({ config }) => {
  test("asks a person during a call, and gets the form as it was filled in", async () => {
    const { close, connection } = await connector.connect(config())
    const { elicitor, forms } = somebody({ action: "accept", content: { name: "Ann", age: null, check: true } })
    await sleep(200)
    const { content } = await run(connection.callTool("trigger-elicitation-request", {}, elicitor))
    expect(forms).toEqual([
      { message: expect.stringMatching(/\S/u), schema: expect.objectContaining({ type: "object" }) }
    ])
    const text = JSON.stringify(content)
    expect(text).toContain("Ann")
    expect(text).toContain("accept")
    const { elicitor: nobody } = somebody({ action: "decline" })
    expect(JSON.stringify((await run(connection.callTool("trigger-elicitation-request", {}, nobody))).content)).toMatch(
      /declin/iu
    )
    await close()
  })
})

describe("a server that asks", () => {
  let connection: McpConnection
  beforeAll(async () => {
    ;({ connection } = await connector.connect(asking, 1_000))
  })

  const ask = async (
    questions: ReadonlyArray<string>,
    elicitor: McpElicitor | undefined,
    before = 0
  ): Promise<unknown> => {
    const { content } = await run(connection.callTool("ask", { questions, before }, elicitor))
    return JSON.parse(String(content[0]?.["text"]))
  }

  test("says which of its tools may be repeated", async () => {
    expect((await run(connection.tools)).map(({ isIdempotent, name }) => [name, isIdempotent])).toEqual([
      ["ask", false],
      ["wait", true],
      ["late", true],
      ["last", false]
    ])
  })

  test("waits for a person for longer than its deadline, and then has the rest of it", async () => {
    const { elicitor } = ann(1_500)
    expect(await ask(["one", "two"], elicitor, 300)).toEqual([...accepted, ...accepted])
    const { elicitor: quick } = ann(50)
    const late = await failure(run(connection.callTool("ask", { questions: ["one"], before: 1_500 }, quick)))
    expect(late.reason).toBe("deadline")
  })

  test("is told that its question was declined when there is nobody to ask, or after the call", async () => {
    expect(await ask(["anybody?"], undefined)).toEqual([{ action: "decline" }])
    const { elicitor, forms } = ann()
    await run(connection.callTool("late", {}, elicitor))
    await sleep(200)
    const { content } = await run(connection.callTool("last", {}))
    expect(content).toEqual([{ type: "text", text: '{"action":"decline"}' }])
    expect(forms).toEqual([])
  })

  test("asks nobody while it is not clear for whom: calls of two persons, or of nobody", async () => {
    for (const other of [somebody({ action: "decline" }, 0, "bob").elicitor, undefined]) {
      const { elicitor, forms } = ann()
      const waiting = run(connection.callTool("wait", { before: 600 }, other))
      await sleep(100)
      expect(await ask(["who?"], elicitor)).toEqual([{ action: "decline" }])
      expect(forms).toEqual([])
      await waiting
      expect(await ask(["who?"], elicitor)).toEqual(accepted)
    }
  })

  test("asks the one person of calls that run at the same time; none of them is late meanwhile", async () => {
    const { elicitor } = ann(1_200)
    const waiting = run(connection.callTool("wait", { before: 900 }, elicitor))
    await sleep(50)
    expect(await ask(["who?"], elicitor)).toEqual(accepted)
    expect((await waiting).isError).toBe(false)
  })

  test("asks twenty questions in a call, and no more", async () => {
    const { elicitor, forms } = ann()
    const questions = Array.from({ length: 23 }, (_, index) => `question ${index}`)
    const answers = await ask(questions, elicitor)
    expect(answers).toHaveLength(23)
    expect(answers).toEqual([...Array(20).fill(accepted[0]), ...Array(3).fill({ action: "decline" })])
    expect(forms.map(({ message }) => message)).toEqual(questions.slice(0, 20))
  })

  test("gets an error for a form that was filled in with what no form can have", async () => {
    const { elicitor } = somebody({ action: "accept", content: { name: { first: "Ann" } } })
    expect(await ask(["who?"], elicitor)).toEqual([
      { code: expect.any(Number), message: expect.stringMatching(/form/u) }
    ])
  })

  test("is left alone when its call is given up while a person is asked", async () => {
    let ended = false
    const elicitor: McpElicitor = {
      whom: "ann",
      ask: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (ended = true)))
    }
    const stop = new AbortController()
    const given = run(connection.callTool("ask", { questions: ["who?"] }, elicitor), { signal: stop.signal })
    await sleep(300)
    stop.abort()
    await expect(given).rejects.toThrow()
    expect(ended).toBe(true)
    expect(await ask(["who?"], ann().elicitor)).toEqual(accepted)
  })
})

test("what a server was given as secrets is not in its tools' answers, however deep; other settings are", async () => {
  const env = { SERVICE_TOKEN: "opensesame-42", DATA_HOME: "/srv/data-home" }
  const { close, connection } = await connector.connect({
    ...everything,
    type: "stdio",
    command: process.execPath,
    env
  })
  const { content } = await run(connection.callTool("get-env", {}))
  const text = JSON.stringify(content)
  expect(text).not.toContain("opensesame-42")
  expect(text).toContain("[redacted]")
  expect(text).toContain("/srv/data-home")
  await close()
})
