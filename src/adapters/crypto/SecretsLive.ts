import { Effect, FileSystem, Layer, Path, Redacted, Schema, Semaphore } from "effect"
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto"
import {
  SealedText,
  Secrets,
  SecretsKey,
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

/** The key to seal with and the one to open with; `open` makes none. */
interface Keys {
  readonly toSeal: Effect.Effect<SecretsKey, SecretsUnavailable>
  readonly toOpen: Effect.Effect<SecretsKey, SecretsUnavailable>
}

const make = ({ toOpen, toSeal }: Keys) =>
  Secrets.of({
    seal: (text, owner) => Effect.map(toSeal, (key) => encrypt(Redacted.value(key), Redacted.value(text), owner)),
    open: (sealed, owner) =>
      Effect.flatMap(toOpen, (key) => Effect.map(decrypt(Redacted.value(key), sealed, owner), Redacted.make))
  })

/** Under the operator's `SECRETS_KEY`. */
export const layerKey = (key: SecretsKey): Layer.Layer<Secrets> =>
  Layer.succeed(Secrets, make({ toSeal: Effect.succeed(key), toOpen: Effect.succeed(key) }))

/** Without any key: nothing can be sealed, and nothing opened. */
export const layerNone: Layer.Layer<Secrets> = Layer.suspend(() => {
  const missing = Effect.fail(
    new SecretsUnavailable({
      message:
        "SECRETS_KEY is not set, and provider keys are stored only encrypted. Set it for every process, to 32 bytes " +
        "in base64: openssl rand -base64 32"
    })
  )
  return Layer.succeed(Secrets, make({ toSeal: missing, toOpen: missing }))
})

/** Under the key in the file `secrets.key` of a directory that only this process uses. Made when it is first needed. */
export const layerFile = (directory: string): Layer.Layer<Secrets, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Secrets,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const file = (yield* Path.Path).join(directory, "secrets.key")
      // Of two that seal first at the same time, the second must find the first one's key.
      const alone = yield* Semaphore.make(1)
      let known: SecretsKey | undefined

      const unusable = (problem: string) => new SecretsUnavailable({ message: `${file}: ${problem}` })

      const read = files.readFileString(file).pipe(
        Effect.mapError(({ message, reason }) =>
          unusable(reason._tag === "NotFound" ? "the file with the key of the stored secrets is gone." : message)
        ),
        Effect.flatMap((text) =>
          Effect.mapError(decodeKey(text.trim()), () => unusable("expected a key of 32 bytes in base64."))
        )
      )

      /** Whole or not at all: half a key would lock out every secret after it. */
      const create = Effect.gen(function* () {
        const draft = `${file}.new`
        yield* files.makeDirectory(directory, { recursive: true })
        const opened = yield* files.open(draft, { flag: "w", mode: 0o600 })
        yield* opened.writeAll(new TextEncoder().encode(`${randomBytes(32).toString("base64")}\n`))
        yield* opened.sync
        yield* files.rename(draft, file)
      }).pipe(
        Effect.scoped,
        Effect.mapError(({ message }) => unusable(message))
      )

      const exists = Effect.mapError(files.exists(file), ({ message }) => unusable(message))

      const once = (load: Effect.Effect<SecretsKey, SecretsUnavailable>) =>
        alone.withPermit(
          Effect.suspend(() =>
            known === undefined ? Effect.tap(load, (key) => Effect.sync(() => (known = key))) : Effect.succeed(known)
          )
        )

      return make({
        toSeal: once(Effect.flatMap(exists, (there) => (there ? read : Effect.andThen(create, read)))),
        toOpen: once(read)
      })
    })
  )

const decodeKey = Schema.decodeEffect(SecretsKey)

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
