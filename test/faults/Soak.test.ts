import { Option, Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, expect, test } from "vitest"
import { Envelope } from "../../src/adapters/http/gateway/GatewayEnvelope.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { type Books, costOf, readBooks } from "./Books.ts"
import { type Caller, hello, send } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { expectInvariants } from "./Invariants.ts"
import { inTurn, prepareReplicas } from "./Replicas.ts"
import { input, type Planned, planSoak, type SoakUpstream, soakUpstream } from "./SoakPlan.ts"

const requests = Number(process.env["SOAK_REQUESTS"] ?? 20_000)
/** The same seed plans the same requests. */
const seed = Number(process.env["SOAK_SEED"] ?? Date.now() % 1_000_000)
const atOnce = 48

let fake: FakeOpenAi
let replicas: ReadonlyArray<ServiceProcess>
let keys: ReadonlyArray<string>
beforeAll(async () => {
  fake = await startFakeOpenAi()
  replicas = await prepareReplicas({ name: "soak", fake, env: { DRAIN_DELAY: "0s", RATE_LIMIT_CHAT: "1000000" } })
  keys = Object.values(await openAccounts(inTurn(replicas, 0), { one: 1_000, two: 1_000, three: 1_000 }))
  await Promise.all(replicas.map((replica) => replica.start()))
})
afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.remove()))
  await fake.close()
})

/**
 * What a client saw of its request. `served`: the whole answer. `failed`: a stream that ended with an error chunk.
 * `refused`: an error answer. `left`: it left before the end. `broken`: the connection broke, or was never made.
 */
type Outcome = "served" | "failed" | "refused" | "left" | "broken"

interface Seen {
  readonly planned: Planned
  readonly outcome: Outcome
  readonly status: number | undefined
  readonly text: string
  readonly ms: number
  /** Its replica was killed meanwhile. */
  readonly killed: boolean
}

const perform = async (caller: Caller, planned: Planned): Promise<Omit<Seen, "killed">> => {
  const { leavesAfter, requestId, stream } = planned
  const began = performance.now()
  const abort = new AbortController()
  const timer = leavesAfter === undefined ? undefined : setTimeout(() => abort.abort(), leavesAfter)
  const body = hello({ stream, messages: [{ role: "user", content: requestId }] })
  const decoder = new TextDecoder()
  let status: number | undefined
  let text = ""
  const seen = (outcome: Outcome) => ({ planned, outcome, status, text, ms: performance.now() - began })
  try {
    const answer = await send(caller, body, requestId, abort.signal)
    status = answer.statusCode
    for await (const bytes of answer.body as AsyncIterable<Buffer>) text += decoder.decode(bytes, { stream: true })
  } catch {
    return seen(abort.signal.aborted ? "left" : "broken")
  } finally {
    clearTimeout(timer)
  }
  if (status !== 200) return seen("refused")
  if (!stream || text.endsWith("data: [DONE]\n\n")) return seen("served")
  return seen(text.includes(`"error":`) ? "failed" : "broken")
}

/** All of the plan, and every replica killed and started again in turn. */
const run = async (plan: ReadonlyArray<Planned>): Promise<ReadonlyArray<Seen>> => {
  const seen: Array<Seen> = []
  const kills: Array<{ readonly replica: ServiceProcess; readonly at: number }> = []
  let serving = replicas
  const waiting = plan.entries()

  const client = async () => {
    for (const [turn, planned] of waiting) {
      const replica = inTurn(serving, turn)
      const began = performance.now()
      const one = await perform({ baseUrl: replica.baseUrl, key: keys[turn % keys.length] ?? "" }, planned)
      seen.push({ ...one, killed: kills.some((kill) => kill.replica === replica && kill.at >= began) })
    }
  }

  const killEach = async () => {
    for (const [turn, replica] of replicas.entries()) {
      while (seen.length < (plan.length * (turn + 1)) / 4) await sleep(20)
      kills.push({ replica, at: performance.now() })
      serving = replicas.filter((one) => one !== replica)
      await replica.kill()
      await replica.start()
      serving = replicas
    }
  }

  await Promise.all([killEach(), ...Array.from({ length: atOnce }, client)])
  return seen
}

