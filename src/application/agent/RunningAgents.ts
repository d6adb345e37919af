import { Context, type Effect, Schema, type Stream } from "effect"
import type { AgentConfig, McpServerConfig } from "../../domain/agent/AgentConfig.ts"
import type { OrganizationId } from "../../domain/shared/Ids.ts"
import type { McpConnection, McpFailed } from "../ports/mcp/McpConnector.ts"
import type { AgentFile, NoCurrentAgent } from "./CurrentAgent.ts"

/** The configuration of the current agent has mistakes, so it cannot run. */
export class AgentNotRunnable extends Schema.TaggedError<AgentNotRunnable>()("AgentNotRunnable", {
  message: Schema.String
}) {}

/** No MCP server of this name is connected or configured. */
export class UnknownMcpServer extends Schema.TaggedError<UnknownMcpServer>()("UnknownMcpServer", {
  server: Schema.String
}) {
  override get message() {
    return `There is no MCP server ${JSON.stringify(this.server)}. GET /api/mcp/servers lists them.`
  }
}

/**
 * The agents that run in this process: one for each workspace, started when it is first needed and again when its
 * configuration, its `.env` or its registry changes here or on another replica. It has the configuration in force and
 * the connections to its MCP servers, each supervised by itself: lost ones are restarted with backoff.
 */
export class RunningAgents extends Context.Service<
  RunningAgents,
  {
    readonly of: (workspace: OrganizationId) => Effect.Effect<RunningAgent, NoCurrentAgent | AgentNotRunnable>
    /**
     * Brings the running agent up to its files now. Gives the top-level keys whose values changed, and whether the agent
     * had to be started anew: changes of what it only reads, such as the greeting, are taken over as it runs.
     */
    readonly reload: (
      workspace: OrganizationId
    ) => Effect.Effect<
      { readonly changes: ReadonlyArray<string>; readonly restarted: boolean },
      NoCurrentAgent | AgentNotRunnable
    >
    readonly events: Stream.Stream<AgentEvent>
  }
>()("gateway/agent/RunningAgents") {}

export interface RunningAgent {
  readonly file: AgentFile
  readonly config: AgentConfig
  readonly mcp: McpServers
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

/** What happens to running agents, for whoever shows it (decisions 6). */
export type AgentEvent = { readonly workspace: OrganizationId } & (
  | { readonly _tag: "AgentRestarted"; readonly agentId: string; readonly changesApplied: ReadonlyArray<string> }
  | { readonly _tag: "McpServerConnected"; readonly name: string; readonly success: boolean; readonly error?: string }
  | { readonly _tag: "ToolsUpdated"; readonly tools: ReadonlyArray<string>; readonly source: string }
  | {
      readonly _tag: "ResourcesChanged"
      readonly serverName: string
      readonly resourceUri?: string
      readonly action: "updated" | "server_connected" | "server_removed" | "list_changed"
    }
)
