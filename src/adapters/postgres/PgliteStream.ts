import type { PGlite } from "@electric-sql/pglite"
import { Duplex } from "node:stream"

/**
 * A connection to an embedded PGlite as the byte stream that a Postgres client expects. Messages are handed over whole
 * and one batch at a time: PGlite is one session on one thread.
 */
export const pgliteStream = (database: PGlite): Duplex => {
  let pending: Buffer = Buffer.alloc(0)
  let startedUp = false

  const stream: Duplex = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      const whole = takeWhole()
      if (whole === undefined) return done()
      database
        .runExclusive(() =>
          database.execProtocolRawStream(whole, { onRawData: (data) => void stream.push(Buffer.from(data)) })
        )
        .then(() => done(), done)
    },
    final(done) {
      stream.push(null)
      done()
    }
  })

  /** All complete messages that are there. The startup message alone has no type byte before its length. */
  const takeWhole = (): Buffer | undefined => {
    let end = 0
    for (;;) {
      const lengthAt = end + (startedUp ? 1 : 0)
      if (pending.length < lengthAt + 4) break
      const next = lengthAt + pending.readInt32BE(lengthAt)
      if (next > pending.length) break
      end = next
      startedUp = true
    }
    if (end === 0) return undefined
    const whole = pending.subarray(0, end)
    pending = pending.subarray(end)
    return whole
  }

  return stream
}
