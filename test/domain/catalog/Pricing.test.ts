import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { affordableOutput, costOf, worstCost } from "../../../src/domain/billing/Cost.ts"
import { inputTokens, type Usage } from "../../../src/domain/billing/Usage.ts"
import { free, type Pricing, rateFromUsd, ratesFor, rateToUsd } from "../../../src/domain/catalog/Pricing.ts"
import { fromUsd, nanoUsd, toUsd, zero } from "../../../src/domain/shared/Money.ts"

/** Up to 1,000 USD per million tokens, in nano-USD. */
const rate = fc.bigInt({ min: 0n, max: 1_000_000_000_000n })
const optionalRate = fc.option(rate, { nil: null })
const rates = { input: rate, output: rate, cacheRead: optionalRate, cacheWrite: optionalRate }
const pricing: fc.Arbitrary<Pricing> = fc.record({
  ...rates,
  reasoning: optionalRate,
  longContext: fc.option(fc.record({ inputTokensAbove: fc.integer({ min: 1, max: 1_000_000 }), ...rates }), {
    nil: null
  })
})
const flatPricing = pricing.map((pricing) => ({ ...pricing, longContext: null }))

const tokens = fc.integer({ min: 0, max: 2_000_000 })
const usage: fc.Arbitrary<Usage> = fc.record({
  input: tokens,
  cacheRead: tokens,
  cacheWrite: tokens,
  output: tokens,
  reasoning: tokens
})
const bucket = fc.constantFrom<keyof Usage>("input", "cacheRead", "cacheWrite", "output", "reasoning")
const amount = fc.bigInt({ min: 0n, max: 1_000_000_000_000_000n }).map(nanoUsd)

const million = 1_000_000

describe("rates", () => {
  it("survive the way to a JSON number and back", () => {
    fc.assert(fc.property(rate, (rate) => assert.strictEqual(rateFromUsd(rateToUsd(rate)), rate)))
  })

  it("give back every decimal price of up to nine places", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999 }), fc.integer({ min: 0, max: 999_999_999 }), (usd, nano) => {
        const price = Number(`${usd}.${String(nano).padStart(9, "0")}`)
        assert.strictEqual(rateToUsd(rateFromUsd(price)), price)
        assert.strictEqual(rateFromUsd(price), BigInt(usd) * 1_000_000_000n + BigInt(nano))
      })
    )
  })

  it("of the long-context tier begin one token above its threshold", () => {
    const tiered: Pricing = {
      ...free,
      input: 1n,
      output: 2n,
      reasoning: 3n,
      longContext: { inputTokensAbove: 200_000, input: 10n, output: 20n, cacheRead: 1n, cacheWrite: null }
    }
    assert.deepStrictEqual(ratesFor(tiered, 200_000), {
      input: 1n,
      output: 2n,
      cacheRead: 1n,
      cacheWrite: 1n,
      reasoning: 3n
    })
    assert.deepStrictEqual(ratesFor(tiered, 200_001), {
      input: 10n,
      output: 20n,
      cacheRead: 1n,
      cacheWrite: 10n,
      reasoning: 20n
    })
  })
})

describe("the cost of a usage", () => {
  it("counts cached tokens for the tier and charges each bucket at its own rate", () => {
    const tiered: Pricing = {
      input: rateFromUsd(2.5),
      output: rateFromUsd(10),
      cacheRead: rateFromUsd(1.25),
      cacheWrite: rateFromUsd(3),
      reasoning: rateFromUsd(12),
      longContext: {
        inputTokensAbove: 200_000,
        input: rateFromUsd(5),
        output: rateFromUsd(15),
        cacheRead: rateFromUsd(2.5),
        cacheWrite: rateFromUsd(6)
      }
    }
    const short = { input: 1000, cacheRead: 2000, cacheWrite: 3000, output: 400, reasoning: 50 }
    assert.strictEqual(costOf(tiered, short), fromUsd((2500 + 2500 + 9000 + 4000 + 600) / million))
    const long = { input: 100_000, cacheRead: 100_001, cacheWrite: 0, output: 10, reasoning: 10 }
    assert.strictEqual(costOf(tiered, long), fromUsd((500_000 + 250_002.5 + 300) / million))
  })

  it("is never negative, and zero only when nothing has a price", () => {
    fc.assert(
      fc.property(pricing, usage, (pricing, usage) => {
        const rates = ratesFor(pricing, inputTokens(usage))
        const charged = (Object.keys(usage) as Array<keyof Usage>).some(
          (bucket) => usage[bucket] > 0 && rates[bucket] > 0n
        )
        assert.strictEqual(costOf(pricing, usage) > zero, charged)
        assert.isTrue(costOf(pricing, usage) >= zero)
        assert.strictEqual(costOf(null, usage), zero)
        assert.strictEqual(costOf(free, usage), zero)
      })
    )
  })

  it("never falls when a token is added", () => {
    fc.assert(
      fc.property(flatPricing, usage, bucket, tokens, (pricing, usage, bucket, more) => {
        assert.isTrue(costOf(pricing, { ...usage, [bucket]: usage[bucket] + more }) >= costOf(pricing, usage))
      })
    )
  })

  it("never falls across a tier whose rates are no lower", () => {
    fc.assert(
      fc.property(
        flatPricing,
        usage,
        bucket,
        tokens,
        fc.integer({ min: 1, max: 3 }),
        (flat, usage, bucket, more, times) => {
          const { cacheRead, cacheWrite, input, output, reasoning } = ratesFor(flat, 0)
          const dearest = output > reasoning ? output : reasoning
          const by = (rate: bigint) => rate * BigInt(times)
          const tiered: Pricing = {
            ...flat,
            longContext: {
              inputTokensAbove: 200_000,
              input: by(input),
              output: by(dearest),
              cacheRead: by(cacheRead),
              cacheWrite: by(cacheWrite)
            }
          }
          assert.isTrue(costOf(tiered, { ...usage, [bucket]: usage[bucket] + more }) >= costOf(tiered, usage))
        }
      )
    )
  })
})

describe("a hold", () => {
  it("for the worst case covers every way the same tokens can turn out", () => {
    fc.assert(
      fc.property(pricing, usage, (pricing, usage) => {
        const worst = worstCost(pricing, inputTokens(usage), usage.output + usage.reasoning)
        assert.isTrue(costOf(pricing, usage) <= worst)
      })
    )
  })

  it("for the output that an amount affords never exceeds the amount, and one token more does", () => {
    fc.assert(
      fc.property(pricing, tokens, amount, tokens, (pricing, input, amount, most) => {
        const output = affordableOutput(pricing, input, amount, most)
        if (output === -1) {
          assert.isTrue(worstCost(pricing, input, 0) > amount)
        } else {
          assert.isTrue(worstCost(pricing, input, output) <= amount)
          assert.isAtMost(output, most)
          if (output < most) assert.isTrue(worstCost(pricing, input, output + 1) > amount)
        }
      })
    )
  })
})

describe("money", () => {
  it("sums a million events of 0.0000001 USD exactly", () => {
    let sum = zero
    for (let event = 0; event < million; event++) sum = nanoUsd(sum + fromUsd(0.0000001))
    assert.strictEqual(sum, fromUsd(0.1))
    assert.strictEqual(toUsd(sum), 0.1)
  })
})
