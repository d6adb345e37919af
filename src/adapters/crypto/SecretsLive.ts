import { Effect, Layer, Redacted } from "effect"
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto"
import {
  SealedText,
  Secrets,
  type SecretsKey,
  SecretsUnavailable,
  SecretUnreadable
} from "../../application/ports/runtime/Secrets.ts"

/**
 * AES-256-GCM (NIST SP 800-38D) under one key. A sealed text is base64 of: one byte of version, four that tell which
 * key it is under, the random nonce, the encrypted text, the tag. Owner, version and key are authenticated with it.
 */
const version = 1
const keyIdBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headerBytes = 1 + keyIdBytes

const make = (key: Effect.Effect<SecretsKey, SecretsUnavailable>) =>
  Secrets.of({
    seal: (text, owner) => Effect.map(key, (key) => encrypt(Redacted.value(key), Redacted.value(text), owner)),
    open: (sealed, owner) =>
      Effect.flatMap(key, (key) => Effect.map(decrypt(Redacted.value(key), sealed, owner), Redacted.make))
  })

/** Under the operator's `SECRETS_KEY`. */
export const layerKey = (key: SecretsKey): Layer.Layer<Secrets> => Layer.succeed(Secrets, make(Effect.succeed(key)))

/** Without any key: nothing can be sealed, and nothing opened. */
export const layerNone: Layer.Layer<Secrets> = Layer.suspend(() => {
  const missing = Effect.fail(
    new SecretsUnavailable({
      message:
        "SECRETS_KEY is not set, and provider keys are stored only encrypted. Set it for every process, to 32 bytes " +
        "in base64: openssl rand -base64 32"
    })
  )
  return Layer.succeed(Secrets, make(missing))
})

const encrypt = (key: Uint8Array, text: string, owner: ReadonlyArray<string>): SealedText => {
  const header = headerOf(key)
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes })
  cipher.setAAD(authenticated(header, owner))
  const encrypted = Buffer.concat([cipher.update(text, "utf8"), cipher.final()])
  return SealedText.make(Buffer.concat([header, nonce, encrypted, cipher.getAuthTag()]).toString("base64"))
}

const decrypt = (
  key: Uint8Array,
  sealed: SealedText,
  owner: ReadonlyArray<string>
): Effect.Effect<string, SecretUnreadable> => {
  const bytes = Buffer.from(sealed, "base64")
  const header = headerOf(key)
  if (bytes.length < headerBytes + nonceBytes + tagBytes || bytes[0] !== version) {
    return Effect.fail(new SecretUnreadable({ reason: "altered" }))
  }
  if (!header.equals(bytes.subarray(0, headerBytes))) return Effect.fail(new SecretUnreadable({ reason: "other key" }))
  return Effect.try({
    try: () => {
      const nonce = bytes.subarray(headerBytes, headerBytes + nonceBytes)
      const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes })
      decipher.setAAD(authenticated(header, owner))
      decipher.setAuthTag(bytes.subarray(-tagBytes))
      const encrypted = bytes.subarray(headerBytes + nonceBytes, -tagBytes)
      return Buffer.concat([decipher.update(encrypted), decipher.final()]).toString("utf8")
    },
    catch: () => new SecretUnreadable({ reason: "altered" })
  })
}

/** A few bytes that tell keys apart and nothing else: then a wrong `SECRETS_KEY` can be called by its name. */
const headerOf = (key: Uint8Array): Buffer =>
  Buffer.concat([
    Buffer.of(version),
    createHmac("sha256", key).update("id of the secrets key").digest().subarray(0, keyIdBytes)
  ])

/** As JSON, so that no two owners read the same. */
const authenticated = (header: Buffer, owner: ReadonlyArray<string>): Buffer =>
  Buffer.concat([header, Buffer.from(JSON.stringify(owner))])
