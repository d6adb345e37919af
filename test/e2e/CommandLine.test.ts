import { Schema } from "effect"
import { execFile } from "node:child_process"
import { access, rm } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { emptyDatabase } from "../fixtures/Postgres.ts"
import { balanceOf, prepareService, type ServiceProcess, stores } from "../fixtures/ServiceProcess.ts"

const main = join(import.meta.dirname, "../../src/main.ts")
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command as an operator types it. */
const run = (env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
  new Promise<Ended>((resolve, reject) => {
    execFile(process.execPath, [main, ...args], { env, timeout: 30_000 }, (error, stdout, stderr) => {
      if (error === null) resolve({ code: 0, stdout, stderr })
      else if (typeof error.code === "number") resolve({ code: error.code, stdout, stderr })
      else reject(error)
    })
  })

/** A failure says one line on stderr and nothing on stdout. */
const refused = (line: string | RegExp) => ({
  code: 1,
  stdout: "",
  stderr: typeof line === "string" ? `${line}\n` : expect.stringMatching(new RegExp(`^${line.source}\n$`, line.flags))
})

describe("the command line, without a store", () => {
  const env = { PATH: process.env["PATH"] ?? "", DATA_DIR: join(import.meta.dirname, "no-such-folder") }

  test("help and the version open nothing and need no configuration", async () => {
    const help = await run({ ...env, PORT: "not a port" }, "keys", "create", "--help")
    expect(help).toMatchObject({ code: 0, stderr: "" })
    expect(help.stdout).toContain("USAGE\n  node src/main.ts keys create ")
    // No colours where nobody watches.
    expect(help.stdout).not.toContain("\u001B")
    expect(await run(env, "--version")).toEqual({ code: 0, stdout: "1.0.0\n", stderr: "" })
    await expect(access(env.DATA_DIR)).rejects.toThrow("ENOENT")
  })

  test("a bad value opens nothing, a wrong flag shows the help", async () => {
    expect(await run(env, "orgs", "create", "Acme!", "--json")).toEqual(
      refused(/Invalid value for argument <name>: "Acme!"\. Expected 1 to 63 of a-z, 0-9, - and _, .+/u)
    )
    const { code, stderr, stdout } = await run(env, "orgs", "list", "--jason")
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(stderr).toMatch(/USAGE\n[\s\S]+Unrecognized flag: --jason/u)
    await expect(access(env.DATA_DIR)).rejects.toThrow("ENOENT")
  })

  test("a wrong setting stops the start and every command with one line", async () => {
    const wrong = { ...env, PORT: "not a port" }
    expect(await run(wrong)).toEqual(refused(/PORT: .+/u))
    expect(await run(wrong, "orgs", "list")).toEqual(refused(/PORT: .+/u))
    expect(await run(wrong, "doctor")).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^FAILED .+: PORT: .+\n$/u)
    })
  })

  test("a store that cannot be reached is told in one line", async () => {
    const away = { ...env, DATABASE_URL: "postgres://nobody:nothing@127.0.0.1:1/nowhere" }
    expect(await run(away, "orgs", "list", "--json")).toEqual(refused(/DATABASE_URL: the store cannot be used: .+/u))
    expect(await run(away, "migrate")).toEqual(refused(/DATABASE_URL: the store cannot be used: .+/u))
    const { code, stdout } = await run(away, "doctor", "--json")
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([{ name: "store", ok: false, detail: expect.stringMatching(/./u) }])
    })
  })
})

