/**
 * Holds and settlements on one organization, through the ledger that the service uses, in a process that does nothing
 * else: its CPU time is what a pair costs. Arguments: database URL, requests at once, seconds. Prints one line of JSON.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Clock, Console, Effect, Layer, Redacted, Schema } from "effect"
import * as SecretsLive from "../../../src/adapters/crypto/SecretsLive.ts"
import * as PostgresLive from "../../../src/adapters/postgres/PostgresLive.ts"
import { ApiKeys } from "../../../src/application/ports/storage/ApiKeys.ts"
import { Ledger } from "../../../src/application/ports/storage/Ledger.ts"
import { Members } from "../../../src/application/ports/storage/Members.ts"
import { Organizations } from "../../../src/application/ports/storage/Organizations.ts"
import type { Purpose } from "../../../src/domain/billing/CreditHold.ts"
import { ApiKey } from "../../../src/domain/identity/ApiKey.ts"
import { Member } from "../../../src/domain/identity/Member.ts"
import { Organization } from "../../../src/domain/identity/Organization.ts"
import { ApiKeyId, HoldId, MemberId, OrganizationId } from "../../../src/domain/shared/Ids.ts"
import { nanoUsd } from "../../../src/domain/shared/Money.ts"
import type { PairsResult } from "./HoldPairs.ts"

const Arguments = Schema.Tuple([Schema.NonEmptyString, Schema.FiniteFromString, Schema.FiniteFromString])
const [url, concurrency, seconds] = Schema.decodeUnknownSync(Arguments)(process.argv.slice(2))

const warmUpMillis = 500
const holdAmount = nanoUsd(1_000_000n)
const cost = nanoUsd(35_400n)
const credit = nanoUsd(1_000_000_000_000_000n)
const usage = { input: 24, cacheRead: 0, cacheWrite: 0, output: 53, reasoning: 0 }

/** An organization with credit for any run, an owner and a key. */
const openAccount = Effect.gen(function* () {
  const now = yield* Clock.currentTimeMillis
  const organizationId = OrganizationId.make(crypto.randomUUID())
  const memberId = MemberId.make(crypto.randomUUID())
  const keyId = ApiKeyId.make(crypto.randomUUID())
  const name = `pairs-${now}`
  yield* (yield* Organizations).insert(new Organization({ id: organizationId, name, createdAt: now }))
  yield* (yield* Members).insert(new Member({ id: memberId, organizationId, name, role: "owner", createdAt: now }))
  yield* (yield* ApiKeys).insert(
    new ApiKey({
      id: keyId,
      organizationId,
      memberId,
      name,
      hint: "bench",
      createdAt: now,
      expiresAt: null,
      revokedAt: null
    }),
    crypto.randomUUID()
  )
  yield* (yield* Ledger).grant(organizationId, credit, "bench")
  return { organizationId, memberId, keyId }
})

const pairs = Effect.gen(function* () {
  const ledger = yield* Ledger
  const account = yield* openAccount
  const purpose: Purpose = { ...account, requestId: "bench", model: "bench-json", accessMethod: "service" }

  const pair = Effect.gen(function* () {
    const id = HoldId.make(crypto.randomUUID())
    yield* ledger.hold({ id, purpose, least: holdAmount, most: holdAmount })
    yield* ledger.settle({ holdId: id, usage, cost, estimated: false })
  })

  /** Closed loop: each of the concurrent requests begins its next pair when its last one is settled. */
  const runFor = Effect.fn("runFor")(function* (millis: number) {
    const cpu = process.cpuUsage()
    const started = performance.now()
    let count = 0
    const worker = Effect.gen(function* () {
      while (performance.now() - started < millis) {
        yield* pair
        count++
      }
    })
    yield* Effect.forEach(Array.from({ length: concurrency }), () => worker, {
      concurrency: "unbounded",
      discard: true
    })
    const { system, user } = process.cpuUsage(cpu)
    const elapsed = performance.now() - started
    return { pairs: count, millis: elapsed, cpuMicros: user + system, charged: BigInt(count) * cost }
  })

  const warm = yield* runFor(warmUpMillis)
  const { charged, ...result } = yield* runFor(seconds * 1000)
  const { balance, held } = yield* ledger.credit(account.organizationId)
  const exact = held === 0n && balance === credit - warm.charged - charged
  yield* Console.log(JSON.stringify({ ...result, exact } satisfies PairsResult))
})

pairs.pipe(
  Effect.provide(
    Layer.merge(PostgresLive.layerServer({ url: Redacted.make(url), maxConnections: 10 }), NodeServices.layer).pipe(
      Layer.provide(SecretsLive.layerNone)
    )
  ),
  NodeRuntime.runMain
)
