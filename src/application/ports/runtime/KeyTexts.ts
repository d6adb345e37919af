import { Context, type Effect } from "effect"

/** The secret side of API keys (decisions 1): making a text, recognising a mistyped one, and its digest. */
export class KeyTexts extends Context.Service<
  KeyTexts,
  {
    /** `sk-gw-`, 32 random bytes in base62, and a checksum of 6 characters. */
    readonly generate: Effect.Effect<string>
    /** False for anything that was never a key, without a look-up. */
    readonly isWellFormed: (text: string) => boolean
    /** SHA-256, in hexadecimal: all that is ever stored. */
    readonly digest: (text: string) => string
  }
>()("gateway/ports/runtime/KeyTexts") {}
