import { Cache, Context, Duration, Effect, Exit, Layer, Option } from "effect"
import type { Caller } from "../../domain/identity/ApiKey.ts"
import { InvalidApiKey } from "../../domain/identity/IdentityErrors.ts"
import { KeyTexts } from "../ports/runtime/KeyTexts.ts"
import { ApiKeys } from "../ports/storage/ApiKeys.ts"

/** How long what a store said of a key is believed; never past the key's expiry. */
const remembered = Duration.seconds(2)

/**
 * Who sends this key? A mistyped key costs no look-up; a known one is remembered for two seconds, so a revocation
 * holds everywhere well within the five that are promised.
 */
export class Authenticate extends Context.Service<
  Authenticate,
  {
    readonly byKey: (text: string) => Effect.Effect<Caller, InvalidApiKey>
  }
>()("gateway/identity/Authenticate") {
  static readonly layer = Layer.effect(
    Authenticate,
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const texts = yield* KeyTexts

      const known = yield* Cache.makeWith(keys.findByDigest, {
        capacity: 10_000,
        // A look-up that failed, since the store was away, says nothing of the key.
        timeToLive: (exit) =>
          Exit.isSuccess(exit)
            ? Option.match(exit.value, {
                onNone: () => remembered,
                onSome: ({ usableFor }) =>
                  usableFor === 0 ? remembered : Duration.min(remembered, Duration.millis(usableFor))
              })
            : Duration.zero
      })

      const byKey = Effect.fnUntraced(function* (text: string) {
        if (text === "") return yield* new InvalidApiKey({ reason: "missing" })
        const digest = texts.digest(text)
        const cached = yield* Cache.getSuccess(known, digest)
        if (Option.isNone(cached) && !texts.isWellFormed(text)) {
          return yield* new InvalidApiKey({ reason: "invalid" })
        }
        const found = Option.isSome(cached) ? cached.value : yield* Cache.get(known, digest)
        if (Option.isNone(found) || found.value.usableFor === 0) {
          return yield* new InvalidApiKey({ reason: "invalid" })
        }
        return found.value.caller
      })

      return Authenticate.of({ byKey })
    })
  )
}
