import { execFile } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { ask, type Caller, get, hello, openStream } from "../faults/ChatClient.ts"
import { errorChunk, expectEnvelope, expectInvariants, expectNoSecret } from "../faults/Invariants.ts"
import { frame, text, usage } from "../fixtures/openai/Completions.ts"
import * as Errors from "../fixtures/openai/Errors.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { emptyDatabase, freePort, freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { appliedMigrations, openAccounts } from "../fixtures/Store.ts"

/** A stream of `count` words, one every `ms`. */
const slow = (count: number, ms: number) =>
  Faults.every(ms)(text("", { pieces: Array.from({ length: count }, (_, index) => `word${index} `) }))

describe("draining", () => {
  let fake: FakeOpenAi
  let service: ServiceProcess
  let caller: Caller

  const serve = async (env: Readonly<Record<string, string>>) => {
    service = await prepareService({ fake, databaseUrl: await freshDatabase("drain"), env })
    const { org: key } = await openAccounts(service, { org: 1 })
    caller = { baseUrl: service.baseUrl, key }
    await service.start()
  }

  const readiness = async () => (await get(service.baseUrl, "/health/ready")).status

  /** Milliseconds until the process has ended well. */
  const endOf = async (exit: Promise<number | null>, since: number): Promise<number> => {
    expect(await exit).toBe(0)
    return performance.now() - since
  }

  beforeAll(async () => {
    fake = await startFakeOpenAi()
  })
  afterAll(() => fake.close())
  beforeEach(() => {
    fake.clear()
    return () => service.remove()
  })

  test.each(["SIGTERM", "SIGINT"] as const)(
    "%s: what runs may finish, then the process ends with 0",
    async (signal) => {
      await serve({ DRAIN_DELAY: "2s", DRAIN_TIMEOUT: "20s" })
      fake.next(slow(35, 120))
      const stream = await openStream(caller)
      await stream.reached(2)
      const since = performance.now()
      const exit = service.terminate(signal)
      await expect.poll(readiness, { timeout: 700, interval: 20 }).toBe(503)
      expect((await get(service.baseUrl, "/health/live")).status).toBe(200)

      // A load balancer that has not noticed yet still sends requests, up to the end of the delay.
      await sleep(1_000 - (performance.now() - since))
      expect((await ask(caller)).status).toBe(200)

      // Afterwards whoever asks is to ask another replica; what runs goes on.
      await sleep(2_500 - (performance.now() - since))
      await expect(get(service.baseUrl, "/health/live")).rejects.toMatchObject({ code: "ECONNREFUSED" })
      expect(await stream.ended).toBe("done")
      expect(stream.pieces()).toBe(35)
      const streamed = performance.now() - since
      expect(await endOf(exit, since)).toBeLessThan(streamed + 1_500)
      const { events } = await expectInvariants({ services: [service], fake, secrets: [caller.key] })
      expect(events).toHaveLength(2)
    }
  )

  test("what outlives the deadline ends with an error, and is settled", async () => {
    await serve({ DRAIN_DELAY: "0s", DRAIN_TIMEOUT: "1s" })
    fake.next(slow(500, 100), Faults.after(60_000)(text("Too late.")))
    const stream = await openStream(caller)
    await stream.reached(2)
    const whole = ask(caller)
    await fake.arrival()
    const since = performance.now()
    const exit = service.terminate()

    expect(await stream.ended).toBe("error")
    expect(errorChunk(stream.raw())).toMatchObject({
      code: "service_unavailable",
      retryable: true,
      requestId: stream.requestId
    })
    const answer = await whole
    expect(answer.status).toBe(503)
    expect(expectEnvelope(answer)).toMatchObject({ code: "service_unavailable", retryable: true })
    expect(await endOf(exit, since)).toBeLessThan(5_000)
    const { events } = await expectInvariants({ services: [service], fake, secrets: [caller.key] })
    expect(events).toMatchObject([{ requestId: stream.requestId, estimated: true }])
    expect(events[0]?.output).toBeGreaterThanOrEqual(stream.pieces())
  })

  test("a client that neither sends nor reads cannot hold up the end", async () => {
    await serve({ DRAIN_DELAY: "0s", DRAIN_TIMEOUT: "1s" })
    const open = async (text: string) => {
      const socket = connect(Number(service.env["PORT"]), "127.0.0.1").pause()
      await once(socket, "connect")
      socket.on("error", () => socket.destroy()).write(text)
      return socket
    }
    fake.next(() => ({
      status: 200,
      headers: { "content-type": "text/event-stream" },
      steps: [{ flood: frame({ choices: [{ index: 0, delta: { content: "x ".repeat(4_096) } }] }) }]
    }))
    const body = JSON.stringify(hello({ stream: true }))
    const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n"
    const arrived = fake.arrival()
    const sockets = [
      await open(""),
      await open(head),
      await open(
        `${head}authorization: Bearer ${caller.key}\r\ncontent-type: application/json\r\n` +
          `content-length: ${body.length}\r\n\r\n${body}`
      )
    ]
    await arrived
    await sleep(500)
    const since = performance.now()
    expect(await endOf(service.terminate(), since)).toBeLessThan(6_000)
    for (const socket of sockets) socket.destroy()
    const { events } = await expectInvariants({ services: [service], fake, secrets: [caller.key] })
    expect(events).toMatchObject([{ estimated: true }])
  })
})

