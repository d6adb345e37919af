import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { WebSocket } from "ws"
import { converse, type Frame } from "../../fixtures/ConversationClient.ts"
import { freshDatabase } from "../../fixtures/Postgres.ts"
import { messageError, type RuntimeService, startRuntime } from "../../fixtures/RuntimeService.ts"
import { prepareService, type ServiceProcess, stores } from "../../fixtures/ServiceProcess.ts"
import { frameOf, handshake, post } from "../../fixtures/Sockets.ts"
import { issueKey } from "../../fixtures/Store.ts"

const newSession = () => crypto.randomUUID()

/** What was left of a session's events, all of which are numbered. */
const kept = async (baseUrl: string, key: string, session: string): Promise<ReadonlyArray<Frame>> => {
  const client = await converse(baseUrl, key)
  client.send({ type: "subscribe", sessionId: session, after: 0 })
  await client.until(({ event }) => event === "response")
  await sleep(300)
  await client.close()
  return client.frames
}

const numbered = (frames: ReadonlyArray<Frame>) => frames.map(({ event, id }) => [id, event])

/**
 * A client that loses its connection over and over, and comes back with the number of the last event that it has: in the
 * middle of a stream, before it was told anything, and without saying that it goes.
 */
const restless = (baseUrls: ReadonlyArray<string>, key: string, session: string) => {
  const frames: Array<Frame> = []
  let isOver = false
  let connections = 0
  const living = (async () => {
    while (!isOver) {
      connections++
      const baseUrl = baseUrls[connections % baseUrls.length] ?? ""
      const socket = new WebSocket(`${baseUrl.replace("http", "ws")}/ws`, {
        headers: { authorization: `Bearer ${key}` }
      })
      await new Promise((resolve) => socket.on("open", resolve))
      socket.send(JSON.stringify({ type: "subscribe", sessionId: session, after: frames.at(-1)?.id ?? 0 }))
      socket.on("message", (data) => void frames.push(frameOf(data)))
      await sleep(Math.random() * 120)
      // What was sent after the socket was cut was never told.
      socket.removeAllListeners("message")
      socket.terminate()
    }
    const last = await converse(baseUrls[0] ?? "", key)
    last.send({ type: "subscribe", sessionId: session, after: frames.at(-1)?.id ?? 0 })
    await sleep(1_000)
    frames.push(...last.frames)
    await last.close()
  })()
  return {
    frames,
    stop: async () => {
      isOver = true
      await living
      return connections
    }
  }
}

/** Every event that is kept came once, in order; so did chunks, of which some may have been forgotten meanwhile. */
const nothingLost = (frames: ReadonlyArray<Frame>, all: ReadonlyArray<Frame>) => {
  const ids = frames.map(({ id = 0 }) => id)
  expect(ids).toEqual(ids.toSorted((one, other) => one - other))
  expect(new Set(ids).size).toBe(ids.length)
  const isKept = ({ event }: Frame) => event !== "chunk"
  expect(numbered(frames.filter(isKept))).toEqual(numbered(all.filter(isKept)))
}

describe.each(stores)("sockets come and go, on $store", ({ options, store }) => {
  let runtime: RuntimeService
  beforeAll(async () => {
    runtime = await startRuntime(await options())
  }, 120_000)
  afterAll(() => runtime.service.remove())

  test("clients that lose their connections all the time miss nothing and get nothing twice", async () => {
    const { baseUrl } = runtime.service
    const { mine } = runtime.keys
    const session = newSession()
    const clients = Array.from({ length: 8 }, () => restless([baseUrl], mine, session))
    const talking = await converse(baseUrl, mine)
    talking.send({ type: "subscribe", sessionId: session, after: 0 })
    const turns = 12
    for (let at = 0; at < turns; at++) {
      talking.send({
        type: "message",
        content: `Some words to be said ${at}`,
        sessionId: session,
        stream: at % 2 === 0
      })
      await sleep(Math.random() * 60)
    }
    await talking.ended(session, turns, 60_000)
    const all = await kept(baseUrl, mine, session)
    expect(all.filter(({ event }) => event === "response")).toHaveLength(turns)
    let connections = 0
    for (const client of clients) {
      connections += await client.stop()
      nothingLost(client.frames, all)
    }
    expect(connections).toBeGreaterThan(50)
    // Who stayed saw all numbers, without a gap.
    expect(talking.frames.map(({ id }) => id)).toEqual(talking.frames.map((_, at) => at + 1))
    await talking.close()
  }, 120_000)

  test("two sockets of one session are told the same", async () => {
    const session = newSession()
    const pair = [
      await converse(runtime.service.baseUrl, runtime.keys.mine),
      await converse(runtime.service.baseUrl, runtime.keys.mine)
    ] as const
    for (const client of pair) client.send({ type: "subscribe", sessionId: session, after: 0 })
    pair[0].send({ type: "message", content: "To both of you", sessionId: session, stream: true })
    for (const client of pair) await client.ended(session)
    expect(pair[0].frames).toEqual(pair[1].frames)
    for (const client of pair) await client.close()
  })

  test("a client that does not read is closed, and harms nobody", async () => {
    const { baseUrl } = runtime.service
    const { mine } = runtime.keys
    const session = newSession()
    const socket = new WebSocket(`${baseUrl.replace("http", "ws")}/ws`, {
      headers: { authorization: `Bearer ${mine}` }
    })
    await new Promise((resolve) => socket.on("open", resolve))
    const closed = new Promise<number>((resolve) => socket.on("close", resolve))
    socket.pause()
    // Each is answered with what is wrong with it, which is as long as itself: far more than a system keeps for a socket.
    const frame = JSON.stringify({
      type: "cancel",
      ...Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`${at}${"x".repeat(500)}`, at]))
    })
    for (let at = 0; at < 8_000; at++) {
      socket.send(frame)
      if (at % 100 === 0) await sleep(1)
    }
    const other = await converse(baseUrl, mine)
    other.send({ type: "message", content: "Still there?", sessionId: session })
    await other.ended(session)
    // It is closed though it does not read, and learns of it when it does.
    await sleep(3_500)
    socket.resume()
    expect([1006, 1013]).toContain(await closed)
    await other.close()
  }, 120_000)

  test("a stop closes sockets with 1012, and its process ends well", async () => {
    const client = await converse(runtime.service.baseUrl, runtime.keys.mine)
    const session = newSession()
    client.send({ type: "message", content: "Before the end", sessionId: session })
    await client.ended(session)
    const started = Date.now()
    expect(await runtime.service.terminate()).toBe(0)
    expect(Date.now() - started).toBeLessThan(30_000)
    expect(await client.closed).toBe(1012)
    await runtime.service.start()
    expect((await kept(runtime.service.baseUrl, runtime.keys.mine, session)).at(-1)?.event).toBe("response")
  }, 120_000)

  // Keys are issued beside a running service on Postgres only.
  test.skipIf(store !== "Postgres")(
    "a key that is over takes its sockets along within 5 seconds, and no others",
    async () => {
      const { service } = runtime
      const expiresAt = Date.now() + 5_000
      const key = await issueKey(service, "mine", expiresAt)
      const doomed = await converse(service.baseUrl, key)
      const other = await converse(service.baseUrl, runtime.keys.mine)
      expect(await doomed.closed).toBe(1008)
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAt - 50)
      expect(Date.now()).toBeLessThan(expiresAt + 5_000)
      other.send("x")
      await other.until(({ event }) => event === "error")
      await other.close()
    },
    120_000
  )
})

