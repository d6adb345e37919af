import { Schema } from "effect"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { readdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { text } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import { balanceOf, prepareService, type ServiceProcess, stores } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"

/** Organizations with provider keys of their own, on a service whose operator has none. */

const main = join(import.meta.dirname, "../../src/main.ts")

/** No scanner may take it for a real one, and nothing but the upstream may ever see it. */
const ownKey = "sk-canary-0123456789abcdef"

const Models = Schema.Struct({
  data: Schema.Array(Schema.Struct({ id: Schema.String, access_methods: Schema.Array(Schema.String) }))
})

describe.each(stores)("organizations' own keys, on $store", ({ options, store }) => {
  const embedded = store !== "Postgres"
  let fake: FakeOpenAi
  let service: ServiceProcess
  let acme: string
  let other: string

  /** Runs a command with something on its standard input. */
  const fed = (input: string, env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
    new Promise<{ readonly stdout: string; readonly stderr: string }>((resolve) => {
      const child = execFile(process.execPath, [main, ...args], { env, timeout: 30_000 }, (_, stdout, stderr) =>
        resolve({ stdout, stderr })
      )
      child.stdin?.end(input)
    })

  const get = (key: string) => fetch(`${service.baseUrl}/v1/models`, { headers: { authorization: `Bearer ${key}` } })

  const listed = async (key: string) =>
    new Map(
      Schema.decodeUnknownSync(Models)(await (await get(key)).json()).data.map(({ access_methods, id }) => [
        id,
        access_methods
      ])
    )

  const complete = async (key: string, fields: object = {}, { baseUrl } = service) => {
    const response = await fetch(`${baseUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Hi" }], ...fields })
    })
    return { status: response.status, body: await response.json() }
  }

  beforeAll(async () => {
    fake = await startFakeOpenAi({ apiKey: ownKey })
    const env = {
      DRAIN_DELAY: "0s",
      OPENAI_BASE_URL: fake.baseUrl,
      ...(embedded ? {} : { SECRETS_KEY: randomBytes(32).toString("base64") })
    }
    service = await prepareService({ env, ...(await options()) })
    ;({ acme, other } = await openAccounts(service, { acme: 1, other: 1 }))
    const { stderr, stdout } = await fed(`${ownKey}\n`, service.env, "provider-keys", "set", "openai", "--org", "acme")
    expect({ stdout, stderr }).toEqual({ stdout: expect.stringMatching(/^Stored the key \.\.\.cdef /u), stderr: "" })
    await service.start()
  }, 120_000)
  afterAll(async () => {
    await service.remove()
    await fake.close()
  })

  test("every organization sees the models that it can use", async () => {
    const [own, foreign] = [await listed(acme), await listed(other)]
    expect(own.get("gpt-4o")).toEqual(["vendor-b-api-key"])
    expect(own.get("echo")).toEqual(["service"])
    expect([...own.keys()].filter((id) => id.startsWith("claude"))).toEqual([])
    expect([...foreign]).toEqual([["echo", ["service"]]])
  })

  test("the organization's key pays, and its credit does not", async () => {
    fake.next(text("Good morning."))
    expect(await complete(acme)).toMatchObject({
      status: 200,
      body: { choices: [{ message: { content: "Good morning." } }], usage: { cost: 0 } }
    })
    expect(fake.requests.at(-1)?.headers.authorization).toBe(`Bearer ${ownKey}`)
  })

  test("without a key it is a 403, with a method that the model does not have a 400", async () => {
    const asked = fake.log.length
    const forbidden = { status: 403, body: { error: { code: "forbidden", retryable: false } } }
    expect(await complete(other)).toMatchObject(forbidden)
    expect(await complete(other, { access_method: "vendor-b-api-key" })).toMatchObject(forbidden)
    const issues = [{ path: "access_method", message: expect.stringContaining("vendor-b-api-key") }]
    const invalid = { status: 400, body: { error: { code: "invalid_request", details: { issues } } } }
    expect(await complete(acme, { access_method: "service" })).toMatchObject(invalid)
    expect(fake.log.length).toBe(asked)
  })

  test.skipIf(embedded)("a replica with another SECRETS_KEY answers 500, and its log says why", async () => {
    const { DATABASE_URL: databaseUrl = "", PORT: _, ...env } = service.env
    const astray = await prepareService({
      databaseUrl,
      env: { ...env, SECRETS_KEY: randomBytes(32).toString("base64") }
    })
    try {
      await astray.start()
      const answer = await complete(acme, {}, astray)
      expect(answer).toMatchObject({ status: 500, body: { error: { code: "internal_error" } } })
      await astray.terminate()
      expect(astray.logs().stdout).toContain("A stored secret was encrypted under another SECRETS_KEY.")
    } finally {
      await astray.remove()
    }
  })

  test.skipIf(embedded)("a key that another process stores works within a second", async () => {
    expect((await complete(other)).status).toBe(403)
    await fed(ownKey, service.env, "provider-keys", "set", "openai", "--org", "other")
    fake.next(text("Good morning."))
    await expect.poll(async () => (await complete(other)).status, { timeout: 1_000, interval: 50 }).toBe(200)
    await service.cli(["provider-keys", "remove", "openai", "--org", "other"])
    await expect.poll(async () => (await complete(other)).status, { timeout: 1_000, interval: 50 }).toBe(403)
  })

  test.runIf(embedded)("a key is in .env, which only its owner reads, and may be changed there", async () => {
    const file = join(service.env["DATA_DIR"] ?? "", "workspaces/acme/.env")
    expect(await readFile(file, "utf8")).toBe(`OPENAI_API_KEY=${ownKey}\n`)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    await writeFile(file, "OPENAI_API_KEY=\n")
    await expect.poll(async () => (await complete(acme)).status, { timeout: 1_000, interval: 50 }).toBe(403)
    await writeFile(file, `# by hand\nOPENAI_API_KEY="${ownKey}" # mine\n`)
    fake.next(text("Good morning."))
    await expect.poll(async () => (await complete(acme)).status, { timeout: 1_000, interval: 50 }).toBe(200)
  })

  test("a removed key stops working within a second, and is nowhere then", { timeout: 120_000 }, async () => {
    if (embedded) await service.terminate()
    expect(await service.cli(["provider-keys", "remove", "openai", "--org", "acme"])).toMatchObject({ hint: "cdef" })
    if (embedded) await service.start()
    await expect.poll(async () => (await complete(acme)).status, { timeout: 1_000, interval: 50 }).toBe(403)
    expect([...(await listed(acme)).keys()]).toEqual(["echo"])
    await service.terminate()
    expect(await balanceOf(service, "acme")).toMatchObject({ balance_usd: 1, held_usd: 0 })

    const { stderr, stdout } = service.logs()
    expect(stdout + stderr).not.toContain(ownKey)
    const directory = service.env["DATA_DIR"]
    if (directory === undefined) return
    const files = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((file) => file.isFile())
    expect(files.map(({ name }) => name)).toContain(".env")
    for (const { name, parentPath } of files) {
      expect((await readFile(join(parentPath, name))).includes(ownKey)).toBe(false)
    }
  })

  test.skipIf(embedded)(
    "without SECRETS_KEY, or with a wrong one, no key is stored, and one line says why",
    async () => {
      const { SECRETS_KEY: _, ...without } = service.env
      expect(await fed(ownKey, without, "provider-keys", "set", "openai", "--org", "acme")).toEqual({
        stdout: "",
        stderr: expect.stringMatching(/^SECRETS_KEY is not set, .+: openssl rand -base64 32\n$/u)
      })
      expect(await fed(ownKey, { ...without, SECRETS_KEY: "short" }, "provider-keys", "set", "openai")).toEqual({
        stdout: "",
        stderr: "SECRETS_KEY: expected 32 bytes in base64, as `openssl rand -base64 32` prints them.\n"
      })
    }
  )
})
