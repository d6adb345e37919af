import { Clock, Effect, Layer } from "effect"
import { randomFillSync } from "node:crypto"
import { Ids } from "../../application/ports/runtime/Ids.ts"

/** Randomness for so many identifiers is fetched at once: a request takes several, and each call costs microseconds. */
const batch = 256
const randomBytes = 10

/** UUIDs of version 7 (RFC 9562): the time in milliseconds, then 74 random bits. Dense in an index, unguessable. */
export const layer = Layer.sync(Ids, () => {
  const pool = Buffer.alloc(batch * randomBytes)
  let used = pool.length

  const make = (now: number): string => {
    if (used === pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const random = pool.toString("hex", used, used + randomBytes)
    used += randomBytes
    const time = now.toString(16).padStart(12, "0")
    const variant = "89ab"[Number.parseInt(random[4] ?? "0", 16) & 3]
    return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(1, 4)}-${variant}${random.slice(5, 8)}-${random.slice(8)}`
  }

  return Ids.of({ next: Effect.map(Clock.currentTimeMillis, make) })
})
