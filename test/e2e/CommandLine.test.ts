import { Schema } from "effect"
import { execFile } from "node:child_process"
import { access } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
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

  test.each([
    "",
    "serve",
    "migrate",
    "orgs",
    "orgs create",
    "orgs list",
    "members",
    "members add",
    "members list",
    "keys",
    "keys create",
    "keys list",
    "keys revoke",
    "credits",
    "credits grant",
    "credits balance",
    "usage",
    "models",
    "doctor"
  ])("help of `%s` explains, shows how, and opens nothing", async (command) => {
    const words = command.split(" ").filter((word) => word !== "")
    const help = await run({ ...env, PORT: "not a port" }, ...words, "--help")
    expect(help).toMatchObject({ code: 0, stderr: "" })
    expect(help.stdout).toMatch(/DESCRIPTION\n {2}\S[\s\S]*EXAMPLES\n/u)
    expect(help.stdout).toContain(`USAGE\n  ${["node src/main.ts", ...words].join(" ")} `)
    // No colours where nobody watches.
    expect(help.stdout).not.toContain("\u001B")
    await expect(access(env.DATA_DIR)).rejects.toThrow("ENOENT")
  })

  test("the version", async () => {
    expect(await run(env, "--version")).toEqual({ code: 0, stdout: "1.0.0\n", stderr: "" })
  })

  test.each([
    { args: ["orgz"], mistake: 'Unknown subcommand "orgz"' },
    { args: ["orgs", "create"], mistake: "Missing required argument: name" },
    { args: ["orgs", "create", "a", "b"], mistake: 'Unexpected positional argument: "b"' },
    { args: ["orgs", "list", "--jason"], mistake: "Unrecognized flag: --jason" }
  ])("a wrong command or flag, $args, is told with the help, all on stderr", async ({ args, mistake }) => {
    const { code, stderr, stdout } = await run(env, ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(stderr).toContain("USAGE\n")
    expect(stderr).toContain(mistake)
  })

  test.each([
    { args: ["orgs", "create", "Acme!"], names: "1 to 63 of a-z, 0-9, - and _" },
    { args: ["members", "add", "a b"], names: "1 to 63 of a-z, 0-9, - and _" },
    { args: ["members", "add", "ana", "--role", "boss"], names: '"owner" | "admin" | "member"' },
    { args: ["keys", "create", "--expires", "30"], names: "such as 12h, 30d or 8w" },
    { args: ["keys", "create", "--expires", "0d"], names: "such as 12h, 30d or 8w" },
    { args: ["keys", "create", "--name", "two\nlines"], names: "no control characters" },
    { args: ["keys", "create", "--name", "x".repeat(101)], names: "a length between 1 and 100" },
    { args: ["credits", "grant", "0"], names: "above 0 and at most 1000000" },
    { args: ["credits", "grant", "-5"], names: "above 0 and at most 1000000" },
    { args: ["credits", "grant", "1000000.000000001"], names: "above 0 and at most 1000000" },
    { args: ["credits", "grant", "0.1234567891"], names: "at most 9 decimals" },
    { args: ["credits", "grant", "1e3"], names: "an amount in USD" },
    { args: ["usage", "--days", "0"], names: "between 1 and 3650" },
    { args: ["usage", "--days", "1.5"], names: "an integer" }
  ])("a bad value, $args, is told in one line that says what is allowed", async ({ args, names }) => {
    const ended = await run(env, ...args, "--json")
    expect(ended).toEqual(refused(/Invalid value for (argument|flag) .+/u))
    expect(ended.stderr).toContain(names)
    await expect(access(env.DATA_DIR)).rejects.toThrow("ENOENT")
  })

  test("a wrong setting stops every command with one line", async () => {
    const wrong = { ...env, PORT: "not a port" }
    for (const args of [[], ["serve"], ["migrate"], ["orgs", "list"], ["models"]]) {
      expect(await run(wrong, ...args)).toEqual(refused(/PORT: .+/u))
    }
    expect(await run(wrong, "doctor")).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^FAILED .+: PORT: .+\n$/u)
    })
  })

  test("a store that cannot be reached is told in one line", async () => {
    const away = { ...env, DATABASE_URL: "postgres://nobody:nothing@127.0.0.1:1/nowhere" }
    expect(await run(away, "orgs", "list", "--json")).toEqual(refused(/.*store cannot be reached.*/u))
    expect(await run(away, "migrate")).toEqual(refused(/.*store cannot be reached.*/u))
    const { code, stdout } = await run(away, "doctor", "--json")
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      checks: expect.arrayContaining([{ name: "store", ok: false, detail: expect.stringMatching(/./u) }])
    })
  })
})