describe("several processes", () => {
  test("three that start at once on an empty database migrate it once", async () => {
    const databaseUrl = await emptyDatabase("migrate")
    const services = await Promise.all([1, 2, 3].map(() => prepareService({ databaseUrl })))
    try {
      await Promise.all(services.map((service) => service.start()))
      const ids = await appliedMigrations({ env: { DATABASE_URL: databaseUrl } })
      expect(ids.length).toBeGreaterThan(0)
      expect(ids).toEqual(ids.map((_, index) => index + 1))
      for (const service of services) expect(service.logs().stderr).toBe("")
    } finally {
      await Promise.all(services.map((service) => service.remove()))
    }
  })

  test("a second one on an embedded store is refused, and names the first", async () => {
    const first = await prepareService()
    try {
      await first.start()
      const { code, stderr } = await tryToServe({ DATA_DIR: first.env["DATA_DIR"] ?? "" })
      expect(code).toBe(1)
      expect(lines(stderr)).toEqual([expect.stringMatching(new RegExp(`DATA_DIR .* ${first.pid()}\\b`, "u"))])
      expect((await get(first.baseUrl, "/health/ready")).status).toBe(200)
    } finally {
      await first.remove()
    }
  })
})

describe("a start that cannot succeed ends with one line", () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "gateway-settings-"))
    await writeFile(join(folder, "invalid.yml"), "models:\n  - id: 7\n")
    await writeFile(join(folder, "broken.yml"), "models: [\n")
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test.each([
    { variable: "PORT", value: "abc", takes: /a port from 0 to 65535/u },
    { variable: "DATABASE_URL", value: "foo", takes: /a URL such as postgres:/u },
    { variable: "LOG_LEVEL", value: "loud", takes: /one of Trace, Debug, Info, Warn, Error, None/u },
    { variable: "DRAIN_TIMEOUT", value: "-5s", takes: /a time such as 5s, 500ms or 2m/u },
    { variable: "DATABASE_CONNECTIONS", value: "0", takes: /a whole number from 2 to 200/u },
    { variable: "OPENAI_BASE_URL", value: "ftp://somewhere", takes: /an http or https URL/u },
    { variable: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "collector", takes: /an http or https URL/u }
  ])("$variable=$value", async ({ takes, value, variable }) => {
    expect(await lineOfRefusal({ [variable]: value })).toMatch(new RegExp(`${variable}.*${takes.source}`, "u"))
  })

  test.each([
    { file: "missing.yml", says: /MODELS_FILE.*missing\.yml/u },
    { file: "invalid.yml", says: /MODELS_FILE.*invalid\.yml.*id/u },
    { file: "broken.yml", says: /MODELS_FILE.*broken\.yml/u }
  ])("MODELS_FILE=$file", async ({ file, says }) => {
    expect(await lineOfRefusal({ MODELS_FILE: join(folder, file) })).toMatch(says)
  })

  test("the port is taken", async () => {
    const port = await freePort()
    const other = createServer().listen(port, "127.0.0.1")
    await once(other, "listening")
    try {
      const DATABASE_URL = await freshDatabase("refused")
      expect(await lineOfRefusal({ DATABASE_URL, PORT: `${port}` })).toMatch(new RegExp(`PORT.*${port}`, "u"))
    } finally {
      other.close()
    }
  })

  test("nothing answers at DATABASE_URL", async () => {
    const port = await freePort()
    const line = await lineOfRefusal({ DATABASE_URL: `postgres://postgres:hunter2@127.0.0.1:${port}/nothing` })
    expect(line).toMatch(/DATABASE_URL/u)
    expect(line).not.toContain("hunter2")
  })

  test("whatever answers at DATABASE_URL says nothing", async () => {
    const port = await freePort()
    const mute = createServer().listen(port, "127.0.0.1")
    await once(mute, "listening")
    try {
      const line = await lineOfRefusal({ DATABASE_URL: `postgres://postgres@127.0.0.1:${port}/nothing` })
      expect(line).toMatch(/DATABASE_URL/u)
    } finally {
      mute.close()
    }
  })

  test("the database does not exist", async () => {
    const url = new URL(await freshDatabase("refused"))
    const line = await lineOfRefusal({ DATABASE_URL: Object.assign(url, { pathname: "/no_such_database" }).href })
    expect(line).toMatch(/DATABASE_URL.*no_such_database/u)
  })

  test("the database refuses the password", async () => {
    const url = new URL(await freshDatabase("refused"))
    const line = await lineOfRefusal({ DATABASE_URL: Object.assign(url, { password: "hunter2" }).href })
    expect(line).toMatch(/DATABASE_URL.*password/u)
    expect(line).not.toContain("hunter2")
  })

  test("DATA_DIR cannot be a directory", async () => {
    const file = join(folder, "file")
    await writeFile(file, "")
    expect(await lineOfRefusal({ DATA_DIR: join(file, "data") })).toMatch(/DATA_DIR/u)
  })

  const lineOfRefusal = async (env: Readonly<Record<string, string>>): Promise<string> => {
    const DATA_DIR = join(folder, "data")
    const { code, ms, stderr, stdout } = await tryToServe({ DATA_DIR, ...env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(lines(stderr)).toHaveLength(1)
    expect(ms).toBeLessThan(8_000)
    return stderr
  }
})

