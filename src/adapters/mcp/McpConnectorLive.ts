import { Effect, Layer } from "effect"
import { McpConnector } from "../../application/ports/mcp/McpConnector.ts"
import { Egress } from "../../application/ports/runtime/Egress.ts"
import type { McpOptions } from "./Connector.ts"

/** The library is loaded by the first connection: commands, and services without MCP servers, start faster without. */
export const layer = (options: McpOptions): Layer.Layer<McpConnector, never, Egress> =>
  Layer.effect(
    McpConnector,
    Effect.gen(function* () {
      const egress = yield* Egress
      const connector = yield* Effect.cached(
        Effect.map(
          Effect.promise(() => import("./Connector.ts")),
          ({ make }) => make(options, egress)
        )
      )
      return McpConnector.of({
        connect: (name, config) => Effect.flatMap(connector, ({ connect }) => connect(name, config))
      })
    })
  )
