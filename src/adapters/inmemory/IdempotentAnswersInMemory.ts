import { Clock, Effect, Layer } from "effect"
import {
  answerHours,
  claimSeconds,
  IdempotentAnswers,
  type KeyClaim
} from "../../application/ports/storage/IdempotentAnswers.ts"
import { IdempotencyKeyBusy, IdempotencyKeyReused } from "../../domain/completion/IdempotencyErrors.ts"

interface Entry {
  readonly claim: KeyClaim
  /** Null while its request runs. */
  answer: string | null
  /** Epoch milliseconds: from then on the key is free. */
  expiresAt: number
}

export const layer = Layer.sync(IdempotentAnswers, () => {
  const entries = new Map<string, Entry>()

  const running = (claim: KeyClaim): Entry | undefined => {
    const entry = entries.get(placeOf(claim))
    return entry?.claim.id === claim.id && entry.answer === null ? entry : undefined
  }

  const atNow = <A>(use: (now: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, use)

  return IdempotentAnswers.of({
    claim: Effect.fnUntraced(function* (claim) {
      const now = yield* Clock.currentTimeMillis
      const found = entries.get(placeOf(claim))
      if (found === undefined || found.expiresAt <= now) {
        entries.set(placeOf(claim), { claim, answer: null, expiresAt: now + claimMillis })
        return null
      }
      if (found.claim.digest !== claim.digest) return yield* new IdempotencyKeyReused()
      return found.answer ?? (yield* new IdempotencyKeyBusy())
    }),
    renew: (claims) =>
      atNow((now) => {
        for (const claim of claims) {
          const entry = running(claim)
          if (entry !== undefined) entry.expiresAt = now + claimMillis
        }
      }),
    store: (claim, answer) =>
      atNow((now) => {
        const entry = running(claim)
        if (entry === undefined) return false
        entry.answer = answer
        entry.expiresAt = now + answerMillis
        return true
      }),
    free: (claim) => Effect.sync(() => running(claim) !== undefined && entries.delete(placeOf(claim))),
    sweep: atNow((now) => {
      const expired = [...entries].filter(([, { expiresAt }]) => expiresAt <= now)
      for (const [place] of expired) entries.delete(place)
      return expired.length
    })
  })
})

const claimMillis = claimSeconds * 1_000
const answerMillis = answerHours * 3_600_000

/** Keys have no spaces. */
const placeOf = ({ key, organizationId }: KeyClaim): string => `${key} ${organizationId}`
