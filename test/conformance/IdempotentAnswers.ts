import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, type Layer } from "effect"
import { IdempotentAnswers, type KeyClaim } from "../../src/application/ports/storage/IdempotentAnswers.ts"
import { IdempotencyKey } from "../../src/domain/completion/IdempotencyKey.ts"
import { OrganizationId } from "../../src/domain/shared/Ids.ts"
import { StoreProbe } from "./StoreProbe.ts"

/** A claim to a key that no other test has. */
const newClaim = (): KeyClaim => ({
  organizationId: OrganizationId.make(crypto.randomUUID()),
  key: IdempotencyKey.make(crypto.randomUUID()),
  id: crypto.randomUUID(),
  digest: "digest"
})

/** The same request once more. */
const again = (claim: KeyClaim): KeyClaim => ({ ...claim, id: crypto.randomUUID() })

const withOtherBody = (claim: KeyClaim): KeyClaim => ({ ...again(claim), digest: "other digest" })

const claiming = Effect.fnUntraced(function* (claim: KeyClaim) {
  return yield* (yield* IdempotentAnswers).claim(claim)
})

const assertTaken = Effect.fnUntraced(function* (claim: KeyClaim) {
  assert.isNull(yield* claiming(claim))
})

const assertRefused = Effect.fnUntraced(function* (
  claim: KeyClaim,
  tag: "IdempotencyKeyBusy" | "IdempotencyKeyReused"
) {
  assert.strictEqual((yield* Effect.flip(claiming(claim)))._tag, tag)
})

/** A claim that has its key. */
const taken = Effect.gen(function* () {
  const claim = newClaim()
  yield* assertTaken(claim)
  return claim
})

/** What every store of answers by idempotency keys must do. */
export const idempotentAnswersSuite = (name: string, store: Layer.Layer<IdempotentAnswers | StoreProbe, unknown>) =>
  layer(store, { timeout: "1 minute", excludeTestServices: true })(name, (it) => {
    it.effect("gives a key to one request, and says whether another is its repetition", () =>
      Effect.gen(function* () {
        const first = yield* taken
        yield* assertRefused(again(first), "IdempotencyKeyBusy")
        yield* assertRefused(withOtherBody(first), "IdempotencyKeyReused")
      })
    )

    it.effect("gives every organization keys of its own", () =>
      Effect.gen(function* () {
        const first = yield* taken
        yield* assertTaken({ ...withOtherBody(first), organizationId: newClaim().organizationId })
        yield* assertTaken({ ...withOtherBody(first), key: newClaim().key })
        yield* assertRefused(again(first), "IdempotencyKeyBusy")
      })
    )

    it.effect("gives a key to one of fifty that want it at once", () =>
      Effect.gen(function* () {
        const wanted = newClaim()
        const exits = yield* Effect.all(
          Array.from({ length: 50 }, () => Effect.exit(claiming(again(wanted)))),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(exits.filter(Exit.isSuccess).length, 1)
        for (const exit of exits.filter(Exit.isFailure)) {
          assert.strictEqual(Cause.findErrorOption(exit.cause).valueOrUndefined?._tag, "IdempotencyKeyBusy")
        }
      })
    )

    it.effect("gives the answer back as it was stored, to the same body only", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const first = yield* taken
        const answer = `{"content":"\\u0000 \\ud83d \\"😀\\" ' % _"}\r\n\r\ndata: [DONE]\n\n`
        assert.isTrue(yield* answers.store(first, answer))
        assert.strictEqual(yield* claiming(again(first)), answer)
        assert.strictEqual(yield* claiming(again(first)), answer)
        yield* assertRefused(withOtherBody(first), "IdempotencyKeyReused")
      })
    )

    it.effect("keeps an answer of four megabytes", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const first = yield* taken
        const answer = "wörd ".repeat(4 * 1024 * 1024).slice(0, 4 * 1024 * 1024)
        assert.isTrue(yield* answers.store(first, answer))
        assert.isTrue((yield* claiming(again(first))) === answer)
      })
    )

    it.effect("keeps an answer for 24 hours from its storing", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const { pass } = yield* StoreProbe
        const first = yield* taken
        yield* pass("20 seconds")
        yield* answers.store(first, "answer")
        yield* pass("86399 seconds")
        assert.strictEqual(yield* claiming(again(first)), "answer")
        yield* pass("2 seconds")
        yield* assertTaken(withOtherBody(first))
      })
    )

    it.effect("has a freed key for the next request, whatever its body", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const first = yield* taken
        assert.isTrue(yield* answers.free(first))
        assert.isFalse(yield* answers.free(first))
        const second = withOtherBody(first)
        yield* assertTaken(second)
        assert.isFalse(yield* answers.free(first))
        yield* assertRefused(again(second), "IdempotencyKeyBusy")
      })
    )

    it.effect("frees no key that is answered, and answers none twice", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const { pass } = yield* StoreProbe
        const first = yield* taken
        yield* answers.store(first, "answer")
        assert.isFalse(yield* answers.free(first))
        assert.isFalse(yield* answers.store(first, "other answer"))
        yield* answers.renew([first])
        yield* pass("1 minute")
        assert.strictEqual(yield* claiming(again(first)), "answer")
      })
    )

    it.effect("has a key for the next request when its claim was not renewed for 30 seconds", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const { pass } = yield* StoreProbe
        const [dead, alive] = [yield* taken, yield* taken]
        yield* pass("29 seconds")
        yield* assertRefused(again(dead), "IdempotencyKeyBusy")
        yield* answers.renew([alive])
        yield* pass("2 seconds")
        const second = withOtherBody(dead)
        yield* assertTaken(second)
        yield* assertRefused(again(alive), "IdempotencyKeyBusy")

        // The first one was only slow: what it does now is not the second one's.
        yield* answers.renew([dead])
        assert.isFalse(yield* answers.store(dead, "late answer"))
        assert.isFalse(yield* answers.free(dead))
        assert.isTrue(yield* answers.store(second, "answer"))
        assert.strictEqual(yield* claiming(again(second)), "answer")
      })
    )

    it.effect("lets a claim that lapsed, but that nobody followed, have its key again or its answer", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const { pass } = yield* StoreProbe
        const [renewed, answered] = [yield* taken, yield* taken]
        yield* pass("31 seconds")
        yield* answers.renew([renewed])
        yield* assertRefused(again(renewed), "IdempotencyKeyBusy")
        assert.isTrue(yield* answers.store(answered, "answer"))
        assert.strictEqual(yield* claiming(again(answered)), "answer")
      })
    )

    it.effect("sweeps lapsed claims and old answers, in any number, and nothing else", () =>
      Effect.gen(function* () {
        const answers = yield* IdempotentAnswers
        const { pass } = yield* StoreProbe
        // Tests of this suite may share the store.
        yield* pass("25 hours")
        yield* answers.sweep
        for (let index = 0; index < 250; index++) yield* taken
        const old = yield* taken
        yield* answers.store(old, "old answer")
        yield* pass("24 hours")
        const [answered, running] = [yield* taken, yield* taken]
        yield* answers.store(answered, "answer")
        yield* pass("10 seconds")
        assert.strictEqual(yield* answers.sweep, 251)
        assert.strictEqual(yield* answers.sweep, 0)
        assert.strictEqual(yield* claiming(again(answered)), "answer")
        yield* assertRefused(again(running), "IdempotencyKeyBusy")
      })
    )
  })
