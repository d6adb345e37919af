import { setTimeout as sleep } from "node:timers/promises"
import { afterEach, beforeEach, describe, expect, test } from "vitest"
import { text, usage } from "../fixtures/openai/Completions.ts"
import { type FakeOpenAi, startFakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import * as Faults from "../fixtures/openai/Faults.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { openAccounts } from "../fixtures/Store.ts"
import { costOf, readBooks } from "./Books.ts"
import { ask, type Caller, openStream } from "./ChatClient.ts"
import { figure, secondsSince } from "./Figures.ts"
import { expectInvariants } from "./Invariants.ts"
import { type Nginx, nginxProgram, startNginx } from "./Nginx.ts"
import { inTurn, prepareReplicas } from "./Replicas.ts"

/** Pieces of a stream and milliseconds between two of them: a second and a half in all. */
const pieces = 30
const pace = 50

const said = text("", {
  pieces: Array.from({ length: pieces }, () => " word"),
  usage: usage({ prompt: 8, completion: pieces })
})
const cost = costOf({ input: 8, output: pieces })

let fake: FakeOpenAi
let replicas: ReadonlyArray<ServiceProcess>
let nginx: Nginx | undefined
let caller: Caller
beforeEach(async () => {
  fake = await startFakeOpenAi()
  replicas = []
})
afterEach(async () => {
  await nginx?.remove()
  await Promise.all(replicas.map((replica) => replica.remove()))
  await fake.close()
})

const serve = async (env: Readonly<Record<string, string>>): Promise<void> => {
  replicas = await prepareReplicas({ name: "nginx", fake, env: { RATE_LIMIT_CHAT: "1000000", ...env } })
  const { org: key } = await openAccounts(inTurn(replicas, 0), { org: 1_000 })
  await Promise.all(replicas.map((replica) => replica.start()))
  nginx = await startNginx({ replicas })
  caller = { baseUrl: nginx.baseUrl, key }
}

interface Seen {
  readonly requestId: string
  readonly served: boolean
  /** As `performance.now()`. */
  readonly began: number
  readonly ended: number
}

/** Streams and JSON requests without a pause while something happens to the replicas. */
const underLoad = async (happens: () => Promise<void>): Promise<ReadonlyArray<Seen>> => {
  fake.respond((request) => (request.body.stream === true ? Faults.every(pace) : Faults.after(pace))(said)(request))
  const seen: Array<Seen> = []
  let running = true
  const client = async (one: () => Promise<Pick<Seen, "requestId" | "served">>) => {
    while (running) {
      const began = performance.now()
      const answer = await one()
      seen.push({ ...answer, began, ended: performance.now() })
    }
  }
  const stream = async () => {
    const { ended, requestId } = await openStream(caller)
    return { requestId, served: (await ended) === "done" }
  }
  const json = async () => {
    const { headers, status } = await ask(caller)
    return { requestId: String(headers["x-request-id"]), served: status === 200 }
  }
  const clients = [
    ...Array.from({ length: 24 }, () => client(stream)),
    ...Array.from({ length: 8 }, () => client(json))
  ]
  await sleep(2_000)
  await happens().finally(() => (running = false))
  await Promise.all(clients)
  return seen
}

describe.skipIf(nginxProgram === undefined)("behind nginx (skipped where it is not installed)", () => {
  test("kill -9 of one: what it was serving fails, and nothing else", async () => {
    await serve({ DRAIN_DELAY: "0s" })
    const killed = inTurn(replicas, 1)
    let at = 0
    let gone = 0
    const seen = await underLoad(async () => {
      at = performance.now()
      await killed.kill()
      gone = performance.now()
      await sleep(3_000)
      await killed.start()
      await sleep(3_000)
    })

    const sentTo = (await nginx?.sentTo()) ?? new Map<string, ReadonlyArray<string>>()
    const address = new URL(killed.baseUrl).host
    const lost = seen.filter(({ served }) => !served)
    console.log(
      `kill -9 behind nginx: ${lost.length} of ${seen.length} requests failed; it died in ${(gone - at).toFixed(0)} ms, ` +
        `the last of them was sent after ${Math.max(...lost.map(({ began }) => began - at)).toFixed(0)} ms`
    )
    expect(lost.length).toBeGreaterThan(0)
    for (const { began, ended, requestId } of lost) {
      expect(sentTo.get(requestId), requestId).toEqual([address])
      // While a process dies its sockets still take requests.
      expect(began).toBeLessThan(gone)
      expect(ended).toBeGreaterThan(at)
    }
    // It serves again.
    const after = seen.filter(({ began, requestId }) => began > at && sentTo.get(requestId)?.at(-1) === address)
    expect(after.length).toBeGreaterThan(0)

    const holds = async () => (await readBooks(killed)).holds.length
    await expect.poll(holds, { timeout: 60_000, interval: 500 }).toBe(0)
    const { events } = await expectInvariants({ services: replicas, fake, secrets: [caller.key] })
    const bills = Map.groupBy(events, ({ requestId }) => requestId)
    for (const { requestId, served } of seen) {
      if (served) expect(bills.get(requestId)).toMatchObject([{ cost, estimated: false }])
      else expect(bills.get(requestId)?.length ?? 0).toBeLessThanOrEqual(1)
    }
  })

  test("a rolling restart: nothing fails", async () => {
    await serve({})
    const began = performance.now()
    const seen = await underLoad(async () => {
      for (const replica of replicas) {
        expect(await replica.terminate()).toBe(0)
        await replica.start()
      }
      await sleep(2_000)
    })
    figure("a rolling restart of three took", secondsSince(began))
    const lost = seen.filter(({ served }) => !served)
    console.log(`a rolling restart behind nginx: ${lost.length} of ${seen.length} requests failed`)
    expect(lost).toEqual([])
    const { events } = await expectInvariants({ services: replicas, fake, secrets: [caller.key] })
    expect(new Set(events.map(({ requestId }) => requestId))).toEqual(new Set(seen.map(({ requestId }) => requestId)))
    expect(events.every((event) => event.cost === cost && !event.estimated)).toBe(true)
  })

  test.each(["as shipped", "usual"] as const)("buffering %s: every piece is there within 100 ms", async (buffering) => {
    await serve({ DRAIN_DELAY: "0s" })
    await nginx?.remove()
    nginx = await startNginx({ replicas, buffering })
    const through = { ...caller, baseUrl: nginx.baseUrl }
    const lags: Array<number> = []
    for (let run = 0; run < 10; run++) {
      const gates = Array.from({ length: 10 }, () => Promise.withResolvers<void>())
      // Before the head of the answer, then before every piece but the first, which comes along with the role.
      const gated = gates.reduceRight(
        (answer, { promise }, index) => Faults.pauseAt(index === 0 ? 0 : index + 1, promise)(answer),
        said
      )
      fake.next(gated)
      const arrived = fake.arrival()
      const opened = openStream(through)
      await arrived
      for (const [index, { resolve }] of gates.entries()) {
        await sleep(50)
        const released = performance.now()
        resolve()
        await (await opened).reached(index + 1)
        lags.push(performance.now() - released)
      }
      expect(await (await opened).ended).toBe("done")
    }
    const first = lags.filter((_, index) => index % 10 === 0)
    console.log(
      `through nginx, buffering ${buffering}: the first byte came after at most ` +
        `${Math.max(...first).toFixed(0)} ms, every piece after at most ${Math.max(...lags).toFixed(0)} ms`
    )
    expect(Math.max(...lags)).toBeLessThan(100)
    await expectInvariants({ services: replicas, fake, secrets: [caller.key] })
  })
})
