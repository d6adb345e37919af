import { Effect, Layer } from "effect"
import type * as Encoding from "gpt-tokenizer/encoding/o200k_base"
import { createRequire } from "node:module"
import { Tokenizer } from "../../application/ports/runtime/Tokenizer.ts"

/** A text up to this length is counted whole, a longer one by samples spread evenly over it. In UTF-16 units. */
const countedWhole = 32 * 1024
const samples = 64
const sampleLength = 512

/** The encoder takes time quadratic in an unbroken run of letters or of blanks, so longer runs are cut. */
const longRun = /\S{256}|\s{64}/g
const cut = (run: string): string => `${run}${run.length === 64 ? "." : " "}`

/** Text that looks like a control token is text. */
const asText = { disallowedSpecial: new Set<string>() }

/** Synchronous, as counting is. */
const require = createRequire(import.meta.url)

/** The encoding takes megabytes and a fifth of a second to load: it is loaded once the service has begun. */
const load = (): typeof Encoding => require("gpt-tokenizer/encoding/o200k_base")

const warmUpAfter = "1 second"

const counter = (countTokens: (text: string, options: typeof asText) => number) => {
  const countShort = (text: string): number => countTokens(text.replace(longRun, cut), asText)

  return (text: string): number => {
    if (text.length <= countedWhole) return countShort(text)
    const step = text.length / samples
    let tokens = 0
    for (let sample = 0; sample < samples; sample++) {
      const start = Math.floor(sample * step)
      tokens += countShort(text.slice(start, start + sampleLength))
    }
    return Math.ceil((tokens * text.length) / (samples * sampleLength))
  }
}

/** The o200k encoding of current OpenAI models; other vendors' differ. */
export const layer = Layer.effect(
  Tokenizer,
  Effect.gen(function* () {
    let count: ((text: string) => number) | undefined
    const counting = () => (count ??= counter(load().countTokens))
    yield* Effect.forkScoped(Effect.delay(Effect.sync(counting), warmUpAfter))
    return Tokenizer.of({ count: (text) => counting()(text) })
  })
)
