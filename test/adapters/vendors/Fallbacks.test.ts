import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Redacted } from "effect"
import { withFallbacks } from "../../../src/adapters/vendors/Fallbacks.ts"
import type { CallError, UpstreamCall } from "../../../src/application/ports/vendor/Upstreams.ts"
import { InvalidRequest, UpstreamFailed, UpstreamRefused } from "../../../src/domain/completion/CompletionErrors.ts"

const call: UpstreamCall = {
  route: {
    method: "service",
    upstream: "first",
    upstreamModel: "one",
    fallbacks: [
      { upstream: "second", upstreamModel: "two" },
      { upstream: "third", upstreamModel: "three" }
    ]
  },
  request: { model: "asked", messages: [{ role: "user", content: "Hi" }] },
  outputCap: undefined,
  outputLimit: 100
}

const failed = (reason: UpstreamFailed["reason"], upstream = "first") =>
  new UpstreamFailed({ upstream, reason, detail: `detail of ${upstream}` })
const refused = new UpstreamRefused({ upstream: "first", status: 400, said: "too long" })
const inexpressible = new InvalidRequest({ issues: [{ path: "seed", message: "not there" }] })

/** What is asked, in turn, when the upstreams answer with these errors and then well; and what the caller gets. */
const asked = Effect.fnUntraced(function* (errors: ReadonlyArray<CallError>, made = call) {
  const places: Array<string> = []
  const result = yield* Effect.result(
    withFallbacks(made, ({ request, route }) =>
      Effect.suspend(() => {
        assert.strictEqual(request, call.request)
        const error = errors[places.length]
        places.push(`${route.upstream} ${route.upstreamModel}`)
        return error === undefined ? Effect.succeed("served") : Effect.fail(error)
      })
    )
  )
  return { places, got: result._tag === "Success" ? result.success : result.failure }
})

describe("a model with fallbacks", () => {
  it.effect("is served by its first upstream while that serves", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* asked([]), { places: ["first one"], got: "served" })
    })
  )

  it.effect.each([
    "unreachable",
    "timeout",
    "rate_limited",
    "server_error",
    "credentials_refused",
    "unexpected_status",
    "circuit_open"
  ] as const)("is served by the next one when the first ended: %s", (reason) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* asked([failed(reason)]), { places: ["first one", "second two"], got: "served" })
    })
  )

  it.effect.each([failed("cut_off"), failed("stalled"), failed("malformed_answer"), refused])(
    "stays where an answer had begun, or the request was refused: $message",
    (error) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* asked([error]), { places: ["first one"], got: error })
      })
  )

  it.effect("passes over upstreams that cannot express the request", () =>
    Effect.gen(function* () {
      const { got, places } = yield* asked([inexpressible, failed("unreachable", "second")])
      assert.deepStrictEqual(places, ["first one", "second two", "third three"])
      assert.strictEqual(got, "served")
      assert.strictEqual((yield* asked([inexpressible, inexpressible, inexpressible])).got, inexpressible)
    })
  )

  it.effect.each([
    { errors: [failed("credentials_refused"), failed("server_error"), inexpressible], told: 1 },
    { errors: [failed("timeout"), failed("server_error"), failed("unreachable")], told: 0 },
    { errors: [inexpressible, failed("credentials_refused"), refused], told: 2 },
    { errors: [failed("server_error"), refused], told: 0 }
  ])("tells the error that leaves most to do, the first of several", ({ errors, told }) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* asked(errors)).got, errors[told])
    })
  )

  it.effect("never sends an organization's key elsewhere", () =>
    Effect.gen(function* () {
      const error = failed("unreachable")
      const own = { ...call, apiKey: Redacted.make("own") }
      assert.deepStrictEqual(yield* asked([error], own), { places: ["first one"], got: error })
    })
  )

  it.effect("names in the log who failed and who served", () =>
    Effect.gen(function* () {
      const logged: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void logged.push(message))])
      const errors = [failed("timeout"), failed("circuit_open", "second")]
      yield* asked(errors).pipe(Effect.provide(Layer.fresh(logger)))
      const about = { model: "asked", served: "third" }
      assert.deepStrictEqual(logged, [
        [
          "An upstream failed, another one served.",
          { ...about, failed: "first", reason: "timeout", detail: "detail of first" }
        ],
        [
          "An upstream failed, another one served.",
          { ...about, failed: "second", reason: "circuit_open", detail: "detail of second" }
        ]
      ])
    })
  )
})
