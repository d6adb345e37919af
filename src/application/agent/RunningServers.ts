import { Effect, Exit, Scope } from "effect"
import { changedKeys } from "../../domain/agent/ConfigDiff.ts"
import { McpConnector, McpFailed } from "../ports/mcp/McpConnector.ts"
import { type McpServers, UnknownMcpServer } from "./McpServers.ts"
import { type ServerConfig, type ServerEvent, type SupervisedServer, supervise } from "./SupervisedServer.ts"

type Configs = ReadonlyMap<string, ServerConfig>

/** The MCP servers of one running agent, until the scope ends. */
export interface RunningServers extends McpServers {
  /**
   * Follows a change of the configuration: only servers that changed are started, ended or take another's place. When a
   * server that is `strict` cannot be connected, nothing changes.
   */
  readonly follow: (before: Configs, after: Configs) => Effect.Effect<void, McpFailed>
  /** Whether there are servers that are not of the configuration: they would be gone if the agent were stopped. */
  readonly hasAdded: Effect.Effect<boolean>
}

/** What one agent may have at most: each may be a process. */
const mostServers = 64

interface Entry {
  readonly server: SupervisedServer
  readonly scope: Scope.Closeable
  readonly added: boolean
}

export const make = Effect.fnUntraced(function* (
  tell: (server: string, event: ServerEvent | { readonly _tag: "Removed" }) => Effect.Effect<void>
): Effect.fn.Return<RunningServers, never, McpConnector | Scope.Scope> {
  const connector = yield* McpConnector
  const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
  const entries = new Map<string, Entry>()

  const begin = Effect.fnUntraced(function* (name: string, config: ServerConfig, added: boolean) {
    const own = yield* Scope.fork(scope)
    const server = yield* supervise(name, config, (event) => tell(name, event)).pipe(
      Effect.provideService(McpConnector, connector),
      Scope.provide(own)
    )
    return { server, scope: own, added }
  })

  const end = (entry: Entry | undefined) => (entry === undefined ? Effect.void : Scope.close(entry.scope, Exit.void))

  /** Takes the place of the one of this name. */
  const put = (name: string, entry: Entry) =>
    Effect.suspend(() => {
      const before = entries.get(name)
      entries.set(name, entry)
      return end(before)
    })

  const drop = (name: string) =>
    Effect.suspend(() => {
      const before = entries.get(name)
      entries.delete(name)
      return before === undefined ? Effect.void : Effect.andThen(end(before), tell(name, { _tag: "Removed" }))
    })

  const known = (name: string) =>
    Effect.suspend(() => {
      const entry = entries.get(name)
      return entry === undefined ? Effect.fail(new UnknownMcpServer({ server: name })) : Effect.succeed(entry)
    })

  const add = Effect.fn("McpServers.add")(function* (name: string, config: Parameters<McpServers["add"]>[1]) {
    if (!entries.has(name) && entries.size >= mostServers) {
      return yield* new McpFailed({
        server: name,
        reason: "refused",
        message: `An agent has at most ${mostServers} MCP servers.`
      })
    }
    const whole = { ...config, timeout: config.timeout ?? 30_000, connectionMode: config.connectionMode ?? "lenient" }
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const next = yield* begin(name, whole, true)
        yield* Effect.onError(restore(next.server.connection), () => end(next))
        yield* put(name, next)
      })
    )
  })

  const follow = Effect.fn("McpServers.follow")(function* (before: Configs, after: Configs) {
    const changed: Array<readonly [string, ServerConfig]> = []
    for (const [name, config] of after) {
      if (isSame(before.get(name), config)) continue
      const entry = entries.get(name)
      // It was added while the agent ran, and has been written into the configuration since.
      if (entry !== undefined && isSame(entry.server.config, config)) entries.set(name, { ...entry, added: false })
      else changed.push([name, config])
    }
    const gone = [...before.keys()].filter((name) => !after.has(name))
    yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const begun = yield* Effect.forEach(changed, ([name, config]) =>
          Effect.map(begin(name, config, false), (entry) => [name, entry] as const)
        )
        const strict = begun.filter(([, { server }]) => server.config.connectionMode === "strict")
        yield* restore(Effect.forEach(strict, ([, { server }]) => server.connection, together)).pipe(
          Effect.onError(() => Effect.forEach(begun, ([, entry]) => end(entry), together))
        )
        // What has ended may take its time to be gone; what has begun is there at once.
        yield* Effect.forEach(
          [...begun.map(([name, entry]) => put(name, entry)), ...gone.map(drop)],
          (effect) => effect,
          together
        )
      })
    )
  })

  return {
    list: Effect.suspend(() =>
      Effect.forEach([...entries], ([name, { server }]) =>
        Effect.map(server.state, (state) =>
          state === undefined
            ? { id: name, name, status: "error" as const, error: "It is just being connected." }
            : state instanceof McpFailed
              ? { id: name, name, status: "error" as const, error: state.message }
              : { id: name, name, status: "connected" as const }
        )
      )
    ),
    connection: (name) => Effect.flatMap(known(name), ({ server }) => server.connection),
    add,
    remove: (name) => Effect.andThen(known(name), drop(name)),
    restart: (name) => Effect.flatMap(known(name), ({ server }) => server.restart),
    follow,
    hasAdded: Effect.sync(() => [...entries.values()].some(({ added }) => added))
  }
})

const together = { concurrency: "unbounded", discard: true } as const

const isSame = (a: ServerConfig | undefined, b: ServerConfig): boolean =>
  a !== undefined && changedKeys({ server: a }, { server: b }).length === 0
