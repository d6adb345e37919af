import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Ids } from "../../application/ports/runtime/Ids.ts"

/** UUIDs of version 7: random, and in the order of their making, which keeps indexes dense. */
export const layer = Layer.effect(
  Ids,
  Effect.map(SecureRandom.SecureRandom, (random) => Ids.of({ next: random.uuidV7() }))
)
