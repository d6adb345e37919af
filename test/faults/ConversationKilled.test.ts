import { setTimeout as sleep } from "node:timers/promises"
import { afterEach, describe, expect, test } from "vitest"
import { stringify } from "yaml"
import { converse, type ConversationClient, endsTurn, type Frame } from "../fixtures/ConversationClient.ts"
import { type CountingServer, startCounting } from "../fixtures/mcp/Counting.ts"
import { text, toolCalls } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import type { Answer, ReceivedRequest } from "../fixtures/openai/Reply.ts"
import { apiOf } from "../fixtures/RuntimeService.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { figure, secondsSince } from "./Figures.ts"
import { type Nginx, nginxProgram, startNginx } from "./Nginx.ts"
import { prepareReplicas } from "./Replicas.ts"

/** Where a turn that calls two tools is when its process is killed. */
const places = [
  "before the first answer",
  "in the first answer",
  "in the first tool",
  "before the second answer",
  "in the second answer",
  "in the second tool",
  "before the last answer",
  "in the last answer",
  // At no place in particular: somewhere on the way.
  "on the way",
  "on the way"
] as const

const tools = ["book", "mail"]
const pieces = ["All ", "of ", "it ", "is ", "done ", "now."]

/** A turn of a test. Its session is the one word of its message. */
interface Plan {
  readonly session: string
  readonly place: (typeof places)[number]
  /** It is where it shall be. */
  arrived: boolean
  /** The process that was there has died. */
  killed: boolean
}

/** Until it is released, whoever comes to a place that is held waits there. */
class Hold {
  readonly plans = new Map<string, Plan>()
  #release: () => void = () => {}
  #released = Promise.resolve()

  begin(plans: ReadonlyArray<Plan>): void {
    for (const plan of plans) this.plans.set(plan.session, plan)
    this.#released = new Promise((resolve) => (this.#release = resolve))
  }

  release(): void {
    this.#release()
  }

  isHere(session: string, ...here: ReadonlyArray<Plan["place"]>): Plan | undefined {
    const plan = this.plans.get(session)
    return plan !== undefined && !plan.arrived && here.includes(plan.place) ? plan : undefined
  }

  /** Waits at the place, once; whether the process that waits dies meanwhile is noted. */
  async at(plan: Plan, gone: Promise<unknown>): Promise<void> {
    plan.arrived = true
    let isReleased = false
    gone.then(
      () => {
        if (!isReleased) plan.killed = true
      },
      () => {}
    )
    await this.#released
    isReleased = true
  }
}

const sessionOf = (request: ReceivedRequest): string => {
  const said = request.body.messages.find(({ role }) => role === "user")?.content
  if (typeof said !== "string") throw new Error("the model was sent no message")
  return said
}

/** What the model says, by how many results of tools it was told. */
const speaking =
  (hold: Hold): Answer =>
  async (request) => {
    const session = sessionOf(request)
    const told = request.body.messages.filter(({ role }) => role === "tool").length
    const [before, during] = (
      [
        ["before the first answer", "in the first answer"],
        ["before the second answer", "in the second answer"],
        ["before the last answer", "in the last answer"]
      ] as const
    )[told] ?? ["on the way", "on the way"]
    const said =
      told < tools.length
        ? toolCalls([{ id: `call_${told}`, name: `desk--${tools[told]}`, arguments: { session } }])
        : text("", { pieces })
    const early = hold.isHere(session, before)
    if (early !== undefined) await hold.at(early, request.ended)
    const late = hold.isHere(session, during)
    if (late !== undefined) return await Faults.pauseAt(2, hold.at(late, request.ended))(said)(request)
    return await Faults.every(15)(said)(request)
  }

/** A client that comes back, and asks for what it missed. */
class Listener {
  readonly frames = new Map<string, Array<Frame>>()
  readonly #connect: () => Promise<ConversationClient>
  #client: ConversationClient | undefined
  #isOver = false
  #running: Promise<void> = Promise.resolve()
  readonly #sessions: ReadonlyArray<string>

  constructor(connect: () => Promise<ConversationClient>, sessions: ReadonlyArray<string>) {
    this.#connect = connect
    this.#sessions = sessions
    for (const session of sessions) this.frames.set(session, [])
  }

