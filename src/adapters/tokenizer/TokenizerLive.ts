import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import { Layer } from "effect"
import { Tokenizer } from "../../application/ports/runtime/Tokenizer.ts"

/** A text up to this length is counted whole, a longer one by samples spread evenly over it. In UTF-16 units. */
const countedWhole = 32 * 1024
const samples = 64
const sampleLength = 512

/** The encoder takes time quadratic in an unbroken run of characters, so longer runs are cut. */
const longestRun = 256
const longRun = new RegExp(`\\S{${longestRun}}`, "g")

/** Text that looks like a control token is text. */
const asText = { disallowedSpecial: new Set<string>() }

const countShort = (text: string): number =>
  text.length <= longestRun
    ? countTokens(text, asText)
    : countTokens(text.replace(longRun, "$& "), asText)

const count = (text: string): number => {
  if (text.length <= countedWhole) return countShort(text)
  const step = text.length / samples
  let tokens = 0
  for (let sample = 0; sample < samples; sample++) {
    const start = Math.floor(sample * step)
    tokens += countShort(text.slice(start, start + sampleLength))
  }
  return Math.ceil((tokens * text.length) / (samples * sampleLength))
}

/** The o200k encoding of current OpenAI models; other vendors' differ by a fifth or so. */
export const layer = Layer.succeed(Tokenizer, Tokenizer.of({ count }))
