import { type Effect, Schema } from "effect"
import type { McpServerConfig } from "../../domain/agent/AgentConfig.ts"
import type { McpConnection, McpFailed } from "../ports/mcp/McpConnector.ts"

/** No MCP server of this name is connected or configured. */
export class UnknownMcpServer extends Schema.TaggedError<UnknownMcpServer>()("UnknownMcpServer", {
  server: Schema.String
}) {
  override get message() {
    return `There is no MCP server ${JSON.stringify(this.server)}. GET /api/mcp/servers lists them.`
  }
}

/** The MCP servers of one running agent: those of its configuration, and those added while it runs. */
export interface McpServers {
  readonly list: Effect.Effect<ReadonlyArray<McpServerStatus>>
  /** A connected server; waits for one that is just being started. */
  readonly connection: (server: string) => Effect.Effect<McpConnection, UnknownMcpServer | McpFailed>
  /** Adds a server, or takes the place of the one of this name, until the agent is started anew. */
  readonly add: (server: string, config: McpServerConfig) => Effect.Effect<void, McpFailed>
  readonly remove: (server: string) => Effect.Effect<void, UnknownMcpServer>
  readonly restart: (server: string) => Effect.Effect<void, UnknownMcpServer | McpFailed>
}

export interface McpServerStatus {
  readonly id: string
  readonly name: string
  readonly status: "connected" | "error"
  /** Why it is in error. */
  readonly error?: string
}
