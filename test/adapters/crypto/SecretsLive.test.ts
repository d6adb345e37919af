import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { inspect } from "node:util"
import * as SecretsLive from "../../../src/adapters/crypto/SecretsLive.ts"
import { SealedText, Secrets, type SecretsKey } from "../../../src/application/ports/runtime/Secrets.ts"

const keyOf = (byte: number): SecretsKey => Redacted.make(new Uint8Array(32).fill(byte))

const one = SecretsLive.layerKey(keyOf(1))

const owner = ["provider-key", "acme", "openai"]

const seal = (text: string, whose = owner) => Effect.flatMap(Secrets, ({ seal }) => seal(Redacted.make(text), whose))

const open = (sealed: SealedText, whose = owner) =>
  Effect.flatMap(Secrets, ({ open }) => Effect.map(open(sealed, whose), Redacted.value))

const reasonOf = (sealed: SealedText, whose = owner) =>
  Effect.map(Effect.flip(open(sealed, whose)), (error) =>
    error._tag === "SecretUnreadable" ? error.reason : error.message
  )

describe("secrets under SECRETS_KEY", () => {
  it.effect("come back byte for byte", () =>
    Effect.gen(function* () {
      for (const text of ["", 'sk-"quoted"-#-`ticks`-\'-\\-$HOME', "schlüssel 🔑\r\n\u0000", "x".repeat(100_000)]) {
        assert.strictEqual(yield* open(yield* seal(text)), text)
      }
    }).pipe(Effect.provide(one))
  )

  it.effect("show nothing of the text, and look different each time", () =>
    Effect.gen(function* () {
      const sealed = yield* Effect.forEach(Array.from({ length: 100 }), () => seal("sk-canary-sk-canary"))
      assert.strictEqual(new Set(sealed).size, 100)
      for (const each of sealed) assert.notInclude(Buffer.from(each, "base64").toString("latin1"), "canary")
      const { open } = yield* Secrets
      assert.notInclude(inspect(yield* open(yield* seal("sk-canary"), owner), { depth: 9 }), "canary")
    }).pipe(Effect.provide(one))
  )

  it.effect("open for their owner only", () =>
    Effect.gen(function* () {
      const sealed = yield* seal("sk-1")
      for (const other of [
        ["provider-key", "other", "openai"],
        ["provider-key", "acme", "anthropic"],
        ["provider-key", "acmeopenai"],
        ["provider-key,acme", "openai"],
        []
      ]) {
        assert.strictEqual(yield* reasonOf(sealed, other), "altered")
      }
    }).pipe(Effect.provide(one))
  )

  it.effect("do not open when any bit of them was changed, or an end is missing", () =>
    Effect.gen(function* () {
      const bytes = Buffer.from(yield* seal("sk-1"), "base64")
      const changed = (bytes: Uint8Array) => SealedText.make(Buffer.from(bytes).toString("base64"))
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const other = Uint8Array.from(bytes, (byte, index) => (index === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte))
        // Bytes 1 to 4 say which key it is.
        const reason = bit >= 8 && bit < 40 ? "other key" : "altered"
        assert.strictEqual(yield* reasonOf(changed(other)), reason)
      }
      for (let length = 0; length < bytes.length; length++) {
        assert.strictEqual(yield* reasonOf(changed(bytes.subarray(0, length))), "altered")
      }
      assert.strictEqual(yield* reasonOf(SealedText.make("no base64!")), "altered")
    }).pipe(Effect.provide(one))
  )

  it.effect("name a wrong SECRETS_KEY", () =>
    Effect.gen(function* () {
      const sealed = yield* Effect.provide(seal("sk-1"), one)
      const error = yield* Effect.flip(Effect.provide(open(sealed), SecretsLive.layerKey(keyOf(2))))
      assert.match(error.message, /^A stored secret was encrypted under another SECRETS_KEY\./)
    })
  )

  it.effect("cannot be sealed without one, and say how to make one", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(seal("sk-canary"))
      assert.match(error.message, /^SECRETS_KEY is not set, .+: openssl rand -base64 32$/)
    }).pipe(Effect.provide(SecretsLive.layerNone))
  )
})