describe("sockets of two replicas on one Postgres", () => {
  let first: RuntimeService
  let second: ServiceProcess
  beforeAll(async () => {
    const databaseUrl = await freshDatabase("service")
    first = await startRuntime({ databaseUrl })
    second = await prepareService({
      databaseUrl,
      env: { API_AUTH: "required", DRAIN_DELAY: "0s", SECRETS_KEY: first.service.env["SECRETS_KEY"] ?? "" }
    })
    await second.start()
  }, 120_000)
  afterAll(async () => {
    await first.service.remove()
    await second.remove()
  })

  test("a socket on one is told of messages that were sent to the other", async () => {
    const { mine } = first.keys
    const session = newSession()
    const all = await converse(second.baseUrl, mine)
    const here = await converse(first.service.baseUrl, mine)
    const there = await converse(second.baseUrl, mine)
    for (const client of [here, there]) client.send({ type: "subscribe", sessionId: session, after: 0 })
    await post(first.service.baseUrl, mine, session, "From the first", "message")
    await there.ended(session)
    there.send({ type: "message", content: "From the second", sessionId: session, stream: true })
    await Promise.all([here, there].map((client) => client.ended(session, 2)))
    expect(here.frames).toEqual(there.frames)
    expect(here.frames.map(({ id }) => id)).toEqual(here.frames.map((_, at) => at + 1))
    await all.ended(session, 2)
    expect(all.frames.filter(({ event }) => event === "response").map(({ data }) => data["text"])).toEqual([
      "From the first",
      "From the second"
    ])
    for (const client of [all, here, there]) await client.close()
  }, 120_000)

  test("clients that go from one to the other miss nothing", async () => {
    const { mine } = first.keys
    const urls = [first.service.baseUrl, second.baseUrl]
    const session = newSession()
    const clients = Array.from({ length: 6 }, () => restless(urls, mine, session))
    const talking = await converse(urls[1] ?? "", mine)
    talking.send({ type: "subscribe", sessionId: session, after: 0 })
    const turns = 10
    for (let at = 0; at < turns; at++) await post(urls[at % 2] ?? "", mine, session, `Words ${at}`, "message")
    await talking.ended(session, turns, 60_000)
    const all = await kept(urls[0] ?? "", mine, session)
    for (const client of clients) {
      await client.stop()
      nothingLost(client.frames, all)
    }
    expect(talking.frames.map(({ id }) => id)).toEqual(talking.frames.map((_, at) => at + 1))
    await talking.close()
  }, 120_000)
})

describe("sockets of a service that is open to its own machine", () => {
  let service: ServiceProcess
  beforeAll(async () => {
    service = await prepareService()
    await service.start()
  }, 120_000)
  afterAll(() => service.remove())

  test("need no key, and are refused to pages and names from elsewhere", async () => {
    expect((await handshake(`${service.baseUrl}/ws`)).status).toBe(101)
    expect((await handshake(`${service.baseUrl}/`, { origin: "http://localhost:3000" })).status).toBe(101)
    for (const headers of [{ host: "rebound.example" }, { origin: "https://evil.example" }, { origin: "null" }]) {
      expect(await handshake(`${service.baseUrl}/ws`, headers)).toMatchObject({ status: 403, body: messageError })
    }
    expect(await handshake(`${service.baseUrl}/ws`, { authorization: "Bearer sk-gw-wrong" })).toMatchObject({
      status: 401
    })
  })

  test("talk to the workspace `default`", async () => {
    const client = await converse(service.baseUrl)
    client.send({ type: "message", content: "Hello" })
    expect((await client.ended("default")).data["text"]).toBe("Hello")
    await client.close()
  })
})