describe.each(stores)("the command line, on $store", ({ options, store }) => {
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
    service = await prepareService({ fake, ...(await options()) })
  })
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })

  test("migrate brings an empty store up to date, once", async () => {
    expect(await typed("migrate")).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Ran 0001_identity\nRan 0002_billing\n/u),
      stderr: ""
    })
    expect(await cli("migrate")).toEqual({ ran: [] })
  })

  test("organizations", async () => {
    expect(await typed("orgs", "list")).toMatchObject({ code: 0, stdout: "There is no organization yet.\n" })
    const acme = await cli("orgs", "create", "acme")
    expect(acme).toEqual({
      id: expect.stringMatching(/./u),
      name: "acme",
      createdAt: expect.stringMatching(isoTime)
    })
    expect(await cli("orgs", "list")).toEqual([acme])
    expect(await typed("orgs", "create", "acme", "--json")).toEqual(
      refused('There is already an organization named "acme".')
    )
  })

  test("members", async () => {
    expect(await typed("keys", "create", "--org", "acme")).toEqual(
      refused(/Organization acme has no owner .+members add <name> --org acme --role owner/u)
    )
    const ana = await cli("members", "add", "ana", "--org", "acme", "--role", "owner")
    expect(ana).toEqual({ id: expect.stringMatching(/./u), name: "ana", role: "owner", org: "acme" })
    const bot = await cli("members", "add", "bot", "--org", "acme")
    expect(bot).toMatchObject({ name: "bot", role: "member" })
    expect(await cli("members", "list", "--org", "acme")).toMatchObject([ana, bot])
    expect(await typed("members", "add", "bot", "--org", "acme")).toEqual(
      refused('There is already a member named "bot".')
    )
    expect(await typed("members", "add", "eve", "--org", "nobody")).toEqual(
      refused('No organization is named "nobody".')
    )
  })

  test("without --org it is the organization default", async () => {
    expect(await typed("credits", "balance")).toEqual(refused('No organization is named "default".'))
    await cli("orgs", "create", "default")
    expect(await cli("credits", "balance")).toEqual({ org: "default", balance_usd: 0, held_usd: 0, available_usd: 0 })
    expect(await typed("usage")).toMatchObject({ code: 0, stdout: expect.stringContaining("No usage.") })
  })

  test("keys: of the first owner or of a member, for ever or for a time, shown once, revoked for good", async () => {
    const { code, stdout } = await typed("keys", "create", "--org", "acme", "--name", "laptop")
    expect(code).toBe(0)
    expect(stdout.match(/sk-gw-[0-9A-Za-z]{49}/gu)).toHaveLength(1)
    expect(stdout).toMatch(/^Key "laptop" of ana in organization acme, valid until it is revoked\.$/mu)
    expect(stdout).toMatch(/shown once/u)

    const before = Date.now()
    const made = keyOf(
      await cli("keys", "create", "--org", "acme", "--member", "bot", "--name", "robot", "--expires", "30d")
    )
    expect(made).toMatchObject({ name: "robot", org: "acme", member: "bot", expiresAt: expect.stringMatching(isoTime) })
    const lifetime = Date.parse(made.expiresAt ?? "") - before
    expect(lifetime).toBeGreaterThanOrEqual(30 * 86_400_000)
    expect(lifetime).toBeLessThan(30 * 86_400_000 + 60_000)

    expect(await typed("keys", "create", "--org", "acme", "--member", "zoe")).toEqual(
      refused('No member is named "zoe".')
    )

    expect(await cli("keys", "revoke", made.id)).toEqual({
      id: made.id,
      name: "robot",
      revokedAt: expect.stringMatching(isoTime)
    })
    expect(await typed("keys", "revoke", "nonsense")).toEqual(refused('No API key is named "nonsense".'))

    const listed = await cli("keys", "list", "--org", "acme")
    expect(listed).toMatchObject([
      { name: "laptop", member: "ana", state: "active", expiresAt: null, revokedAt: null },
      { id: made.id, name: "robot", member: "bot", state: "revoked", hint: made.key.slice(0, 12) }
    ])
    expect(JSON.stringify(listed)).not.toContain(made.key)
    const { stdout: table } = await typed("keys", "list", "--org", "acme")
    const [header = "", laptop = "", robot = ""] = table.split("\n")
    const column = header.indexOf("MEMBER")
    expect([laptop.slice(column, column + 4), robot.slice(column, column + 4)]).toEqual(["ana ", "bot "])
  })

  test("credit, exact to the nano-USD", async () => {
    expect(await cli("credits", "grant", "0.1", "--org", "acme")).toEqual({ org: "acme", balance_usd: 0.1 })
    expect(await cli("credits", "grant", "0.200000001", "--org", "acme", "--note", "gift")).toEqual({
      org: "acme",
      balance_usd: 0.300000001
    })
    expect(await typed("credits", "balance", "--org", "acme")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Organization acme has 0.300000001 USD")
    })
    expect(await typed("credits", "grant", "1", "--org", "nobody")).toEqual(
      refused('No organization is named "nobody".')
    )
  })

  test("models, with prices per million", async () => {
    const served = modelsOf(await cli("models"))
    expect(served.find(({ id }) => id === "fake-model")).toMatchObject({
      access_methods: ["service"],
      capabilities: { maxInputTokens: 128_000, maxOutputTokens: 16_384 },
      pricing: { inputPerM: 2.5, outputPerM: 10, cacheReadPerM: 1.25, cacheWritePerM: null }
    })
    const { stdout } = await typed("models")
    expect(stdout).toMatch(/^fake-model +service +128000 +16384 +2\.5 +10 +1\.25 +2\.5$/mu)
  })

  test("doctor finds nothing wrong", async () => {
    const { code, stderr, stdout } = await typed("doctor")
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    expect(stdout).toMatch(/^(ok [\w ]+: .+\n)+$/u)
    expect(stdout).toMatch(/^ok store: /mu)
  })

  test("a key works until it is revoked; what it spent is in the usage", async () => {
    const spender = keyOf(await cli("keys", "create", "--org", "acme"))
    await service.start()
    fake.next(text("Good morning.", { usage: usage({ prompt: 1_000, completion: 100 }) }))
    expect(await complete(spender.key)).toBe(200)

    if (store !== "Postgres") {
      // The embedded store is one process's alone; what needs no store works beside it.
      expect(await typed("orgs", "list")).toEqual(refused(/DATA_DIR .+ is in use by process \d+\..+/u))
      expect((await typed("models")).code).toBe(0)
      await service.terminate()
    }

    // 1,000 input at 2.5 and 100 output at 10 USD per million.
    const today = new Date().toISOString().slice(0, 10)
    expect(await cli("usage", "--org", "acme", "--days", "1")).toEqual({
      org: "acme",
      since: `${today}T00:00:00.000Z`,
      total_cost_usd: 0.0035,
      usage: [
        { day: today, model: "fake-model", usage_events: 1, input_tokens: 1_000, output_tokens: 100, cost_usd: 0.0035 }
      ]
    })
    const { stdout } = await typed("usage", "--org", "acme")
    expect(stdout).toMatch(/^\d{4}-\d\d-\d\d {2}fake-model +1 +1000 +100 +0\.0035$/mu)
    expect((await balanceOf(service, "acme")).balance_usd).toBe(0.296500001)

    await cli("keys", "revoke", spender.id)
    if (store !== "Postgres") await service.start()
    const deadline = Date.now() + 5_000
    let status = await complete(spender.key)
    while (status === 200 && Date.now() < deadline) status = await complete(spender.key)
    expect(status).toBe(401)
    await service.terminate()
  })
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

const modelsOf = Schema.decodeUnknownSync(
  Schema.Array(
    Schema.StructWithRest(Schema.Struct({ id: Schema.String }), [Schema.Record(Schema.String, Schema.Unknown)])
  )
)
