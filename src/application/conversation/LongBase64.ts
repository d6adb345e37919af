import { Effect, Option, Result } from "effect"
import * as Base64 from "effect/encoding/Base64"

/** Groups that are done in one go, some milliseconds: what is long must not keep others waiting. */
const groups = 2 ** 18

/** Base64 of bytes of any length. */
export const encode = Effect.fnUntraced(function* (bytes: Uint8Array) {
  let text = ""
  for (let start = 0; start < bytes.length; start += 3 * groups) {
    if (start > 0) yield* Effect.yieldNow
    text += Base64.encode(bytes.subarray(start, start + 3 * groups))
  }
  return text
})

/** The bytes of a base64 of any length, as RFC 4648 has it: with its padding, and nothing else in it. */
export const decode = Effect.fnUntraced(function* (text: string) {
  if (text.length % 4 !== 0) return Option.none()
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0
  const end = text.length - padding
  const bytes = new Uint8Array((text.length / 4) * 3 - padding)
  for (let start = 0; start < text.length; start += 4 * groups) {
    if (start > 0) yield* Effect.yieldNow
    const part = text.slice(start, start + 4 * groups)
    if (part.slice(0, Math.max(0, end - start)).search(/[=\r\n]/) !== -1) return Option.none()
    const decoded = Base64.decode(part)
    if (Result.isFailure(decoded)) return Option.none()
    bytes.set(decoded.success, (start / 4) * 3)
  }
  return Option.some(bytes)
})
