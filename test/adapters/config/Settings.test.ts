import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect } from "effect"
import { settings } from "../../../src/adapters/config/Settings.ts"

const read = (env: Readonly<Record<string, string>>) =>
  Effect.provideService(settings, ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))

describe("the deadlines of upstreams", () => {
  it.effect("are left to their adapter when they are not set", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* read({ UPSTREAM_IDLE_TIMEOUT: "" })).deadlines, {})
    })
  )

  it.effect("are times, seconds when no unit is given", () =>
    Effect.gen(function* () {
      const { deadlines } = yield* read({
        UPSTREAM_CONNECT_TIMEOUT: "3",
        UPSTREAM_FIRST_BYTE_TIMEOUT: "10m",
        UPSTREAM_IDLE_TIMEOUT: "500ms",
        UPSTREAM_TOTAL_TIMEOUT: "1440m"
      })
      assert.deepStrictEqual(deadlines, {
        connect: Duration.seconds(3),
        firstByte: Duration.minutes(10),
        idle: Duration.millis(500),
        total: Duration.hours(24)
      })
    })
  )

  it.effect.each(["0", "-1", "soon", "1441m", "0.1ms", "1e9"])("are refused: %s", (value) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(read({ UPSTREAM_IDLE_TIMEOUT: value }))
      assert.strictEqual(error.message, "UPSTREAM_IDLE_TIMEOUT: expected a time from 1ms to 1440m, such as 90s or 5m.")
    })
  )
})
