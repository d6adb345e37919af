import { Clock, Deferred, Effect, FiberHandle, Option, Random, type Scope, Stream } from "effect"
import type { AgentConfig } from "../../domain/agent/AgentConfig.ts"
import { type McpConnection, McpConnector, McpFailed } from "../ports/mcp/McpConnector.ts"

/** An MCP server's configuration with every default in its place. */
export type ServerConfig = AgentConfig["mcpServers"] extends ReadonlyMap<string, infer Config> ? Config : never

/** What happens to a server. */
export type ServerEvent =
  | { readonly _tag: "Connected"; readonly tools: ReadonlyArray<string> }
  | { readonly _tag: "Failed"; readonly failure: McpFailed }
  | { readonly _tag: "ToolsChanged"; readonly tools: ReadonlyArray<string> }
  | { readonly _tag: "ResourcesChanged"; readonly uri: string | undefined }

/**
 * An MCP server that is kept connected until the scope ends. A lost connection, or one that did not come about, is made
 * again: first after a second, then after twice as long each time, but never later than after a minute.
 */
export interface SupervisedServer {
  readonly config: ServerConfig
  /** The connection, or why there is none; undefined while it is being made. */
  readonly state: Effect.Effect<McpConnection | McpFailed | undefined>
  /** Waits for the attempt that is under way. */
  readonly connection: Effect.Effect<McpConnection, McpFailed>
  /** Ends the connection and makes another one now; tells how that attempt went. */
  readonly restart: Effect.Effect<void, McpFailed>
}

/** In milliseconds. */
const firstPause = 1_000
const longestPause = 60_000

/** A connection that lasted so long, in milliseconds, was a good one: its loss starts the pauses anew. */
const lasting = 60_000

export const supervise = Effect.fnUntraced(function* (
  name: string,
  config: ServerConfig,
  tell: (event: ServerEvent) => Effect.Effect<void>
): Effect.fn.Return<SupervisedServer, never, McpConnector | Scope.Scope> {
  const connector = yield* McpConnector
  const keeper = yield* FiberHandle.make()
  let outcome = Deferred.makeUnsafe<McpConnection, McpFailed>()

  const toolsOf = (connection: McpConnection) => Effect.map(connection.tools, (tools) => tools.map(({ name }) => name))

  /** A server that says that something changed, and then does not tell what, has changed nothing. */
  const follow = (connection: McpConnection) =>
    Stream.runForEach(connection.notices, (notice) => {
      if (notice === "prompts") return Effect.void
      if (notice !== "tools") {
        return tell({ _tag: "ResourcesChanged", uri: notice === "resources" ? undefined : notice.resource })
      }
      return toolsOf(connection).pipe(
        Effect.flatMap((tools) => tell({ _tag: "ToolsChanged", tools })),
        Effect.ignore({ log: false })
      )
    })

  /** From one attempt to the end of what came of it. Gives how long there was a connection, in milliseconds. */
  const live = (attempt: Deferred.Deferred<McpConnection, McpFailed>) =>
    Effect.gen(function* () {
      const connection = yield* connector.connect(name, config)
      const since = yield* Clock.currentTimeMillis
      yield* Deferred.succeed(attempt, connection)
      yield* Effect.forkScoped(
        Effect.gen(function* () {
          const tools = yield* Effect.orElseSucceed(toolsOf(connection), () => [])
          yield* tell({ _tag: "Connected", tools })
          yield* follow(connection)
        })
      )
      const failure = yield* connection.lost
      const lost = Deferred.makeUnsafe<McpConnection, McpFailed>()
      yield* Deferred.fail(lost, failure)
      outcome = lost
      yield* tell({ _tag: "Failed", failure })
      return (yield* Clock.currentTimeMillis) - since
    }).pipe(
      Effect.scoped,
      Effect.catch((failure) =>
        Effect.gen(function* () {
          yield* Deferred.fail(attempt, failure)
          yield* tell({ _tag: "Failed", failure })
          // It will not become another one by waiting.
          return failure.reason === "forbidden address" ? yield* Effect.never : 0
        })
      ),
      // Nobody waits for an attempt that was given up.
      Effect.ensuring(Deferred.fail(attempt, givenUp(name)))
    )

  const keep = Effect.fnUntraced(function* (first: Deferred.Deferred<McpConnection, McpFailed>) {
    let attempt = first
    let pause = firstPause
    for (;;) {
      const lasted = yield* live(attempt)
      if (lasted >= lasting) pause = firstPause
      yield* Effect.sleep(pause * (0.75 + 0.5 * (yield* Random.next)))
      pause = Math.min(pause * 2, longestPause)
      attempt = Deferred.makeUnsafe()
      outcome = attempt
    }
  })

  const begin = Effect.suspend(() => {
    const attempt = Deferred.makeUnsafe<McpConnection, McpFailed>()
    outcome = attempt
    return Effect.as(FiberHandle.run(keeper, keep(attempt)), attempt)
  })

  yield* begin

  return {
    config,
    state: Effect.suspend(() => Deferred.poll(outcome)).pipe(
      Effect.flatMap(Option.match({ onNone: () => Effect.undefined, onSome: Effect.catch(Effect.succeed) }))
    ),
    connection: Effect.suspend(() => Deferred.await(outcome)),
    restart: FiberHandle.clear(keeper).pipe(Effect.andThen(begin), Effect.flatMap(Deferred.await), Effect.asVoid)
  }
})

const givenUp = (server: string) =>
  new McpFailed({
    server,
    reason: "closed",
    message: `MCP server ${JSON.stringify(server)}: the connection was ended by this service.`
  })
