import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { type Books, costOf, readBooks } from "../faults/Books.ts"
import { ask, billing, type Caller, hello, openStream } from "../faults/ChatClient.ts"
import { errorChunk, expectEnvelope, expectInvariants } from "../faults/Invariants.ts"
import { writeModels } from "../faults/ModelsFile.ts"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { prepareService, type ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"

/** What "Hi" counts as input: the word, its message, the request. */
const input = 8

/** USD. */
const credits = { crowd: 0.0015, leaver: 1, unlucky: 1, unreported: 1, tight: 0.001, penniless: 0 }
type Org = keyof typeof credits

const stores = [
  { store: "Postgres", processes: 2, options: async () => ({ databaseUrl: await freshDatabase("money") }) },
  { store: "the embedded store", processes: 1, options: async () => ({}) }
]

describe.each(stores)("money, on $store", ({ options, processes }) => {
  let fake: FakeOpenAi
  let services: ReadonlyArray<ServiceProcess>
  let service: ServiceProcess
  let keys: Readonly<Record<Org, string>>

  const caller = (org: Org, at = service): Caller => ({ baseUrl: at.baseUrl, key: keys[org] })

  /** An embedded store shows its holds only when its service has ended: the last test looks there. */
  const holdsOf = async (org: Org): Promise<Books["holds"]> =>
    processes === 1 ? [] : (await readBooks(service)).holds.filter((hold) => hold.org === org)

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    const MODELS_FILE = await writeModels([
      { id: "fake-model", baseUrl: fake.baseUrl },
      { id: "free-model", baseUrl: fake.baseUrl, free: true }
    ])
    const store = await options()
    services = await Promise.all(
      Array.from({ length: processes }, () =>
        prepareService({ ...store, fake, env: { MODELS_FILE, DRAIN_DELAY: "0s" } })
      )
    )
    service = services[0] ?? expect.fail("no service")
    keys = await openAccounts(service, credits)
    await Promise.all(services.map((one) => one.start()))
  })
  afterAll(async () => {
    await Promise.all(services.map((one) => one.remove()))
    await fake.close()
  })
  beforeEach(() => fake.clear())

  test("a hundred at once with credit for one: one is served", async () => {
    fake.respond(Faults.after(300)(text("Good morning.", { usage: usage({ prompt: input, completion: 100 }) })))
    const balances: Array<number> = []
    let running = true
    const watch = async () => {
      while (running) {
        balances.push((await billing(caller("crowd"))).balance_usd)
        await sleep(20)
      }
    }
    const watched = watch()
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        ask(caller("crowd", services[index % processes]), hello({ max_tokens: 100 }))
      )
    )
    running = false
    await watched

    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const refused = answers.filter(({ status }) => status === 402)
    expect(refused).toHaveLength(99)
    for (const answer of refused) {
      expect(expectEnvelope(answer)).toMatchObject({ code: "insufficient_credits", retryable: false })
    }
    expect(fake.requests).toHaveLength(1)
    expect(Math.min(...balances)).toBeGreaterThanOrEqual(0)
    expect(await holdsOf("crowd")).toEqual([])
    // 8 input tokens at 2.5 and 100 output tokens at 10 USD per million.
    expect(await billing(caller("crowd"))).toEqual({
      balance_usd: 0.00048,
      recent_model_usage: [{ cost_usd: 0.00102, input_tokens: input, output_tokens: 100 }]
    })
  })

  test("a client that leaves mid-stream pays once, for what was delivered", async () => {
    const pieces = Array.from({ length: 50 }, (_, index) => `word${index} `)
    fake.next(Faults.every(50)(text("", { pieces })))
    const arrived = fake.arrival()
    const stream = await openStream(caller("leaver"))
    await stream.reached(5)
    const left = Date.now()
    stream.leave()

    const upstream = await (await arrived).ended
    expect(upstream.by).toBe("client")
    expect(upstream.at - left).toBeLessThan(1_000)
    const charged = async () => (await billing(caller("leaver"))).recent_model_usage
    await expect.poll(charged, { timeout: 1_000 }).toHaveLength(1)
    expect(await holdsOf("leaver")).toEqual([])
    expect(Date.now() - left).toBeLessThan(1_000)

    // "wordN " counts two or three tokens; what was under way when the client left was delivered, too.
    const [{ input_tokens, output_tokens: output } = expect.fail("no charge")] = await charged()
    expect(input_tokens).toBe(input)
    expect(output).toBeGreaterThanOrEqual(10)
    expect(output).toBeLessThan(40)
    expect(await billing(caller("leaver"))).toMatchObject({
      balance_usd: Number(1_000_000_000n - costOf({ input, output })) / 1e9
    })
  })

  test("an upstream that fails mid-stream: an error chunk, and one charge", async () => {
    fake.next(Faults.resetAfter(4)(text("One two three four five six seven eight.")))
    const stream = await openStream(caller("unlucky"))
    expect(await stream.ended).toBe("error")
    expect(stream.said()).toBe("One two three")
    expect(errorChunk(stream.raw())).toMatchObject({
      code: "upstream_error",
      retryable: true,
      requestId: stream.requestId
    })
    expect(fake.requests).toHaveLength(1)
    const charged = async () => (await billing(caller("unlucky"))).recent_model_usage
    await expect.poll(charged, { timeout: 1_000 }).toMatchObject([{ input_tokens: input, output_tokens: 3 }])
    expect(await holdsOf("unlucky")).toEqual([])
  })

  test.each([false, true])("an upstream that reports no usage: counted and charged (stream: %s)", async (stream) => {
    fake.next(text("One two three.", { usage: null }))
    const before = (await billing(caller("unreported"))).recent_model_usage
    const answer = await ask(
      caller("unreported"),
      hello(stream ? { stream, stream_options: { include_usage: true } } : {})
    )
    expect(answer.status).toBe(200)
    // 8 input tokens at 2.5 and 4 output tokens at 10 USD per million.
    expect(answer.text).toContain(`"cost":0.00006`)
    expect((await billing(caller("unreported"))).recent_model_usage).toEqual([
      { cost_usd: 0.00006, input_tokens: input, output_tokens: 4 },
      ...before
    ])
    expect(await holdsOf("unreported")).toEqual([])
  })

  test("without max_tokens the upstream gets the cap that the credit allows", async () => {
    // 0.001 USD less 8 input tokens at 2.5 buys 98 output tokens at 10 USD per million.
    fake.next(text("Good morning.", { usage: usage({ prompt: input, completion: 98 }) }))
    expect((await ask(caller("tight"))).status).toBe(200)
    expect(fake.requests[0]?.body.max_completion_tokens ?? fake.requests[0]?.body.max_tokens).toBe(98)
    expect(await billing(caller("tight"))).toMatchObject({ balance_usd: 0 })
    expect(expectEnvelope(await ask(caller("tight"))).code).toBe("insufficient_credits")
    expect(fake.requests).toHaveLength(1)
  })

  test("an account without credit may use a free model", async () => {
    expect(expectEnvelope(await ask(caller("penniless"))).code).toBe("insufficient_credits")
    expect((await ask(caller("penniless"), hello({ model: "free-model" }))).status).toBe(200)
    expect(await billing(caller("penniless"))).toMatchObject({ balance_usd: 0, recent_model_usage: [{ cost_usd: 0 }] })
  })

  test("afterwards the books are in order", async () => {
    await Promise.all(services.map((one) => one.terminate()))
    const { accounts, events } = await expectInvariants({
      services,
      fake,
      secrets: [fake.apiKey, ...Object.values(keys)]
    })
    expect(accounts.map(({ held, org }) => [org, held])).toEqual(
      Object.keys(credits)
        .sort()
        .map((org) => [org, 0n])
    )
    const estimated = events.filter((event) => event.estimated).map(({ org }) => org)
    expect(estimated).toEqual(["leaver", "unlucky", "unreported", "unreported"])
  })
})