  start(): void {
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      try {
        this.#client = await this.#connect()
      } catch {
        await sleep(100)
        continue
      }
      const client = this.#client
      for (const sessionId of this.#sessions) {
        client.send({ type: "subscribe", sessionId, after: this.frames.get(sessionId)?.at(-1)?.id ?? 0 })
      }
      await client.closed
      this.#keep(client)
    }
  }

  #keep({ frames }: ConversationClient): void {
    for (const frame of frames) this.frames.get(String(frame.data["sessionId"]))?.push(frame)
  }

  /** Everything that it was told of a session, over all its connections. */
  of(session: string): ReadonlyArray<Frame> {
    const now = this.#client?.frames.filter(({ data }) => data["sessionId"] === session) ?? []
    const kept = this.frames.get(session) ?? []
    return kept.includes(now[0] ?? kept[0] ?? { event: "", data: {} }) ? kept : [...kept, ...now]
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await this.#client?.close()
    await this.#running
  }
}

const agentOf = (fake: FakeOpenAi, desk: CountingServer) =>
  stringify({
    agentCard: { name: "Clerk", description: "A test.", url: "http://localhost", version: "1.0.0" },
    systemPrompt: "Be brief.",
    sessions: { maxSessions: 10_000 },
    mcpServers: { desk: { type: "http", url: desk.url } },
    llm: { provider: "openai-compatible", model: "fake", apiKey: fake.apiKey, baseURL: fake.baseUrl },
    toolConfirmation: { mode: "auto-approve" }
  })

let fake: FakeOpenAi | undefined
let desk: CountingServer | undefined
let nginx: Nginx | undefined
let services: ReadonlyArray<ServiceProcess> = []
afterEach(async () => {
  await nginx?.remove()
  await Promise.all(services.map((service) => service.remove()))
  await desk?.close()
  await fake?.close()
  nginx = undefined
  services = []
})

const until = async (isSo: () => boolean, what: () => string, ms = 60_000): Promise<void> => {
  const deadline = Date.now() + ms
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`after ${ms} ms: ${what()}`)
    await sleep(20)
  }
}

/** Starts what the rounds need, on stores of the given processes. */
const prepared = async (prepare: () => Promise<ReadonlyArray<ServiceProcess>>) => {
  const hold = new Hold()
  fake = await startFakeOpenAi({ strict: false })
  fake.respond(speaking(hold))
  desk = await startCounting(tools, async ({ args, tool }, gone) => {
    const plan = hold.isHere(String(args["session"]), tool === "book" ? "in the first tool" : "in the second tool")
    if (plan !== undefined) await hold.at(plan, gone)
    return `${tool} is done`
  })
  services = await prepare()
  const [first] = services
  if (first === undefined) throw new Error("nothing serves")
  const { org: key } = await openAccounts(first, { org: 1 })
  await Promise.all(services.map((service) => service.start()))
  const configured = await apiOf(first.baseUrl, key)("POST", "/api/agent/config", { yaml: agentOf(fake, desk) })
  expect([configured.status, configured.body]).toEqual([200, expect.objectContaining({ ok: true })])
  return { hold, key, desk }
}