describe.each(stores)("the command line, on $store", ({ store }) => {
  const embedded = store !== "Postgres"
  let fake: FakeOpenAi
  let service: ServiceProcess

  /** What a command prints with `--json`. */
  const cli = (...args: ReadonlyArray<string>) => service.cli(args)
  /** How a command ends that is typed without `--json`. */
  const typed = (...args: ReadonlyArray<string>) => run(service.env, ...args)

  const complete = async (key: string) => {
    const { status } = await fetch(`${service.baseUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "fake-model", messages: [{ role: "user", content: "Hi" }] })
    })
    return status
  }

  beforeAll(async () => {
    fake = await startFakeOpenAi({ models: ["gpt-fake"] })
    const databaseUrl = embedded ? {} : { databaseUrl: await emptyDatabase("command-line") }
    service = await prepareService({ fake, env: { DRAIN_DELAY: "0s" }, ...databaseUrl })
    // The first command of all makes the store.
    if (embedded) await rm(service.env["DATA_DIR"] ?? "", { recursive: true })
  })
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })

  test.runIf(embedded)("a store that belongs to one process at a time", { timeout: 120_000 }, async () => {
    await cli("orgs", "create", "acme")
    await cli("members", "add", "ana", "--org", "acme", "--role", "owner")
    await cli("credits", "grant", "1", "--org", "acme")
    const { key } = keyOf(await cli("keys", "create", "--org", "acme", "--name", "laptop"))
    await service.start()
    expect(await complete(key)).toBe(200)
    expect(await typed("orgs", "list")).toEqual(refused(/DATA_DIR .+ is in use by process \d+\..+/u))
    await service.terminate()
    expect(await balanceOf(service, "acme")).toMatchObject({ held_usd: 0 })
  })

  test.skipIf(embedded)(
    "an operator's day: from the empty store to what a revoked key has spent",
    async () => {
      expect(await typed("migrate")).toEqual({
        code: 0,
        stdout: expect.stringMatching(/^Ran 0001_identity\nRan 0002_billing\n/u),
        stderr: ""
      })
      expect(await cli("migrate")).toEqual({ ran: [] })

      const acme = await cli("orgs", "create", "acme")
      expect(acme).toEqual({ id: expect.stringMatching(/./u), name: "acme", createdAt: expect.stringMatching(isoTime) })
      expect(await cli("orgs", "list")).toEqual([acme])
      expect(await typed("orgs", "create", "acme", "--json")).toEqual(
        refused('There is already an organization named "acme".')
      )
      expect(await cli("members", "add", "ana", "--org", "acme", "--role", "owner")).toEqual({
        id: expect.stringMatching(/./u),
        name: "ana",
        role: "owner",
        org: "acme"
      })
      const key = keyOf(await cli("keys", "create", "--org", "acme", "--name", "laptop", "--expires", "30d"))
      expect(key).toMatchObject({
        key: expect.stringMatching(/^sk-gw-[0-9A-Za-z]{49}$/u),
        name: "laptop",
        org: "acme",
        member: "ana",
        expiresAt: expect.stringMatching(isoTime)
      })
      expect(await typed("keys", "list")).toEqual(refused('No organization is named "default".'))
      expect(await cli("credits", "grant", "0.300000001", "--org", "acme")).toEqual({
        org: "acme",
        balance_usd: 0.300000001
      })

      const doctor = await typed("doctor")
      expect(doctor).toMatchObject({ code: 0, stderr: "" })
      expect(doctor.stdout).toMatch(/^(ok [\w ]+: .+\n)+$/u)
      expect(doctor.stdout).toMatch(/^ok store: /mu)

      await service.start()
      // 1,000 input at 2.5 and 100 output at 10 USD per million.
      fake.next(text("Good morning.", { usage: usage({ prompt: 1_000, completion: 100 }) }))
      expect(await complete(key.key)).toBe(200)
      expect((await typed("models")).stdout).toMatch(/^fake-model +service +128000 +16384 +2\.5 +10 +1\.25 +2\.5$/mu)
      const today = new Date().toISOString().slice(0, 10)
      expect(await cli("usage", "--org", "acme", "--days", "1")).toEqual({
        org: "acme",
        since: `${today}T00:00:00.000Z`,
        total_cost_usd: 0.0035,
        usage: [
          {
            day: today,
            model: "fake-model",
            usage_events: 1,
            input_tokens: 1_000,
            output_tokens: 100,
            cost_usd: 0.0035
          }
        ]
      })
      expect(await balanceOf(service, "acme")).toEqual({
        balance_usd: 0.296500001,
        held_usd: 0,
        available_usd: 0.296500001
      })
      expect(await cli("keys", "revoke", key.id)).toEqual({
        id: key.id,
        name: "laptop",
        revokedAt: expect.stringMatching(isoTime)
      })
      await expect.poll(() => complete(key.key), { timeout: 5_000 }).toBe(401)
    },
    120_000
  )
})

const keyOf = Schema.decodeUnknownSync(
  Schema.Struct({
    id: Schema.String,
    key: Schema.String,
    name: Schema.String,
    org: Schema.String,
    member: Schema.String,
    expiresAt: Schema.NullOr(Schema.String)
  })
)
