import { afterAll, beforeAll, expect, test } from "vitest"
import { stringify } from "yaml"
import { converse, type ConversationClient } from "../../fixtures/ConversationClient.ts"
import { everything } from "../../fixtures/mcp/Servers.ts"
import { text, toolCalls } from "../../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../../fixtures/openai/FakeOpenAi.ts"
import { every } from "../../fixtures/openai/Faults.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { apiOf, startRuntime, type RuntimeService } from "../../fixtures/RuntimeService.ts"
import { prepareService, type ServiceProcess } from "../../fixtures/ServiceProcess.ts"

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
const pdf = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n").toString("base64")

const env = { MCP_STDIO: "allowed", ALLOW_PRIVATE_UPSTREAMS: "true", API_AUTH: "required", DRAIN_DELAY: "0s" }

let vendor: FakeOpenAi
let first: RuntimeService
let second: ServiceProcess
let sockets: ReadonlyArray<ConversationClient> = []
beforeAll(async () => {
  vendor = await startFakeOpenAi({ strict: false })
  const databaseUrl = await freshDatabase("two-replicas")
  first = await startRuntime({ databaseUrl, env })
  second = await prepareService({ databaseUrl, env: { ...env, SECRETS_KEY: first.service.env["SECRETS_KEY"] ?? "" } })
  await second.start()
  const yaml = stringify({
    agentCard: { name: "Talker", description: "A test.", url: "http://localhost", version: "1.0.0" },
    systemPrompt: "Be brief.",
    mcpServers: { everything },
    llm: { provider: "openai-compatible", model: "fake", apiKey: vendor.apiKey, baseURL: vendor.baseUrl }
  })
  expect((await first.mine("POST", "/api/agent/config", { yaml })).status).toBe(200)
}, 120_000)
afterAll(async () => {
  await Promise.all(sockets.map((socket) => socket.close()))
  await first.service.remove()
  await second.remove()
  await vendor.close()
})

test("a turn is seen alike on two replicas, and approved on the one that does not run it", async () => {
  const session = crypto.randomUUID()
  sockets = await Promise.all([first.service.baseUrl, second.baseUrl].map((url) => converse(url, first.keys.mine)))
  const [here, there] = sockets
  if (here === undefined || there === undefined) throw new Error("there are no sockets")
  vendor.next(
    toolCalls([{ id: "call_1", name: "everything--echo", arguments: { message: "from afar" } }]),
    every(40)(text("A pixel, a contract, and an echo from afar."))
  )
  here.send({
    type: "message",
    content: "What are these? Echo it.",
    sessionId: session,
    stream: true,
    imageData: { base64: png, mimeType: "image/png" },
    fileData: { base64: pdf, mimeType: "application/pdf", filename: "contract.pdf" }
  })
  const { data } = await there.until(({ event }) => event === "approvalRequest")
  const answered = await apiOf(second.baseUrl, first.keys.mine)(
    "POST",
    `/api/approvals/${String(data["approvalId"])}`,
    {
      status: "approved"
    }
  )
  expect(answered.status).toBe(200)
  for (const socket of sockets) {
    expect((await socket.ended(session)).data["text"]).toBe("A pixel, a contract, and an echo from afar.")
  }
  const [seen, alsoSeen] = sockets.map(({ frames }) => frames.filter((frame) => frame.data["sessionId"] === session))
  expect(alsoSeen).toEqual(seen)
  expect(seen?.map(({ id }) => id)).toEqual(seen?.map((_, index) => index + 1))
  expect(seen?.map(({ event }) => event).filter((event) => event !== "chunk")).toEqual([
    "sessionTitleUpdated",
    "thinking",
    "toolCall",
    "approvalRequest",
    "toolResult",
    "thinking",
    "response"
  ])
  expect(seen?.filter(({ event }) => event === "chunk").length).toBeGreaterThan(3)
  const asked = JSON.stringify(vendor.requests[0]?.body.messages)
  expect(asked).toContain(`data:image/png;base64,${png}`)
  expect(asked).toContain(pdf)
  if (process.env["TRANSCRIPT"] !== undefined) console.log(seen?.map((frame) => JSON.stringify(frame)).join("\n"))
})