describe("logs", () => {
  test("at level Trace tell the cause of every failure, and no secret", async () => {
    const secrets = {
      provider: "canary-provider-key-4711",
      prompt: "canary-prompt",
      answer: "canary-answer",
      upstream: "sk-canary0upstream0body"
    }
    const fake = await startFakeOpenAi({ apiKey: secrets.provider })
    const service = await prepareService({ fake, env: { LOG_LEVEL: "Trace", DRAIN_DELAY: "0s" } })
    try {
      const { org: key } = await openAccounts(service, { org: 1 })
      await service.start()
      const caller = { baseUrl: service.baseUrl, key }
      const prompt = { messages: [{ role: "user", content: `Say ${secrets.prompt}.` }] }
      const answer = text(`It is ${secrets.answer}.`, { usage: usage({ prompt: 9, completion: 9 }) })
      const failure = Errors.error(500, { message: `The key ${secrets.provider} of ${secrets.upstream} broke.` })
      const broken = (part: string) => Faults.every(20)(Faults.insertAt(3, part)(answer))
      const garbage = frame(`${secrets.answer} is no chunk`)
      const told: Array<string> = []

      fake.next(answer, answer, failure, failure, failure, failure, failure, failure)
      told.push((await ask(caller, hello(prompt))).text)
      told.push(await openStream(caller, prompt).then(async (stream) => (await stream.ended, stream.raw())))
      expect(told.every((one) => one.includes(secrets.answer))).toBe(true)
      expectNoSecret([secrets.provider, secrets.upstream, key], told)

      const failures = [await ask(caller, hello(prompt)), await ask(caller, hello({ ...prompt, stream: true }))]
      fake.next(broken(garbage), broken("data: {oops canary-answer\n\n"))
      const streams = [await openStream(caller, prompt), await openStream(caller, prompt)]
      for (const stream of streams) expect(await stream.ended).toBe("error")
      fake.next(() => ({ status: 200, headers: {}, steps: [{ write: `${secrets.answer} is no JSON` }] }))
      failures.push(await ask(caller, hello(prompt)))
      const wrong = await ask({ ...caller, key: `${key}x` })
      const invalid = await ask(caller, { ...hello(prompt), canary: secrets.prompt })
      expect(failures.map(({ status }) => status)).toEqual([502, 502, 502])
      expect([wrong.status, invalid.status]).toEqual([401, 400])
      await service.terminate()

      const log = service.logs()
      expectNoSecret(
        [secrets.provider, secrets.upstream],
        [...failures, wrong, invalid].map((one) => one.text)
      )
      expectNoSecret([key, ...Object.values(secrets)], [log.stdout, log.stderr])
      const causes = lines(log.stdout).filter((line) => line.includes("An upstream failed."))
      for (const { text } of failures) {
        const { requestId } = JSON.parse(text).error
        expect(causes.filter((line) => line.includes(requestId))).toHaveLength(1)
      }
      expect(causes.filter((line) => line.includes("status 500"))).toHaveLength(2)
      for (const { requestId } of streams) {
        expect(causes.filter((line) => line.includes(requestId))).toHaveLength(1)
      }
      await expectInvariants({ services: [service], fake, secrets: [key, ...Object.values(secrets)] })
    } finally {
      await service.remove()
      await fake.close()
    }
  })
})

const lines = (text: string): ReadonlyArray<string> => text.split("\n").filter((line) => line !== "")

interface Refusal {
  readonly code: number | string | null | undefined
  readonly stdout: string
  readonly stderr: string
  readonly ms: number
}

/** Starts the service in this environment and waits for it to end by itself. */
const tryToServe = (env: Readonly<Record<string, string>>): Promise<Refusal> =>
  new Promise((resolve) => {
    const started = performance.now()
    const main = join(import.meta.dirname, "../../src/main.ts")
    const options = { env: { PATH: process.env["PATH"], HOST: "127.0.0.1", PORT: "0", ...env }, timeout: 20_000 }
    execFile(process.execPath, [main, "serve"], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stdout, stderr, ms: performance.now() - started })
    )
  })
