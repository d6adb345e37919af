import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect } from "effect"
import { isIP } from "node:net"
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

describe("where other replicas reach this one", () => {
  it.effect("is an address of this machine and any free port by default", () =>
    Effect.gen(function* () {
      const { cluster } = yield* read({})
      assert.isAbove(isIP(cluster.host), 0)
      assert.strictEqual(cluster.port, 0)
      const named = yield* read({ CLUSTER_HOST: "replica-1.gateway", CLUSTER_PORT: "34431" })
      assert.deepStrictEqual(named.cluster, { host: "replica-1.gateway", port: 34_431 })
    })
  )

  it.effect.each(["-1", "65536", "any"])("is not at port %s", (value) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(read({ CLUSTER_PORT: value }))
      assert.strictEqual(error.message, "CLUSTER_PORT: expected a port from 0 to 65535.")
    })
  )
})

describe("the roots of agents' sources", () => {
  it.effect("are absolute directories, divided by colons; none by default", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* read({})).agentSourceRoots, [])
      assert.deepStrictEqual((yield* read({ AGENT_SOURCE_ROOTS: "/srv/agents" })).agentSourceRoots, ["/srv/agents"])
      assert.deepStrictEqual((yield* read({ AGENT_SOURCE_ROOTS: "/a:/b c" })).agentSourceRoots, ["/a", "/b c"])
    })
  )

  it.effect.each(["agents", "/a:b", "/a:", "~/agents"])("are refused: %s", (value) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(read({ AGENT_SOURCE_ROOTS: value }))
      assert.strictEqual(error.message, "AGENT_SOURCE_ROOTS: expected absolute directories, divided by :.")
    })
  )
})

describe("what callers may reach", () => {
  it.effect("is everything on a machine of one's own, and nothing inside on a server", () =>
    Effect.gen(function* () {
      const embedded = yield* read({})
      assert.deepStrictEqual([embedded.egress.allowPrivate, embedded.mcp.stdio], [true, "allowed"])
      const DATABASE_URL = "postgres://user@host/name"
      const server = yield* read({ DATABASE_URL })
      assert.deepStrictEqual([server.egress.allowPrivate, server.mcp.stdio], [false, "refused"])
      const opened = yield* read({ DATABASE_URL, ALLOW_PRIVATE_UPSTREAMS: "true", MCP_STDIO: "allowed" })
      assert.deepStrictEqual([opened.egress.allowPrivate, opened.mcp.stdio], [true, "allowed"])
    })
  )

  it.effect("is not guessed", () =>
    Effect.gen(function* () {
      const mcp = yield* Effect.flip(read({ MCP_STDIO: "yes" }))
      assert.strictEqual(mcp.message, "MCP_STDIO: expected allowed or refused.")
      const egress = yield* Effect.flip(read({ ALLOW_PRIVATE_UPSTREAMS: "1" }))
      assert.strictEqual(egress.message, "ALLOW_PRIVATE_UPSTREAMS: expected true or false.")
    })
  )

  it.effect("gives programs of tenants only what is listed of the environment", () =>
    Effect.gen(function* () {
      const { mcp } = yield* read({ PATH: "/bin", HOME: "/home/x", OPENAI_API_KEY: "k", SECRETS_KEY: "" })
      assert.deepStrictEqual(mcp.environment, { PATH: "/bin", HOME: "/home/x" })
    })
  )
})