/** One round: turns at every place, the death of a process, and every answer. Gives how many turns that took with it. */
const round = async (
  { desk, hold, key }: Awaited<ReturnType<typeof prepared>>,
  baseUrl: string,
  copies: number,
  kill: () => Promise<void>
): Promise<{ readonly killed: number; readonly slowest: number }> => {
  const plans = Array.from({ length: copies }, () => places)
    .flat()
    .map((place): Plan => ({ session: crypto.randomUUID(), place, arrived: false, killed: false }))
  hold.begin(plans)
  const listener = new Listener(
    () => converse(baseUrl, key),
    plans.map(({ session }) => session)
  )
  listener.start()
  const api = apiOf(baseUrl, key)
  const send = async ({ session }: Plan) => {
    const { status } = await api("POST", "/api/message", { message: session, sessionId: session, stream: true })
    expect(status).toBe(202)
  }
  const held = plans.filter(({ place }) => place !== "on the way")
  await Promise.all(held.map(send))
  await until(
    () => held.every(({ arrived }) => arrived),
    () => `not arrived: ${held.flatMap(({ arrived, place }) => (arrived ? [] : [place])).join(", ")}`
  )
  const onTheWay = plans.filter(({ place }) => place === "on the way")
  await Promise.all(onTheWay.map(send))
  await sleep(Math.random() * 400)
  await kill()
  const died = performance.now()
  hold.release()
  const slow = new Map<string, number>()
  const isEnded = ({ session }: Plan) => {
    if (!listener.of(session).some(endsTurn)) return false
    if (!slow.has(session)) slow.set(session, secondsSince(died))
    return true
  }
  await until(
    () => plans.filter(isEnded).length === plans.length,
    () =>
      JSON.stringify(
        plans.filter((plan) => !isEnded(plan)).map(({ place, session }) => [place, listener.of(session).slice(-3)])
      )
  )
  await listener.stop()

  for (const { place, session } of plans) {
    const frames = listener.of(session)
    const about = `${place}: ${JSON.stringify(frames)}`
    expect(
      frames.map(({ id }) => id),
      about
    ).toEqual(frames.map((_, index) => index + 1))
    expect(
      frames.filter(endsTurn).map(({ data, event }) => [event, data["text"]]),
      about
    ).toEqual([["response", pieces.join("")]])
    for (const tool of tools) {
      const ran = desk.calls.filter((call) => call.tool === tool && call.args["session"] === session).length
      const result = frames.find(({ data, event }) => event === "toolResult" && data["toolName"] === `desk--${tool}`)
      // One that was interrupted on its way out is not sent again: the model is told that nobody knows.
      const isUnknown = JSON.stringify(result?.data["sanitized"]).includes("unknown")
      expect(ran === 1 || (ran === 0 && isUnknown), `${tool} ran ${ran} times, ${about}`).toBe(true)
    }
    const calls = frames.filter(({ event }) => event === "toolCall")
    expect(
      calls.map(({ data }) => data["toolName"]),
      about
    ).toEqual(tools.map((tool) => `desk--${tool}`))
  }
  return {
    killed: plans.filter(({ killed }) => killed).length,
    slowest: Math.max(...plans.map(({ killed, session }) => (killed ? (slow.get(session) ?? 0) : 0)))
  }
}

/** The Conversation list of what must hold: a process that runs turns is killed at every step of them. */
describe("kill -9 of a process that runs turns", () => {
  test.skipIf(nginxProgram === undefined)(
    "on Postgres behind nginx: every answer arrives from the other, no tool runs twice, no event is lost or repeated",
    async () => {
      const env = { ALLOW_PRIVATE_UPSTREAMS: "true", RATE_LIMIT_CHAT: "1000000" }
      const set = await prepared(() => prepareReplicas({ name: "turns", clocks: [0, 0], env }))
      nginx = await startNginx({ replicas: services })
      let killed = 0
      let slowest = 0
      let rounds = 0
      while (killed < 100) {
        const victim = services[rounds++ % 2]
        if (victim === undefined) throw new Error("there is no replica")
        const done = await round(set, nginx.baseUrl, 2, victim.kill)
        killed += done.killed
        slowest = Math.max(slowest, done.slowest)
        await victim.start()
      }
      figure(`${killed} turns lost their process in ${rounds} kills, all were answered, the slowest after`, slowest)
    },
    900_000
  )

  test("on the embedded store: after a restart every turn goes on", async () => {
    const set = await prepared(async () => [await prepareService({ env: { ALLOW_PRIVATE_UPSTREAMS: "true" } })])
    const [service] = services
    if (service === undefined) throw new Error("nothing serves")
    let killed = 0
    let slowest = 0
    for (let rounds = 0; rounds < 3; rounds++) {
      const done = await round(set, service.baseUrl, 1, async () => {
        await service.kill()
        await service.start()
      })
      killed += done.killed
      slowest = Math.max(slowest, done.slowest)
    }
    expect(killed).toBeGreaterThanOrEqual(24)
    figure(`${killed} turns lost their process in 3 kills, all were answered, the slowest after`, slowest)
  }, 300_000)
})
