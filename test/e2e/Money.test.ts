import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import { freshDatabase } from "../fixtures/Postgres.ts"
import { type Account, prepareService, type ServiceProcess, setUpAccount } from "../fixtures/ServiceProcess.ts"
import { type Books, costOf, readBooks } from "../faults/Books.ts"
import { ask, type Caller, hello, openStream } from "../faults/ChatClient.ts"
import { writeModels } from "../faults/ModelsFile.ts"
import { errorChunk, expectBalancedBooks, expectEnvelope, expectInvariants } from "../faults/Invariants.ts"

/** What "Hi" counts as input: the word, its message, the request. */
const input = 8

const stores = [
  { store: "Postgres", processes: 2, databaseUrl: () => freshDatabase("money") },
  { store: "the embedded store", processes: 1, databaseUrl: () => Promise.resolve(undefined) }
]

describe.each(stores)("money, on $store", ({ databaseUrl, processes }) => {
  let fake: FakeOpenAi
  let services: Array<ServiceProcess>
  let service: ServiceProcess
  const accounts = new Map<string, Account>()

  /** USD. */
  const credits = { crowd: 0.0015, leaver: 1, unlucky: 1, unreported: 1, tight: 0.001, penniless: 0 }

  const caller = (org: keyof typeof credits, at = service): Caller => ({
    baseUrl: at.baseUrl,
    key: accounts.get(org)?.key ?? expect.fail(`no account ${org}`)
  })

  /** The charges of one account, once they can be read: an embedded store only when its service does not run. */
  const books = async (org: keyof typeof credits): Promise<Books> => {
    if (service.env["DATABASE_URL"] === undefined) await service.terminate()
    const all = await readBooks(service)
    if (service.env["DATABASE_URL"] === undefined) await service.start()
    expectBalancedBooks(all)
    const mine = <A extends { readonly org: string }>(lines: ReadonlyArray<A>) => lines.filter((line) => line.org === org)
    return {
      accounts: mine(all.accounts),
      entries: mine(all.entries),
      holds: mine(all.holds),
      events: mine(all.events)
    }
  }

  beforeAll(async () => {
    fake = await startFakeOpenAi()
    const url = await databaseUrl()
    const { baseUrl } = fake
    const models = await writeModels([
      { id: "fake-model", baseUrl },
      { id: "free-model", baseUrl, free: true }
    ])
    services = await Promise.all(
      Array.from({ length: processes }, () =>
        prepareService({
          fake,
          env: { DRAIN_DELAY: "0s", MODELS_FILE: models },
          ...(url === undefined ? {} : { databaseUrl: url })
        })
      )
    )
    service = services[0] ?? expect.fail("no service")
    for (const [org, credit] of Object.entries(credits)) accounts.set(org, await setUpAccount(service, { org, credit }))
    await Promise.all(services.map((one) => one.start()))
  }, 120_000)
  afterAll(async () => {
    await Promise.all(services.map((one) => one.remove()))
    await fake.close()
  })
  beforeEach(() => fake.clear())

  test("a hundred at once with credit for one: one is served", async () => {
    const cost = costOf({ input, output: 100 })
    fake.respond(Faults.after(300)(text("Good morning.", { usage: usage({ prompt: input, completion: 100 }) })))
    const seen: Array<Books["accounts"][number] | undefined> = []
    let watching = processes > 1
    const watch = async () => {
      while (watching) {
        seen.push((await readBooks(service)).accounts.find(({ org }) => org === "crowd"))
        await sleep(20)
      }
    }
    const watched = watch()
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        ask(caller("crowd", services[index % processes]), hello({ max_tokens: 100 }))
      )
    )
    watching = false
    await watched

    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const refused = answers.filter(({ status }) => status === 402)
    expect(refused).toHaveLength(99)
    for (const answer of refused) {
      expect(expectEnvelope(answer)).toMatchObject({ code: "insufficient_credits", retryable: false })
    }
    expect(fake.requests).toHaveLength(1)
    for (const account of seen) expect(account !== undefined && account.balance >= account.held).toBe(true)
    const { accounts, events, holds } = await books("crowd")
    expect(holds).toEqual([])
    expect(events).toMatchObject([{ input, output: 100, cost, estimated: false }])
    expect(accounts).toEqual([{ org: "crowd", balance: 1_500_000n - cost, held: 0n }])
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
    if (processes > 1) {
      await expect.poll(async () => (await books("leaver")).holds, { timeout: 1_000, interval: 50 }).toEqual([])
    }
    const { accounts, events, holds } = await books("leaver")
    expect(holds).toEqual([])
    expect(events).toMatchObject([{ requestId: stream.requestId, input, estimated: true }])
    // "wordN " counts two or three tokens; what was under way when the client left was delivered, too.
    const output = events[0]?.output ?? 0
    expect(output).toBeGreaterThanOrEqual(10)
    expect(output).toBeLessThan(40)
    expect(accounts).toMatchObject([{ balance: 1_000_000_000n - costOf({ input, output }) }])
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
    const { events, holds } = await books("unlucky")
    expect(holds).toEqual([])
    expect(events).toMatchObject([{ requestId: stream.requestId, input, output: 3, estimated: true }])
  })

  test.each([false, true])("an upstream that reports no usage: counted and charged (stream: %s)", async (stream) => {
    fake.next(text("One two three.", { usage: null }))
    const before = (await books("unreported")).events.length
    const answer = await ask(caller("unreported"), hello({ stream, stream_options: { include_usage: true } }))
    expect(answer.status).toBe(200)
    const { events, holds } = await books("unreported")
    expect(holds).toEqual([])
    const cost = costOf({ input, output: 4 })
    expect(events.slice(before)).toMatchObject([{ input, output: 4, cost, estimated: true }])
    expect(answer.text).toContain(`"cost":${Number(cost) / 1e9}`)
  })

  test("without max_tokens the upstream gets the cap that the credit allows", async () => {
    fake.next(text("Good morning.", { usage: usage({ prompt: input, completion: 98 }) }))
    expect((await ask(caller("tight"))).status).toBe(200)
    // 0.001 USD less 8 input tokens at 2.5 buys 98 output tokens at 10 USD per million.
    const [request] = fake.requests
    expect(request?.body.max_completion_tokens ?? request?.body.max_tokens).toBe(98)
    const { accounts } = await books("tight")
    expect(accounts).toEqual([{ org: "tight", balance: 0n, held: 0n }])
    expect((await ask(caller("tight"))).status).toBe(402)
    expect(fake.requests).toHaveLength(1)
  })

  test("an account without credit may use a free model", async () => {
    const refused = await ask(caller("penniless"))
    expect(expectEnvelope(refused).code).toBe("insufficient_credits")
    const answer = await ask(caller("penniless"), hello({ model: "free-model" }))
    expect(answer.status).toBe(200)
    const { accounts, entries, events } = await books("penniless")
    expect(accounts).toEqual([{ org: "penniless", balance: 0n, held: 0n }])
    expect(entries).toEqual([])
    expect(events).toMatchObject([{ cost: 0n }])
  })

  test("afterwards the books are in order", async () => {
    await Promise.all(services.map((one) => one.terminate()))
    await expectInvariants({ services, fake, secrets: [fake.apiKey, ...[...accounts.values()].map(({ key }) => key)] })
  })
})
