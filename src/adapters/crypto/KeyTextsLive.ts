import { Effect, Layer } from "effect"
import { hash, randomBytes } from "node:crypto"
import { KeyTexts } from "../../application/ports/runtime/KeyTexts.ts"
import { keyPrefix } from "../../domain/identity/ApiKey.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const randomLength = 43
const checksumLength = 6

const wellFormed = new RegExp(`^${keyPrefix}[0-9A-Za-z]{${randomLength + checksumLength}}$`)

/** A number in base62, of a fixed length: 43 digits hold 32 bytes. */
const base62 = (value: bigint, length: number): string => {
  let rest = value
  let text = ""
  while (text.length < length) {
    text = `${alphabet[Number(rest % 62n)]}${text}`
    rest /= 62n
  }
  return text
}

const digest = (text: string): string => hash("sha256", text)

/** The first 32 bits of the digest: finds typing errors, proves nothing. */
const checksum = (random: string): string =>
  base62(BigInt(`0x${digest(`${keyPrefix}${random}`).slice(0, 8)}`), checksumLength)

export const layer = Layer.succeed(
  KeyTexts,
  KeyTexts.of({
    generate: Effect.sync(() => {
      const random = base62(BigInt(`0x${randomBytes(32).toString("hex")}`), randomLength)
      return `${keyPrefix}${random}${checksum(random)}`
    }),
    isWellFormed: (text) =>
      wellFormed.test(text) &&
      checksum(text.slice(keyPrefix.length, keyPrefix.length + randomLength)) === text.slice(-checksumLength),
    digest
  })
)
