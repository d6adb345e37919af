import { Schema } from "effect"
import { readdir, readFile } from "node:fs/promises"
import { expect } from "vitest"
import { Envelope } from "../../src/adapters/http/gateway/GatewayEnvelope.ts"
import type { FakeOpenAi } from "../fixtures/openai/FakeOpenAi.ts"
import type { ServiceProcess } from "../fixtures/ServiceProcess.ts"
import { type Books, readBooks } from "./Books.ts"
import type { Answer } from "./ChatClient.ts"

export interface Aftermath {
  /** Every process that served. On an embedded store none may run any more. */
  readonly services: ReadonlyArray<ServiceProcess>
  readonly fake?: FakeOpenAi
  /** Nothing is being served: no hold may be open. Otherwise only holds past their lease may not. */
  readonly idle?: boolean
  /** What must stand in no log, answer or process argument. */
  readonly secrets?: ReadonlyArray<string>
  /** All that clients were told. */
  readonly told?: ReadonlyArray<string>
}

/**
 * What holds after every fault: balance = sum of the ledger; one settlement or release per hold; no hold past its
 * lease; no process or upstream connection left over; no planted secret told. Gives the books for a test's own checks.
 */
export const expectInvariants = async (aftermath: Aftermath): Promise<Books> => {
  const { fake, idle = true, secrets = [], services, told = [] } = aftermath
  const [first] = services
  if (first === undefined) throw new Error("nothing served")
  const books = await readBooks(first)
  expectBalancedBooks(books)
  expect(books.holds.filter(({ lapsed }) => idle || lapsed)).toEqual([])
  if (fake !== undefined && idle) await expectClosed(fake)
  const processes = await processesOf(services)
  const known = services.filter((service) => service.isRunning()).map((service) => service.pid())
  if (process.platform === "linux") expect(new Set(processes.map(({ pid }) => pid))).toEqual(new Set(known))
  const output = services.flatMap((service) => Object.values(service.logs()))
  expectNoSecret(secrets, [...output, ...told, ...processes.map(({ command }) => command)])
  return books
}

/** The part of the books that is true at any moment, also while requests run. */
export const expectBalancedBooks = ({ accounts, entries, events, holds }: Books): void => {
  const sumOf = (lines: ReadonlyArray<{ readonly org: string; readonly amount: bigint }>, account: string) =>
    lines.filter(({ org }) => org === account).reduce((sum, { amount }) => sum + amount, 0n)

  for (const { balance, held, org } of accounts) {
    expect({ org, balance }).toEqual({ org, balance: sumOf(entries, org) })
    expect({ org, held }).toEqual({ org, held: sumOf(holds, org) })
    expect(balance >= held && held >= 0n, `${org}: balance ${balance}, held ${held}`).toBe(true)
  }

  const charges = entries.filter(({ holdId }) => holdId !== null)
  const settled = events.map(({ holdId }) => holdId)
  expect(new Set(settled).size).toBe(settled.length)
  expect(new Set(charges.map(({ holdId }) => holdId)).size).toBe(charges.length)
  const priced = events.filter(({ cost }) => cost > 0n).map(({ cost, holdId }) => [holdId, -cost])
  expect(byHold(charges.map(({ amount, holdId }) => [holdId, amount]))).toEqual(byHold(priced))
  expect(settled.filter((id) => holds.some((hold) => hold.id === id))).toEqual([])
}

const byHold = (lines: ReadonlyArray<ReadonlyArray<string | bigint | null>>) =>
  lines.map((line) => line.join(" ")).sort()

/** Every exchange with the upstream has ended, within a second. */
export const expectClosed = async (fake: FakeOpenAi): Promise<void> => {
  const open = await Promise.all(
    fake.requests.map(({ ended }) =>
      Promise.race([ended.then(() => 0), new Promise<1>((left) => setTimeout(left, 1_000, 1))])
    )
  )
  expect(open.filter((one) => one === 1)).toEqual([])
}

/** An answer with the envelope of section 2.4 and nothing else in it; gives its error. */
export const expectEnvelope = (answer: Answer): Envelope["error"] => {
  const { error } = decodeEnvelope(JSON.parse(answer.text))
  expect(answer.headers["x-request-id"]).toBe(error.requestId)
  expect(answer.headers["x-should-retry"]).toBe(String(error.retryable))
  return error
}

const decodeEnvelope = Schema.decodeUnknownSync(Envelope, { onExcessProperty: "error" })

/** The error chunk at the end of a stream that failed. */
export const errorChunk = (raw: string): Envelope["error"] => {
  const last = raw.trimEnd().split("\n").at(-1) ?? ""
  const { choices, error } = decodeErrorChunk(JSON.parse(last.slice("data: ".length)))
  expect(choices).toEqual([])
  return error
}

const decodeErrorChunk = Schema.decodeUnknownSync(
  Schema.Struct({ ...Envelope.fields, choices: Schema.Array(Schema.Json) })
)

export const expectNoSecret = (secrets: ReadonlyArray<string>, texts: ReadonlyArray<string>): void => {
  for (const secret of secrets) expect(texts.filter((text) => text.includes(secret))).toEqual([])
}

/** The processes that run with the environment of one of these services, whoever started them. */
const processesOf = async (
  services: ReadonlyArray<ServiceProcess>
): Promise<ReadonlyArray<{ readonly pid: number; readonly command: string }>> => {
  if (process.platform !== "linux") return []
  const ports = services.map(({ env: { PORT } }) => `PORT=${PORT}`)
  const found = (await readdir("/proc"))
    .filter((name) => /^\d+$/u.test(name))
    .map(async (pid) => {
      try {
        const environment = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0")
        const command = (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ")
        return environment.some((variable) => ports.includes(variable)) ? [{ pid: Number(pid), command }] : []
      } catch {
        // It has just ended, or belongs to somebody else.
        return []
      }
    })
  return (await Promise.all(found)).flat()
}