/** What a bill must be for what the client saw; every breach by its rule. */
const breaches = (seen: ReadonlyArray<Seen>, { events }: Books, { spoke }: SoakUpstream): ReadonlyArray<string> => {
  const bills = Map.groupBy(events, ({ requestId }) => requestId)
  const known = new Set(seen.map(({ planned }) => planned.requestId))
  const unknown = [...bills.keys()].filter((id) => !known.has(id)).map((id) => `${id}: nobody asked`)
  const broken = seen.flatMap((one) => {
    const [bill, ...more] = bills.get(one.planned.requestId) ?? []
    const wrong = breachOf(one, bill, spoke.has(one.planned.requestId))
    const twice = more.length === 0 ? [] : ["billed more than once"]
    return [...wrong, ...twice].map((rule) => `${one.planned.requestId} (${one.outcome}): ${rule}`)
  })
  return [...unknown, ...broken]
}

const breachOf = (seen: Seen, bill: Books["events"][number] | undefined, spoke: boolean): ReadonlyArray<string> => {
  const { killed, outcome, planned, status, text } = seen
  const heard = /"content":"[^"]/u.test(text)
  const breach = (rule: string, holds: boolean) => (holds ? [] : [rule])
  const always = breach("billed, and nothing was delivered", bill === undefined || spoke)
  switch (outcome) {
    case "served": {
      const { output } = planned
      const cost = costOf({ input, output })
      const exact = bill?.input === input && bill.output === output && bill.cost === cost && !bill.estimated
      return [
        ...always,
        ...breach("served and not billed as it was used", exact),
        ...breach("told another price", planned.stream || priceIn(text) === Number(cost) / 1e9)
      ]
    }
    case "refused":
      return [
        ...always,
        ...breach("billed for an error", bill === undefined),
        ...breach(
          `answered with ${status}: ${text}`,
          isEnvelope(text, planned.requestId) && (status === 502 || status === 503)
        )
      ]
    case "failed":
      return [...always, ...breach("heard and not billed", !heard || bill?.estimated === true)]
    case "left":
      return [...always, ...breach("heard and not billed", !heard || killed || bill !== undefined)]
    case "broken":
      return [...always, ...breach("broke though nobody was killed", killed)]
  }
}

const priceIn = (text: string): number => decodePrice(JSON.parse(text)).usage.cost
const decodePrice = Schema.decodeUnknownSync(Schema.Struct({ usage: Schema.Struct({ cost: Schema.Finite }) }))

/** An answer of the service to this request, and of nobody else. */
const isEnvelope = (text: string, requestId: string): boolean =>
  Option.exists(decodeEnvelope(text), ({ error }) => error.requestId === requestId)
const decodeEnvelope = Schema.decodeUnknownOption(Schema.fromJsonString(Envelope), { onExcessProperty: "error" })

test(
  `${requests} requests over three replicas, each killed once: every answer is in the books once, and nothing else`,
  { timeout: 120_000 + requests * 20 },
  async () => {
    const plan = planSoak(requests, seed)
    const upstream = soakUpstream(plan)
    fake.respond(upstream.answer)
    const began = performance.now()
    const seen = await run(plan)
    const seconds = secondsSince(began)
    report(seen, seconds)

    const ended = performance.now()
    const holds = async () => (await readBooks(inTurn(replicas, 0))).holds.length
    await expect.poll(holds, { timeout: 60_000, interval: 1_000 }).toBe(0)
    figure("the last hold was ended after", secondsSince(ended))

    const books = await expectInvariants({ services: replicas, fake, secrets: [...keys, fake.apiKey] })
    expect(seen).toHaveLength(requests)
    expect(breaches(seen, books, upstream)).toEqual([])
    // What each replica was serving when it was killed, and a few that reached it no more.
    expect(seen.filter(({ outcome }) => outcome === "broken").length).toBeLessThanOrEqual(3 * atOnce)
    expect(seen.filter(({ outcome }) => outcome === "served").length).toBeGreaterThan(requests / 2)
  }
)

const report = (seen: ReadonlyArray<Seen>, seconds: number): void => {
  const outcomes = Map.groupBy(seen, ({ outcome }) => outcome)
  const counts = [...outcomes].map(([outcome, those]) => `${those.length} ${outcome}`).sort()
  const waits = (outcomes.get("served") ?? []).map(({ ms }) => ms).sort((a, b) => a - b)
  const quantile = (part: number) => waits[Math.floor(waits.length * part)]?.toFixed(0)
  console.log(
    `soak (SOAK_SEED=${seed}): ${seen.length} requests in ${seconds.toFixed(0)} s, ` +
      `${(seen.length / seconds).toFixed(0)} a second; ${counts.join(", ")}; ` +
      `served within ${quantile(0.5)} ms at the median, ${quantile(0.99)} ms at p99`
  )
}
