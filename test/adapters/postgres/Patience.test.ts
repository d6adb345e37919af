import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlError } from "effect/sql"
import { Worker } from "node:worker_threads"
import * as Patience from "../../../src/adapters/postgres/Patience.ts"

const limit = Duration.millis(60)

/** Answers what it is sent, from a thread of its own. */
const echo = Effect.acquireRelease(
  Effect.sync(
    () =>
      new Worker(
        "const { parentPort } = require('node:worker_threads'); parentPort.on('message', (said) => parentPort.postMessage(said))",
        { eval: true }
      )
  ),
  (worker) => Effect.promise(() => worker.terminate())
)

/** A question, and whatever keeps this process from hearing the answer at once. */
const ask = (worker: Worker, question: string, meanwhile = () => {}) =>
  Effect.callback<string>((resume) => {
    worker.once("message", (answer: string) => resume(Effect.succeed(answer)))
    // Timers come next: one that is due fires before the answer is read.
    setImmediate(() => {
      worker.postMessage(question)
      meanwhile()
    })
  })

const beBusy = () => {
  const nobodyWakes = new Int32Array(new SharedArrayBuffer(4))
  Atomics.wait(nobodyWakes, 0, 0, 4 * Duration.toMillis(limit))
}

describe("patience with a server", () => {
  it.live("ends when no answer comes", () =>
    Effect.gen(function* () {
      const patience: Patience.Patience = { limit, isSilent: false }
      const { briefly } = yield* Effect.provideService(Patience.make, Patience.Patience, patience)
      const error = yield* Effect.flip(briefly(Effect.never))
      assert.isTrue(SqlError.isSqlError(error))
      assert.isTrue(patience.isSilent)
      assert.strictEqual(yield* briefly(Effect.succeed("back")), "back")
      assert.isFalse(patience.isSilent)
    })
  )

  it.live("takes the answer that arrived while this process was busy", () =>
    Effect.gen(function* () {
      const patience: Patience.Patience = { limit, isSilent: false }
      const { briefly } = yield* Effect.provideService(Patience.make, Patience.Patience, patience)
      const worker = yield* echo
      assert.strictEqual(yield* ask(worker, "awake?"), "awake?")
      assert.strictEqual(yield* briefly(ask(worker, "hello", beBusy)), "hello")
      assert.isFalse(patience.isSilent)
    })
  )
})
